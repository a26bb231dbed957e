//! Calls on a bare HTTP/2 connection.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::RecvStream;
use http::Response;

/// Makes so many calls, of whose answers nothing is read; says of each whether it was let through. They are unread as
/// long as what is returned besides is there.
pub async fn unread(
    grpc: SocketAddr,
    path: &str,
    body: Vec<u8>,
    calls: usize,
) -> (Vec<bool>, Vec<Response<RecvStream>>) {
    let stream = tokio::net::TcpStream::connect(grpc).await.unwrap();
    let (mut client, connection) = h2::client::Builder::new()
        .initial_window_size(0)
        .handshake::<_, Bytes>(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut begun = Vec::new();
    let mut held = Vec::new();
    for _ in 0..calls {
        let request = http::Request::post(format!("http://{grpc}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (answer, mut send) = client.send_request(request, false).unwrap();
        send.send_data(Bytes::from(body.clone()), true).unwrap();
        let answer = answer.await.unwrap();
        begun.push(!answer.headers().contains_key("grpc-status"));
        held.push(answer);
    }
    (begun, held)
}
