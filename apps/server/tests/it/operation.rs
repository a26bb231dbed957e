//! Health, metrics, reflection, stopping.

use crate::common::{self, Running, line, page};
use qdrant_client::qdrant::{PointStruct, UpsertPointsBuilder};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[test]
fn the_admin_port_tells_how_it_is() {
    let running = Running::start();
    running.fill("line", 4, 100);
    assert_eq!(running.page("/livez"), (200, "alive\n".into()));
    assert_eq!(running.page("/readyz"), (200, "ready\n".into()));
    assert_eq!(running.page("/nowhere").0, 404);
    let (status, html) = running.page("/");
    assert!(status == 200 && html.starts_with("<!"), "{html}");
    let (status, state) = running.page("/api/state");
    assert_eq!(status, 200);
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["tables"][0]["name"], "line");
    assert_eq!(state["tables"][0]["points"], 100);
    assert_eq!(state["server"]["ready"], true);
    assert!(state["domains"][0]["workers"].as_u64() >= Some(1));
}

#[test]
fn labels_stay_few_however_many_collections_there_are() {
    let running = Running::start();
    for number in 0..40 {
        running.fill(&format!("c{number}"), 2, 1);
    }
    running.fill("other", 2, 1);
    let (_, metrics) = running.page("/metrics");
    let shown: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("chiplet_table_queries_total{"))
        .collect();
    assert_eq!(shown.len(), 21, "20 tables and the others");
    let others = shown.iter().filter(|line| line.contains("table=\"other\""));
    assert_eq!(others.count(), 1, "a table named other is one of them");
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn reflection_names_what_is_served_and_describes_it() {
    let running = Running::start();
    running.run(async {
        let url = format!("http://{}", running.grpc());
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = ServerReflectionClient::new(channel);
        let mut ask = async |message| {
            let request = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(message),
            };
            let requests = tokio_stream::iter([request]);
            let mut answers = client
                .server_reflection_info(requests)
                .await
                .unwrap()
                .into_inner();
            answers
                .message()
                .await
                .unwrap()
                .unwrap()
                .message_response
                .unwrap()
        };
        let MessageResponse::ListServicesResponse(list) =
            ask(MessageRequest::ListServices(String::new())).await
        else {
            panic!("no list of services")
        };
        let names: Vec<&str> = list.service.iter().map(|service| &*service.name).collect();
        for served in [
            "qdrant.Points",
            "qdrant.Collections",
            "qdrant.Qdrant",
            "grpc.health.v1.Health",
        ] {
            assert!(names.contains(&served), "{names:?}");
        }
        assert!(!names.contains(&"qdrant.Snapshots"), "{names:?}");
        let symbol = MessageRequest::FileContainingSymbol("qdrant.Points.Query".into());
        let MessageResponse::FileDescriptorResponse(file) = ask(symbol).await else {
            panic!("qdrant.Points.Query is not described")
        };
        assert!(!file.file_descriptor_proto.is_empty());
    });
}

#[test]
fn stopping_says_so_first_and_keeps_what_was_acknowledged() {
    let mut running = Running::with(|settings| settings.drain_notice_seconds = 2);
    running.fill("line", 4, 10);
    let (grpc, admin) = (running.grpc(), running.admin());
    running.run(async {
        // Acknowledged as soon as it is queued.
        let points = vec![PointStruct::new(
            77,
            line(4, 77),
            qdrant_client::Payload::new(),
        )];
        running
            .client
            .upsert_points(UpsertPointsBuilder::new("line", points))
            .await
            .unwrap();
    });
    let server = running.server.take().unwrap();
    let stopping = std::thread::spawn(move || server.shutdown());
    // Until the notice is over it serves, but says that it is about to stop.
    while page(admin, "/readyz").0 == 200 {}
    assert!(page(admin, "/readyz").1.contains("draining"));
    running.run(async {
        let url = format!("http://{grpc}");
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut health = HealthClient::new(channel);
        let answer = health
            .check(HealthCheckRequest::default())
            .await
            .unwrap()
            .into_inner();
        assert_eq!(
            answer.status(),
            tonic_health::ServingStatus::NotServing.into()
        );
    });
    stopping.join().unwrap();
    assert!(std::net::TcpStream::connect(grpc).is_err());

    let settings = common::settings(&running.data);
    let again = chiplet_server::server::Server::start(&settings).unwrap();
    again.wait_until_ready();
    let (_, state) = page(again.admin_addr(), "/api/state");
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["tables"][0]["points"], 11);
    again.shutdown();
}

#[test]
fn two_servers_do_not_share_a_folder_or_a_port() {
    let running = Running::start();
    let mut settings = common::settings(&running.data);
    let start = |settings: &_| {
        chiplet_server::server::Server::start(settings)
            .err()
            .unwrap()
    };
    let error = format!("{:#}", start(&settings));
    assert!(error.contains("in use by another server"), "{error}");
    let other = tempfile::tempdir().unwrap();
    settings.data_dir = other.path().to_owned();
    settings.grpc_addr = running.grpc();
    let error = format!("{:#}", start(&settings));
    assert!(error.contains("grpc_addr"), "{error}");
}
