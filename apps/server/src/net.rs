//! The ports' connections: bounded in number and in age, and each has to become one soon.
//!
//! Once a connection is open, HTTP/2's keep-alive finds clients that have gone away and asks old ones to connect anew.
//! What never gets that far, a silent connection or half a handshake, is ended here.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::admin::metrics::Meters;
use crate::authentication::{Authentication, Unauthenticated};
use crate::gate::{Accepted, HANDSHAKE};

/// Connections that the kernel queues while the server is busy accepting others.
const BACKLOG: u32 = 4_096;

/// How long a new connection waits for the place of one that is being closed.
const NOTICE: Duration = Duration::from_secs(1);

/// How long accepting pauses when the process has no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart need not wait for the old connections' time to run out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What a peer has to do for its connection to count as open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Send bytes, as with HTTP/1, and again each time before `silence` is over. From a request's first byte on it may
    /// take `request` until it is answered, however many bytes more come.
    Bytes {
        silence: Duration,
        request: Duration,
    },
    /// Send bytes, be answered, and send more: so begin TLS and HTTP/2, whose settings each side acknowledges.
    Handshake,
}

/// Accepts connections until the receiver is dropped, at most `most` open at a time, each for at most `age`. Of too
/// many that are `unauthenticated` the oldest is closed.
pub(crate) fn accept(
    listener: TcpListener,
    most: usize,
    age: Duration,
    opening: Opening,
    unauthenticated: Option<Arc<Unauthenticated>>,
    meters: Arc<Meters>,
) -> mpsc::Receiver<io::Result<Connection>> {
    let (sender, receiver) = mpsc::channel(16);
    let free = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // A connection that broke before it was accepted, or no descriptors left: neither is the end.
                    tracing::debug!(%error, "a connection was not accepted");
                    if is_out_of_files(&error) {
                        meters.shed("files");
                        if let Some(unauthenticated) = &unauthenticated {
                            unauthenticated.close_oldest();
                        }
                    }
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let mut permit = Arc::clone(&free).try_acquire_owned().ok();
            if permit.is_none()
                && let Some(unauthenticated) = &unauthenticated
                && unauthenticated.close_oldest()
            {
                // The one that is closed has to notice; more of the new ones wait in the kernel's queue.
                let place = Arc::clone(&free).acquire_owned();
                permit = timeout(NOTICE, place).await.ok().and_then(Result::ok);
            }
            let Some(permit) = permit else {
                meters.shed("connections");
                continue;
            };
            // Answers are small and awaited.
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps Nagle's algorithm");
            }
            let authentication = match &unauthenticated {
                Some(unauthenticated) => unauthenticated.add(),
                None => Arc::default(),
            };
            let meters = Arc::clone(&meters);
            let connection = Connection::new(stream, age, opening, authentication, permit, meters);
            if sender.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    });
    receiver
}

fn is_out_of_files(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

/// An accepted connection, counted until it is dropped.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Its end: soon until it is open, then of silence or of old age.
    end: Pin<Box<Sleep>>,
    /// When it is too old.
    old: Instant,
    stage: Stage,
    authentication: Arc<Authentication>,
    meters: Arc<Meters>,
    _permit: OwnedSemaphorePermit,
}

/// How far a connection has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New(Opening),
    /// The peer has sent bytes.
    Received,
    /// It has been answered.
    Replied,
    /// Until it is too old.
    Open,
    /// A request has begun.
    Asking {
        silence: Duration,
        request: Duration,
    },
    /// It is being answered, or was.
    Answered {
        silence: Duration,
        request: Duration,
    },
}

impl Connection {
    fn new(
        stream: TcpStream,
        age: Duration,
        opening: Opening,
        authentication: Arc<Authentication>,
        permit: OwnedSemaphorePermit,
        meters: Arc<Meters>,
    ) -> Self {
        meters.connections.fetch_add(1, Ordering::Relaxed);
        Self {
            stream,
            end: Box::pin(sleep(HANDSHAKE)),
            old: Instant::now() + age,
            stage: Stage::New(opening),
            authentication,
            meters,
            _permit: permit,
        }
    }

    fn on_read(&mut self) {
        match self.stage {
            Stage::New(Opening::Handshake) => self.stage = Stage::Received,
            Stage::Replied => {
                self.stage = Stage::Open;
                self.end.as_mut().reset(self.old);
            }
            Stage::New(Opening::Bytes { silence, request })
            | Stage::Answered { silence, request } => {
                self.stage = Stage::Asking { silence, request };
                self.end_in(request);
            }
            Stage::Received | Stage::Open | Stage::Asking { .. } => {}
        }
    }

    fn on_write(&mut self) {
        match self.stage {
            Stage::Received => self.stage = Stage::Replied,
            Stage::Asking { silence, request } => {
                self.stage = Stage::Answered { silence, request };
                self.end_in(silence);
            }
            _ => {}
        }
    }

    fn end_in(&mut self, time: Duration) {
        let end = self.old.min(Instant::now() + time);
        self.end.as_mut().reset(end);
    }

    /// Fails when its end has come. Writes ask too: a peer that does not read its answer may not be read from either.
    fn check_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.authentication.is_closed(context) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Accepted for Connection {
    fn authentication(&self) -> &Arc<Authentication> {
        &self.authentication
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.meters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_end(context)?;
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if buffer.filled().len() > before {
            self.on_read();
        }
        Poll::Ready(result)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_end(context)?;
        self.on_write();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_end(context)?;
        self.on_write();
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The admin port's connections, as axum takes them.
pub(crate) struct AdminConnections {
    connections: mpsc::Receiver<io::Result<Connection>>,
    address: SocketAddr,
}

impl AdminConnections {
    pub(crate) fn new(
        connections: mpsc::Receiver<io::Result<Connection>>,
        address: SocketAddr,
    ) -> Self {
        Self {
            connections,
            address,
        }
    }
}

impl axum::serve::Listener for AdminConnections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.connections.recv().await {
                Some(Ok(connection)) => return (connection, self.address),
                Some(Err(_)) => {}
                // Nobody accepts any more: the server is stopping.
                None => std::future::pending().await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    /// A connection as the admin port takes it, and its peer.
    async fn pair(silence: Duration, request: Duration, age: Duration) -> (Connection, TcpStream) {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let opening = Opening::Bytes { silence, request };
        let mut accepted = accept(listener, 1, age, opening, None, Arc::new(Meters::new()));
        let peer = TcpStream::connect(address).await.unwrap();
        (accepted.recv().await.unwrap().unwrap(), peer)
    }

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn one_word_does_not_hold_a_connection() {
        let (mut connection, mut peer) = pair(LONG, SHORT, LONG).await;
        peer.write_all(b"G").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'G');
        let silent = connection.read_u8().await.unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_word_now_and_then_does_not_hold_a_connection() {
        let (mut connection, mut peer) = pair(LONG, LONG, 2 * LONG).await;
        peer.write_all(b"G").await.unwrap();
        connection.read_u8().await.unwrap();
        let end = connection.end.deadline();
        peer.write_all(b"E").await.unwrap();
        connection.read_u8().await.unwrap();
        assert_eq!(connection.end.deadline(), end);
    }

    #[tokio::test]
    async fn an_answered_connection_ends_when_nobody_asks_again() {
        let (mut connection, mut peer) = pair(SHORT, LONG, LONG).await;
        peer.write_all(b"G").await.unwrap();
        connection.read_u8().await.unwrap();
        connection.write_all(b"alive").await.unwrap();
        let silent = connection.read_u8().await.unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_does_not_hold_a_connection() {
        let (mut connection, mut peer) = pair(SHORT, LONG, LONG).await;
        peer.write_all(b"G").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'G');
        let endless = [0; 1 << 16];
        let unread = loop {
            if let Err(error) = connection.write_all(&endless).await {
                break error;
            }
        };
        assert_eq!(unread.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn each_request_keeps_a_connection_until_it_is_too_old() {
        let (mut connection, mut peer) = pair(LONG, LONG, 2 * LONG).await;
        let mut before = connection.end.deadline();
        for _ in 0..3 {
            peer.write_all(b"G").await.unwrap();
            connection.read_u8().await.unwrap();
            connection.write_all(b"alive").await.unwrap();
            let end = connection.end.deadline();
            assert!(before < end && end < connection.old);
            before = end;
        }
        let (mut connection, mut peer) = pair(2 * LONG, 2 * LONG, LONG).await;
        peer.write_all(b"G").await.unwrap();
        connection.read_u8().await.unwrap();
        assert_eq!(connection.end.deadline(), connection.old);
    }
}
