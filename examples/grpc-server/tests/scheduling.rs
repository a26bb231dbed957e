//! Deadlines, hang-ups and overload, through the whole server.

mod common;

use std::time::Duration;

use common::{Running, line};
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::{Query, QueryPoints, SearchParams};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

const DIM: usize = 64;

fn exact(vector: Vec<f32>) -> QueryPoints {
    QueryPoints {
        collection_name: "line".into(),
        query: Some(Query::new_nearest(vector)),
        params: Some(SearchParams {
            exact: Some(true),
            ..SearchParams::default()
        }),
        ..QueryPoints::default()
    }
}

/// One worker and a collection that takes it some milliseconds to search.
fn slow(queue: usize) -> Running {
    let running = Running::with(|settings| {
        settings.scheduler.workers = 1;
        settings.scheduler.queue_per_worker = queue;
    });
    running.fill("line", DIM, 30_000);
    running
}

async fn connect(running: &Running) -> PointsClient<Channel> {
    let url = format!("http://{}", running.grpc());
    PointsClient::new(Endpoint::from_shared(url).unwrap().connect().await.unwrap())
}

#[test]
fn over_capacity_is_refused_at_once_with_a_hint_and_the_rest_is_answered() {
    let running = slow(4);
    let answers: Vec<Result<usize, Status>> = running.run(async {
        let client = connect(&running).await;
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..60 {
            let mut client = client.clone();
            asking.spawn(async move {
                let answer = client.query(exact(line(DIM, number))).await;
                answer.map(|answer| answer.into_inner().result.len())
            });
        }
        asking.join_all().await
    });
    let (answered, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert!(!answered.is_empty() && !refused.is_empty());
    assert!(
        answered
            .iter()
            .all(|answer| answer.as_ref().ok() == Some(&10))
    );
    for status in refused.iter().filter_map(|answer| answer.as_ref().err()) {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.metadata().contains_key("retry-after"));
        assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
        assert!(!status.details().is_empty(), "RetryInfo");
    }
    let shed = running.metric("chiplet_server_shed_total", &["queue_full"]);
    assert_eq!(shed, refused.len() as f64);
}

#[test]
fn a_deadline_that_has_passed_ends_the_query_unsearched() {
    let running = slow(1_000);
    let ended =
        |end: &str| running.metric("chiplet_domain_queries_total", &[&format!("end=\"{end}\"")]);
    // On a busy machine all queries of a round may be late before they reach a queue.
    for _ in 0..50 {
        let answers = running.run(async {
            let client = connect(&running).await;
            let mut asking = tokio::task::JoinSet::new();
            for number in 0..200 {
                let mut client = client.clone();
                asking.spawn(async move {
                    let mut request = Request::new(exact(line(DIM, number)));
                    request.set_timeout(Duration::from_millis(30));
                    let answer = client.query(request).await;
                    answer.map(|_| ()).map_err(|status| status.code())
                });
            }
            asking.join_all().await
        });
        let allowed = [Err(Code::DeadlineExceeded), Err(Code::Cancelled), Ok(())];
        let other = answers.iter().find(|answer| !allowed.contains(answer));
        assert_eq!(other, None);
        while running.metric("chiplet_domain_queue_depth", &[]) > 0.0 {}
        if ended("expired") + ended("cancelled") > 0.0 {
            return;
        }
    }
    panic!("10,000 searches of milliseconds, 30 ms and one worker: all were searched");
}

#[test]
fn a_client_that_hangs_up_frees_the_queue() {
    let running = slow(1_000);
    running.run(async {
        let client = connect(&running).await;
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..200 {
            let mut client = client.clone();
            asking.spawn(async move { client.query(exact(line(DIM, number))).await.is_ok() });
        }
        assert_eq!(asking.join_next().await.unwrap().ok(), Some(true));
        asking.abort_all();
    });
    // One more query behind them is answered once they are gone; all of them must have ended by then.
    running.run(async {
        connect(&running)
            .await
            .query(exact(line(DIM, 1)))
            .await
            .unwrap();
    });
    let cancelled = running.metric("chiplet_domain_queries_total", &["end=\"cancelled\""]);
    assert!(
        cancelled > 0.0,
        "none of about 199 was taken out of the queue"
    );
}

#[test]
fn the_baseline_answers_as_chiplet_does() {
    let answers = |kind| {
        let running = Running::with(|settings| settings.scheduler.kind = kind);
        running.fill("line", DIM, 3_000);
        running.run(async {
            let mut client = connect(&running).await;
            let answer = client.query(exact(line(DIM, 1_234))).await.unwrap();
            answer.into_inner().result
        })
    };
    use chiplet_grpc_server::config::SchedulerKind;
    assert_eq!(
        answers(SchedulerKind::Rayon),
        answers(SchedulerKind::Chiplet)
    );
}
