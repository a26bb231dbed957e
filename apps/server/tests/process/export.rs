//! Spans as a real collector gets them: a query's steps, in the client's own trace.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use crate::ALONE;
use crate::common::{self, Running, line};
use chiplet_server::telemetry::Telemetry;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::{Query, QueryPoints};
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};

struct Collector(Sender<Span>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans;
        let scopes = resources
            .into_iter()
            .flat_map(|resource| resource.scope_spans);
        for span in scopes.flat_map(|scope| scope.spans) {
            // The test may be over.
            let _ = self.0.send(span);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[test]
fn a_query_is_a_trace_that_continues_the_clients() {
    let _alone = ALONE.lock();
    let (sender, spans) = mpsc::channel();
    let running = Running::start();
    let listener = running
        .run(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let collector = listener.local_addr().unwrap();
    running.runtime.spawn(
        tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(Collector(sender)))
            .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)),
    );
    let mut settings = common::settings(&running.data);
    settings.otlp_endpoint = Some(format!("http://{collector}"));
    let telemetry = Telemetry::start(&settings).unwrap();

    running.fill("line", 4, 10);
    running.run(async {
        let url = format!("http://{}", running.grpc());
        let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
        let mut request = Request::new(QueryPoints {
            collection_name: "line".into(),
            query: Some(Query::new_nearest(line(4, 3))),
            ..QueryPoints::default()
        });
        let context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        request
            .metadata_mut()
            .insert("traceparent", context.parse().unwrap());
        PointsClient::new(channel).query(request).await.unwrap();
    });
    let trace: Vec<u8> = (0..16)
        .map(|byte| u8::from_str_radix(&"0af7651916cd43dd8448eb211c80319c"[2 * byte..][..2], 16))
        .collect::<Result<_, _>>()
        .unwrap();
    // The answer may be here before the request's span has ended. Spans are sent every few seconds.
    let is_request = |span: &Span| span.trace_id == trace && span.name == "request";
    let mut spans_seen = Vec::new();
    while !spans_seen.iter().any(is_request) {
        let span = spans.recv_timeout(Duration::from_secs(60));
        spans_seen.push(span.expect("a span of the request"));
    }
    // Sends what is left.
    drop(telemetry);
    spans_seen.extend(spans.try_iter());
    let spans = spans_seen;
    let ours: Vec<&Span> = spans.iter().filter(|span| span.trace_id == trace).collect();
    let request = ours
        .iter()
        .find(|span| span.name == "request")
        .expect("a span of the request");
    assert_eq!(
        request.parent_span_id,
        [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]
    );
    for step in ["queue", "coarse", "scan", "merge"] {
        let span = ours.iter().find(|span| span.name == step);
        let span = span.unwrap_or_else(|| panic!("no span {step} among {}", ours.len()));
        assert_eq!(span.parent_span_id, request.span_id, "{step}");
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
}
