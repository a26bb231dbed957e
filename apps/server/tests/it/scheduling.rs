//! Deadlines, hang-ups and overload, through the whole server.

use std::time::Duration;

use crate::common::{Running, line};
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::{
    Condition, CountPoints, CountPointsBuilder, Filter, PointStruct, Query, QueryPoints,
    ScrollPointsBuilder, SearchParams, UpsertPointsBuilder, Value,
};
use tokio::task::JoinSet;
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

type Answers = JoinSet<Result<usize, Status>>;

/// `count` searches, all under way at the same time; each gives how many points it found.
fn asking(client: &PointsClient<Channel>, count: u64, patience: Option<Duration>) -> Answers {
    let mut asking = JoinSet::new();
    for number in 0..count {
        let mut client = client.clone();
        asking.spawn(async move {
            let mut request = Request::new(exact(line(DIM, number)));
            if let Some(patience) = patience {
                request.set_timeout(patience);
            }
            let answer = client.query(request).await?;
            Ok(answer.into_inner().result.len())
        });
    }
    asking
}

async fn ask_at_once(
    running: &Running,
    count: u64,
    patience: Option<Duration>,
) -> Vec<Result<usize, Status>> {
    let client = connect(running).await;
    asking(&client, count, patience).join_all().await
}

fn ended(running: &Running, end: &str) -> f64 {
    let end = format!("end=\"{end}\"");
    running.metric("chiplet_domain_queries_total", &[&end])
}

fn wait_for_empty_queue(running: &Running) {
    // A minute, so that a queue that never empties fails instead of hanging.
    for _ in 0..12_000 {
        if running.metric("chiplet_domain_queue_depth", &[]) == 0.0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("searches are still queued");
}

/// Whether queries pile up depends on who gets the machine's cores: requests that trickle in beside other work are
/// searched as they come. What needs a queue is tried again until there was one.
fn in_some_round(otherwise: &str, mut round: impl FnMut() -> bool) {
    let seen = (0..50).any(|_| round());
    assert!(seen, "in none of 50 rounds: {otherwise}");
}

#[test]
fn over_capacity_is_refused_at_once_with_a_hint_and_the_rest_is_answered() {
    let running = slow(4);
    let mut refused = 0;
    in_some_round("60 searches at once, 5 places: all were answered", || {
        let answers = running.run(ask_at_once(&running, 60, None));
        let answered = answers.iter().filter_map(|answer| answer.as_ref().ok());
        assert!(answered.clone().count() > 0);
        assert!(answered.into_iter().all(|found| *found == 10));
        for status in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert!(status.metadata().contains_key("retry-after"));
            assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
            assert!(!status.details().is_empty(), "RetryInfo");
            refused += 1;
        }
        let shed = running.metric("chiplet_server_shed_total", &["queue_full"]);
        assert_eq!(shed, f64::from(refused));
        refused > 0
    });
}

#[test]
fn a_deadline_that_has_passed_ends_the_query_unsearched() {
    let running = slow(1_000);
    let patience = Some(Duration::from_millis(30));
    in_some_round(
        "200 searches of milliseconds in 30 ms: all searched",
        || {
            let answers = running.run(ask_at_once(&running, 200, patience));
            for status in answers.iter().filter_map(|answer| answer.as_ref().err()) {
                let code = status.code();
                assert!(
                    [Code::DeadlineExceeded, Code::Cancelled].contains(&code),
                    "{status}"
                );
            }
            wait_for_empty_queue(&running);
            ended(&running, "expired") + ended(&running, "cancelled") > 0.0
        },
    );
}

/// hyper closes a connection on which more than 20 streams are given up before the server has looked at them. A client
/// whose deadlines are short beside a busy machine is not an attacker.
#[test]
fn many_deadlines_that_pass_at_once_leave_the_connection_open() {
    let running = slow(1_000);
    running.run(async {
        let client = connect(&running).await;
        for _ in 0..20 {
            // So short that most searches are given up before the server reads them; fewer than a connection may have
            // open.
            let patience = Some(Duration::from_micros(100));
            for status in asking(&client, 200, patience).join_all().await {
                let Err(status) = status else { continue };
                let code = status.code();
                assert!(
                    [Code::DeadlineExceeded, Code::Cancelled].contains(&code),
                    "{status}"
                );
            }
            // An answer says that the server has read what came before it.
            assert!(asking(&client, 1, None).join_all().await[0].is_ok());
        }
    });
}

#[test]
fn a_client_that_hangs_up_frees_the_queue() {
    let running = slow(1_000);
    in_some_round("none of about 199 was taken out of the queue", || {
        running.run(async {
            let client = connect(&running).await;
            let mut asking = asking(&client, 200, None);
            assert!(asking.join_next().await.unwrap().unwrap().is_ok());
            asking.abort_all();
        });
        wait_for_empty_queue(&running);
        ended(&running, "cancelled") > 0.0
    });
    // Nobody else hung up, and the server goes on.
    let one_more = running.run(ask_at_once(&running, 1, None));
    assert!(one_more.iter().all(Result::is_ok));
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
    use chiplet_server::config::SchedulerKind;
    assert_eq!(
        answers(SchedulerKind::Rayon),
        answers(SchedulerKind::Chiplet)
    );
}

/// Points whose payload is a list, and a filter that compares each element with each of many values.
fn listed(running: &Running, points: u64, elements: usize) {
    running.fill("line", 4, 10);
    let list: Vec<Value> = vec![1.into(); elements];
    for first in (0..points).step_by(100) {
        let points = (first..first + 100)
            .map(|id| PointStruct::new(id, line(4, id), [("a", list.clone().into())]))
            .collect::<Vec<_>>();
        let upsert = UpsertPointsBuilder::new("line", points).wait(true);
        running.run(running.client.upsert_points(upsert)).unwrap();
    }
}

fn dear() -> CountPoints {
    let filter = Filter::should((2..1_000).map(|number| Condition::matches("a", number)));
    CountPoints {
        collection_name: "line".into(),
        filter: Some(filter),
        ..CountPoints::default()
    }
}

/// What takes its time is done by the workers, where it is counted, and not by the network's threads.
#[test]
fn filters_and_large_answers_are_tasks_of_their_collection() {
    let running = Running::start();
    listed(&running, 200, 100);
    let done = || running.metric("chiplet_domain_queries_total", &["done"]);
    let before = done();
    let filter = Filter::must([Condition::matches("a", 1)]);
    let count = CountPointsBuilder::new("line").filter(filter);
    let count = running.run(running.client.count(count)).unwrap();
    assert_eq!(count.result.unwrap().count, 200);
    assert_eq!(done(), before + 1.0);
    let scroll = ScrollPointsBuilder::new("line")
        .limit(200)
        .with_payload(true);
    let page = running.run(running.client.scroll(scroll)).unwrap().result;
    assert_eq!(page.len(), 200);
    assert!(page.iter().all(|point| point.payload.contains_key("a")));
    assert_eq!(done(), before + 2.0);
    let scroll = ScrollPointsBuilder::new("line").limit(2).with_payload(true);
    running.run(running.client.scroll(scroll)).unwrap();
    assert_eq!(done(), before + 2.0, "a small answer is no task");
}

/// Many times what the server can do: most is refused at once, as searches are, and nothing goes on afterwards.
#[test]
fn filters_beyond_a_share_of_the_queue_are_refused() {
    let running = Running::with(|settings| {
        settings.scheduler.workers = 1;
        settings.scheduler.queue_per_worker = 4;
    });
    listed(&running, 1_000, 1_000);
    running.run(async {
        let client = connect(&running).await;
        let mut asking = JoinSet::new();
        for _ in 0..12 {
            let mut client = client.clone();
            asking.spawn(async move { client.count(dear()).await });
        }
        // One runs and two wait, each for longer than a minute.
        for _ in 0..9 {
            let refused = asking.join_next().await.unwrap().unwrap().unwrap_err();
            assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        }
        asking.abort_all();
        while asking.join_next().await.is_some() {}
    });
    assert_eq!(running.page("/livez").0, 200);
    // What the clients have given up ends, or this waits for ever.
    while running.metric("chiplet_domain_workers_busy", &[]) > 0.0 {
        std::thread::yield_now();
    }
    assert!(running.metric("chiplet_server_shed_total", &["table_queue_full"]) >= 9.0);
}
