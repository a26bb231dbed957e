//! The example of a service, under load and then stopped: every request that it took is answered. This is a module of
//! `examples/service.rs`: `cargo test --example service`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{DIM, Reply, Request, Service, SlowLog};

/// Long enough for any machine; a test that waits this long has hung.
const HANG: Duration = Duration::from_secs(60);
/// Clients that send one request after the other, and those that hang up every so often.
const CLIENTS: usize = 64;
/// Answers after which the service is stopped.
const ENOUGH: u64 = 3_000;

#[derive(Default)]
struct Tally {
    found: u64,
    refused: u64,
    late: u64,
    hung_up: u64,
}

/// Sends requests until the service says that it stops.
async fn client(service: Arc<Service>, number: usize) -> Tally {
    let mut tally = Tally::default();
    for turn in 0.. {
        let patience = match (number + turn) % 50 {
            0 => Duration::ZERO,
            _ => HANG,
        };
        let request = Request {
            vector: vec![turn as f32 % 7.0 + 0.5; DIM],
            top: 3,
            deadline: Instant::now() + patience,
        };
        let answer = service.search(request);
        let reply = match (number + turn) % 40 {
            // Polled once, then its client is gone.
            1 => {
                let gone = tokio::time::timeout(Duration::ZERO, answer).await;
                tally.hung_up += u64::from(gone.is_err());
                gone.ok()
            }
            _ => Some(answer.await),
        };
        match reply {
            None => {}
            Some(Reply::Found(ids)) => {
                assert_eq!(ids.len(), 3);
                tally.found += 1;
            }
            Some(Reply::DeadlineExceeded) => tally.late += 1,
            Some(Reply::ResourceExhausted(pause)) => {
                tally.refused += 1;
                tokio::time::sleep(pause).await;
            }
            Some(Reply::Unavailable) => return tally,
            Some(other) => panic!("{other:?}"),
        }
    }
    unreachable!("it is stopped before that")
}

#[test]
fn under_load_and_stopped_it_leaves_nothing_unanswered_that_it_accepted() {
    let service = Arc::new(Service::start().unwrap());
    let runtime = service.runtime().unwrap();
    let tally = runtime.block_on(async {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| tokio::spawn(client(Arc::clone(&service), number)))
            .collect();
        let begun = Instant::now();
        while service.executor.snapshot().total.done < ENOUGH {
            assert!(begun.elapsed() < HANG, "too few answers");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(service.metrics().contains("wait_p99_us{table=\"songs\"}"));
        // In the middle of the load: the clients go on until they are told.
        let report = service.stop(HANG).await;
        assert_eq!((report.abandoned, report.still_running), (0, 0));
        let mut sum = Tally::default();
        for client in clients {
            let tally = client.await.unwrap();
            sum.found += tally.found;
            sum.refused += tally.refused;
            sum.late += tally.late;
            sum.hung_up += tally.hung_up;
        }
        sum
    });
    let total = service.executor.snapshot().total;
    assert_eq!((total.queued, total.running, total.panicked), (0, 0, 0));
    assert_eq!(total.shed, tally.refused);
    // Every request that was accepted was answered, or came too late, or its client was gone.
    assert_eq!(total.accepted, total.done + total.expired + total.cancelled);
    let told = tally.found + tally.late;
    assert_eq!(total.accepted, told + tally.hung_up);
    assert!(tally.found > 0 && tally.late > 0 && tally.hung_up > 0);
}

#[test]
fn of_many_slow_queries_the_first_three_are_told_and_all_counted() {
    let log = SlowLog::default();
    let ran = Duration::from_micros(18);
    let waits = [0, 128, 51, 50, 300, 99, 60].map(Duration::from_millis);
    let told = waits.map(|wait| log.note(wait, ran).is_some());
    assert_eq!(told, [false, true, true, false, true, false, false]);
    assert_eq!(log.0.into_inner(), 5);
}
