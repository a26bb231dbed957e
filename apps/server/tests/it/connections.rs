//! How connections and calls end: in order, with an answer, in good time.

use std::future::Future;
use std::time::Duration;
use std::{pin, task};

use crate::common::Running;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http::Response;
use prost::Message;
use qdrant_client::qdrant::CountPoints;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

/// Nothing here takes nearly as long.
const BOUND: Duration = Duration::from_secs(120);

type Sender = SendRequest<bytes::Bytes>;

/// A bare HTTP/2 connection, and how it ends.
async fn connect(running: &Running) -> (Sender, JoinHandle<Result<(), h2::Error>>) {
    let stream = tokio::net::TcpStream::connect(running.grpc())
        .await
        .unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    (sender, tokio::spawn(connection))
}

async fn channel(running: &Running) -> Channel {
    let url = format!("http://{}", running.grpc());
    Endpoint::from_shared(url).unwrap().connect().await.unwrap()
}

/// Sends a call's head and leaves its message open.
fn begin(
    sender: &mut Sender,
    path: &str,
    timeout: Option<&str>,
) -> Result<(h2::client::ResponseFuture, SendStream<bytes::Bytes>), h2::Error> {
    let mut request = http::Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(timeout) = timeout {
        request = request.header("grpc-timeout", timeout);
    }
    sender.send_request(request.body(()).unwrap(), false)
}

/// A message as gRPC frames it.
fn framed(message: &impl Message) -> bytes::Bytes {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
    message.encode(&mut bytes).unwrap();
    bytes.into()
}

/// The code of an answer, which is in its trailers, or in its head if it is a refusal.
async fn code(answer: Response<RecvStream>) -> Code {
    let (head, mut body) = answer.into_parts();
    while let Some(data) = body.data().await {
        let taken = data.unwrap().len();
        body.flow_control().release_capacity(taken).unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap_or_default();
    let status = trailers
        .get("grpc-status")
        .or(head.headers.get("grpc-status"));
    Code::from_bytes(status.expect("every answer has a status").as_bytes())
}

fn count() -> CountPoints {
    CountPoints {
        collection_name: "line".into(),
        ..CountPoints::default()
    }
}

/// A call to count of nearly a MiB, most of it a field that nobody knows.
fn long_count() -> bytes::Bytes {
    let mut message = count().encode_to_vec();
    let unknown = vec![0; 900 << 10];
    prost::encoding::bytes::encode(1_000, &unknown, &mut message);
    let mut bytes = vec![0];
    bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
    bytes.append(&mut message);
    bytes.into()
}

const COUNT: &str = "/qdrant.Points/Count";

/// Asks until the server says goodbye. A request that crosses the goodbye comes back as not looked at, for the client
/// to send elsewhere.
async fn ask_until_goodbye(sender: &mut Sender) -> Result<(), h2::Error> {
    loop {
        let ask = async {
            *sender = sender.clone().ready().await?;
            let (answer, mut send) = begin(sender, COUNT, None)?;
            send.send_data(framed(&count()), true)?;
            answer.await
        };
        match ask.await {
            Ok(answer) => assert_eq!(code(answer).await, Code::Ok),
            Err(error) if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// A connection that has become too old is said goodbye to: what is under way is answered, nothing is cut off.
#[test]
fn old_connections_end_without_a_failed_request() {
    // Longer than a busy machine keeps this thread from sending its first request.
    let running = Running::with(|settings| settings.limits.connection_seconds = 4);
    running.fill("line", 4, 10);
    running.run(async {
        for _ in 0..2 {
            let (mut sender, connection) = connect(&running).await;
            let (slow, mut rest) = begin(&mut sender, COUNT, None).unwrap();
            // A long message may be on its way for longer than the connection gets old.
            let mut long = long_count();
            let last = long.split_off(long.len() - 1);
            rest.send_data(long, false).unwrap();
            let asked = tokio::time::timeout(BOUND, ask_until_goodbye(&mut sender)).await;
            asked.expect("the server says goodbye").unwrap();
            rest.send_data(last, true).unwrap();
            assert_eq!(code(slow.await.unwrap()).await, Code::Ok);
            drop(sender);
            let ended = tokio::time::timeout(BOUND, connection).await;
            ended.expect("the connection ends").unwrap().unwrap();
        }
    });
}

#[test]
fn a_client_whose_deadline_passes_is_told_so() {
    let running = Running::start();
    let code = running.run(async {
        let (mut sender, _connection) = connect(&running).await;
        // Its message never comes, so no handler sees the deadline.
        let (answer, _open) = begin(&mut sender, COUNT, Some("100m")).unwrap();
        let answer = tokio::time::timeout(BOUND, answer).await;
        code(answer.expect("an answer").unwrap()).await
    });
    assert_eq!(code, Code::DeadlineExceeded);
}

#[test]
fn a_probe_that_is_never_finished_is_given_up() {
    let running = Running::with(|settings| settings.limits.query_seconds = 1);
    let code = running.run(async {
        let (mut sender, _connection) = connect(&running).await;
        let (answer, _open) = begin(&mut sender, "/grpc.health.v1.Health/Check", None).unwrap();
        let answer = tokio::time::timeout(BOUND, answer).await;
        code(answer.expect("an answer").unwrap()).await
    });
    assert_eq!(code, Code::DeadlineExceeded);
}

/// Who may ask without a key may not make the server read megabytes.
#[test]
fn large_messages_to_health_and_reflection_are_refused() {
    let running = Running::start();
    running.run(async {
        let mut health = HealthClient::new(channel(&running).await);
        let service = "x".repeat(8 << 10);
        let refused = health.check(HealthCheckRequest { service }).await;
        assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
        let mut reflection = ServerReflectionClient::new(channel(&running).await);
        let symbol = "x".repeat(128 << 10);
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(symbol)),
        };
        let answers = reflection
            .server_reflection_info(tokio_stream::iter([request]))
            .await;
        // Reflection ends the stream rather than to look such a name up.
        let answer = answers.unwrap().into_inner().message().await;
        assert!(matches!(answer, Ok(None)), "{answer:?}");
    });
}

/// Calls whose messages never come are given up, the oldest first, when others need their places.
#[test]
fn open_calls_keep_nobody_out() {
    const PLACES: usize = 4;
    let running = Running::with(|settings| {
        settings.limits.requests = PLACES;
        settings.limits.message_seconds = 600;
    });
    running.fill("line", 4, 10);
    running.run(async {
        let (mut sender, _connection) = connect(&running).await;
        let mut open = Vec::new();
        for _ in 0..PLACES {
            open.push(begin(&mut sender, COUNT, None).unwrap());
        }
        // The server may come to an open call later than to others. Those find a free place then, or are themselves the
        // oldest without a message when the open call comes: that happens once for each open call at most.
        let mut refused = 0;
        let given_up = loop {
            let (answer, mut send) = begin(&mut sender, COUNT, None).unwrap();
            send.send_data(framed(&count()), true).unwrap();
            let code = code(answer.await.unwrap()).await;
            refused += usize::from(code != Code::Ok);
            assert!(
                code == Code::Ok || code == Code::ResourceExhausted,
                "{code:?}"
            );
            assert!(
                refused <= PLACES,
                "{refused} calls that were whole were refused"
            );
            let ended = open.iter_mut().position(|(answer, _)| {
                let mut nobody = task::Context::from_waker(task::Waker::noop());
                let task::Poll::Ready(answer) = pin::Pin::new(answer).poll(&mut nobody) else {
                    return false;
                };
                let answer = answer.unwrap();
                let status = answer.headers()["grpc-status"].as_bytes();
                assert_eq!(Code::from_bytes(status), Code::ResourceExhausted);
                true
            });
            if let Some(ended) = ended {
                break ended;
            }
        };
        // The others may still send theirs.
        drop(open.swap_remove(given_up));
        let (last, mut send) = open.pop().unwrap();
        send.send_data(framed(&count()), true).unwrap();
        assert_eq!(code(last.await.unwrap()).await, Code::Ok);
    });
}

/// Neither a call without a message, nor one whose message is there and whose end is not, is waited for as long as a
/// query.
#[test]
fn a_message_that_does_not_come_is_given_up_long_before_a_query() {
    let running = Running::with(|settings| settings.limits.query_seconds = 3_600);
    running.fill("line", 4, 10);
    running.run(async {
        let (mut sender, _connection) = connect(&running).await;
        let (silent, _open) = begin(&mut sender, COUNT, None).unwrap();
        let (endless, mut send) = begin(&mut sender, COUNT, None).unwrap();
        send.send_data(framed(&count()), false).unwrap();
        for answer in [silent, endless] {
            let answer = tokio::time::timeout(BOUND, answer).await;
            let answer = answer.expect("an answer").unwrap();
            assert_eq!(code(answer).await, Code::DeadlineExceeded);
        }
    });
}
