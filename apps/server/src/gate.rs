//! A connection as the gRPC service reads it: a stranger's one call at a time.
//!
//! A few bytes of HTTP/2's compressed headers may decode to a hundred times as much, and all that has come in is
//! decoded before any of it is looked at. So until its peer has shown the key, a connection is read frame by frame, and
//! no further than one call's headers until that call was let in or refused. What its peer sends meanwhile waits in the
//! kernel. After the key it is read as it comes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::authentication::{Authentication, ConnectionInfo, MOST_SENT};

/// How long a new connection may take until it counts as open.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a call may wait to be looked at. One that HTTP/2 refuses by itself never is.
const JUDGEMENT: Duration = Duration::from_secs(5);

/// A connection that was accepted.
pub(crate) trait Accepted: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether its peer has shown the key.
    fn authentication(&self) -> &Arc<Authentication>;
}

/// Encryption, if there is any.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// Who comes so far has shown a certificate, and there is no key to show.
    pub(crate) authenticates: bool,
}

/// Makes connections ready to be served, until the receiver is dropped.
pub(crate) fn open<C: Accepted>(
    mut connections: mpsc::Receiver<io::Result<C>>,
    tls: Option<Tls>,
) -> mpsc::Receiver<io::Result<Gate<C>>> {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            let connection = tokio::select! {
                connection = connections.recv() => connection,
                () = sender.closed() => return,
            };
            let Some(Ok(connection)) = connection else {
                return;
            };
            let Some(tls) = tls.clone() else {
                // An error means that nobody serves any more.
                let _ = sender.send(Ok(Gate::plain(connection))).await;
                continue;
            };
            let sender = sender.clone();
            // Bounded, as connections are; one that ends early, or is closed for a newer one, ends its handshake.
            tokio::spawn(async move {
                let handshake = tls.acceptor.accept(connection);
                match timeout(HANDSHAKE, handshake).await {
                    Ok(Ok(stream)) => {
                        if tls.authenticates {
                            stream.get_ref().0.authentication().confirm();
                        }
                        let _ = sender.send(Ok(Gate::encrypted(stream))).await;
                    }
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                }
            });
        }
    });
    receiver
}

enum Stream<C> {
    Plain(C),
    Tls(Box<TlsStream<C>>),
}

/// A connection, read as its peer deserves.
pub(crate) struct Gate<C> {
    stream: Stream<C>,
    authentication: Arc<Authentication>,
    frames: Frames,
    /// Since when a call waits to be looked at.
    patience: Option<Pin<Box<Sleep>>>,
    /// Bytes that were read.
    sent: u64,
    /// The peer does not take what is written.
    blocked: bool,
}

impl<C: Accepted> Gate<C> {
    fn plain(connection: C) -> Self {
        let authentication = Arc::clone(connection.authentication());
        Self::new(Stream::Plain(connection), authentication)
    }

    fn encrypted(stream: TlsStream<C>) -> Self {
        let authentication = Arc::clone(stream.get_ref().0.authentication());
        Self::new(Stream::Tls(Box::new(stream)), authentication)
    }

    fn new(stream: Stream<C>, authentication: Arc<Authentication>) -> Self {
        Self {
            stream,
            authentication,
            frames: Frames::default(),
            patience: None,
            sent: 0,
            blocked: false,
        }
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut (dyn ReadWrite + Send)> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream),
            Stream::Tls(stream) => Pin::new(stream),
        }
    }

    /// Reads some of what a stranger may have read now.
    fn poll_read_stranger(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.authentication.has_judged(self.frames.calls, context) {
            if self.authentication.is_closed(context) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            let patience = self
                .patience
                .get_or_insert_with(|| Box::pin(sleep(JUDGEMENT)));
            ready!(patience.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.patience = None;
        if self.blocked {
            // The task is woken when the peer reads on; it writes then, and comes here again.
            return match self.authentication.is_closed(context) {
                true => Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                false => Poll::Pending,
            };
        }
        let mut bytes = [0; 2 << 10];
        let most = self.frames.next().min(bytes.len()).min(buffer.remaining());
        let mut part = ReadBuf::new(&mut bytes[..most]);
        ready!(self.as_mut().inner().poll_read(context, &mut part))?;
        let read = part.filled();
        self.sent += read.len() as u64;
        self.authentication.charge(read.len() as u64);
        if self.sent > MOST_SENT || self.frames.take(read).is_err() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        buffer.put_slice(read);
        Poll::Ready(Ok(()))
    }

    fn wrote<T>(&mut self, written: &Poll<io::Result<T>>) {
        self.blocked = written.is_pending();
    }
}

trait ReadWrite: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> ReadWrite for T {}

impl<C: Accepted> AsyncRead for Gate<C> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.authentication.is_confirmed() {
            true => self.inner().poll_read(context, buffer),
            false => self.poll_read_stranger(context, buffer),
        }
    }
}

impl<C: Accepted> AsyncWrite for Gate<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().inner().poll_write(context, bytes);
        self.wrote(&written);
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().inner().poll_write_vectored(context, buffers);
        self.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

impl<C: Accepted> Connected for Gate<C> {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        ConnectionInfo(Arc::clone(&self.authentication))
    }
}

const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// Where in HTTP/2's frames a connection is.
#[derive(Debug)]
struct Frames {
    at: At,
    /// The latest stream.
    stream: u32,
    /// Calls whose headers were read.
    calls: u64,
}

#[derive(Debug)]
enum At {
    Preface {
        left: usize,
    },
    Head {
        bytes: [u8; FRAME_HEAD],
        known: usize,
    },
    Payload {
        left: usize,
        ends_headers: bool,
    },
}

const NEXT_FRAME: At = At::Head {
    bytes: [0; FRAME_HEAD],
    known: 0,
};

impl Default for Frames {
    fn default() -> Self {
        let at = At::Preface { left: PREFACE };
        Self {
            at,
            stream: 0,
            calls: 0,
        }
    }
}

/// Headers on a stream that has begun: no gRPC client sends trailers.
#[derive(Debug, PartialEq, Eq)]
struct Trailers;

impl Frames {
    /// Bytes that may be read before it is known how it goes on; at least one.
    fn next(&self) -> usize {
        match self.at {
            At::Preface { left } | At::Payload { left, .. } => left,
            At::Head { known, .. } => FRAME_HEAD - known,
        }
    }

    /// Takes in what was read, at most as much as is [`next`](Self::next).
    fn take(&mut self, read: &[u8]) -> Result<(), Trailers> {
        match &mut self.at {
            At::Preface { left } => {
                *left -= read.len();
                if *left == 0 {
                    self.at = NEXT_FRAME;
                }
            }
            At::Head { bytes, known } => {
                bytes[*known..][..read.len()].copy_from_slice(read);
                *known += read.len();
                if *known == FRAME_HEAD {
                    let head = *bytes;
                    self.begin(head)?;
                }
            }
            At::Payload { left, .. } => {
                *left -= read.len();
                self.end();
            }
        }
        Ok(())
    }

    fn begin(&mut self, head: [u8; FRAME_HEAD]) -> Result<(), Trailers> {
        let [a, b, c, kind, flags, stream @ ..] = head;
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        if kind == HEADERS {
            if stream <= self.stream {
                return Err(Trailers);
            }
            self.stream = stream;
        }
        self.at = At::Payload {
            left: u32::from_be_bytes([0, a, b, c]) as usize,
            ends_headers: matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0,
        };
        self.end();
        Ok(())
    }

    /// Goes on to the next frame if this one is over.
    fn end(&mut self) {
        if let At::Payload {
            left: 0,
            ends_headers,
        } = self.at
        {
            self.calls += u64::from(ends_headers);
            self.at = NEXT_FRAME;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend(std::iter::repeat_n(0xff, length.into()));
        frame
    }

    /// Reads all of it, `most` bytes at a time. After how many bytes each call's headers ended.
    fn calls(bytes: &[u8], most: usize) -> Result<Vec<usize>, Trailers> {
        let mut frames = Frames::default();
        let (mut at, mut ends) = (0, Vec::new());
        while at < bytes.len() {
            let read = frames.next().min(most).min(bytes.len() - at);
            assert!(read > 0);
            let before = frames.calls;
            frames.take(&bytes[at..at + read])?;
            at += read;
            if frames.calls > before {
                ends.push(at);
            }
        }
        Ok(ends)
    }

    #[test]
    fn the_end_of_each_calls_headers_is_seen_and_nothing_behind_it_read() {
        const DATA: u8 = 0;
        const SETTINGS: u8 = 4;
        let mut bytes = vec![7; PREFACE];
        bytes.extend(frame(SETTINGS, 0, 0, 12));
        bytes.extend(frame(SETTINGS, 1, 0, 0));
        bytes.extend(frame(HEADERS, END_HEADERS | 1, 1, 40));
        let first = bytes.len();
        bytes.extend(frame(DATA, END_HEADERS, 1, 3));
        bytes.extend(frame(HEADERS, 0, 3, 9));
        bytes.extend(frame(CONTINUATION, 0, 3, 0));
        bytes.extend(frame(CONTINUATION, END_HEADERS, 3, 0));
        let second = bytes.len();
        bytes.extend(frame(DATA, 1, 3, 200));
        for most in [1, 7, 1_000] {
            assert_eq!(calls(&bytes, most), Ok(vec![first, second]), "{most}");
        }
        bytes.extend(frame(HEADERS, END_HEADERS, 3, 9));
        assert_eq!(calls(&bytes, 5), Err(Trailers));
    }
}
