//! A real client over loopback: answers, refusals, deadlines, a shutdown.

use std::time::Duration;

use grpc_server::protocol::SearchRequest;
use grpc_server::protocol::search_client::SearchClient;
use grpc_server::{Service, made_up};
use tonic::{Code, Request};

const DIM: usize = 8;

fn asking(table: &str, vector: Vec<f32>, k: u32) -> SearchRequest {
    let table = table.to_owned();
    SearchRequest { table, vector, k }
}

#[tokio::test]
async fn it_answers_refuses_and_stops() {
    let mut service = Service::start(0).unwrap();
    service.add("songs", made_up(500, DIM, 1).unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(service.serve(listener, async move { drop(stopped.await) }));
    let mut client = SearchClient::connect(address).await.unwrap();

    let reply = client.search(asking("songs", vec![0.0; DIM], 3)).await;
    let reply = reply.unwrap().into_inner();
    assert_eq!(reply.hits.len(), 3);
    assert_eq!((reply.hits[0].id, reply.hits[0].distance), (0, 0.0));
    assert!(reply.hits.is_sorted_by_key(|hit| hit.distance));

    for (request, code) in [
        (asking("films", vec![0.0; DIM], 3), Code::NotFound),
        (
            asking("songs", vec![0.0; DIM - 1], 3),
            Code::InvalidArgument,
        ),
        (
            asking("songs", vec![f32::NAN; DIM], 3),
            Code::InvalidArgument,
        ),
        (
            asking("songs", vec![0.0; DIM], 1_001),
            Code::InvalidArgument,
        ),
    ] {
        assert_eq!(client.search(request).await.unwrap_err().code(), code);
    }
    let mut late = Request::new(asking("songs", vec![0.0; DIM], 3));
    late.set_timeout(Duration::from_nanos(1));
    let late = client.search(late).await.unwrap_err();
    assert!(
        matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{late}"
    );

    stop.send(()).unwrap();
    drop(client);
    serving.await.unwrap().unwrap();
}
