//! Every interleaving of a task's end: completion, cancellation and expiry meet in one cell.

use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::cell::Cell;
use crate::checks::checks;
use crate::counts::End;
use crate::error::Error;

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

fn a_result_is_seen_or_its_waker_is_called() {
    let cell = Arc::new(Cell::new());
    let wakes = StdArc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(StdArc::clone(&wakes));
    let worker = {
        let cell = Arc::clone(&cell);
        thread::spawn(move || {
            cell.begin().unwrap();
            cell.end(Ok(7));
        })
    };
    let first = cell.poll(Context::from_waker(&waker).waker());
    worker.join().unwrap();
    match first {
        Poll::Ready(result) => assert_eq!(result, Ok(7)),
        Poll::Pending => {
            assert_eq!(
                wakes.0.load(Ordering::Acquire),
                1,
                "a pending poll is followed by one wake"
            );
            assert_eq!(cell.poll(&waker), Poll::Ready(Ok(7)));
        }
    }
}

fn a_task_is_either_run_or_cancelled() {
    let cell = Arc::new(Cell::<u32>::new());
    let worker = {
        let cell = Arc::clone(&cell);
        thread::spawn(move || match cell.begin() {
            Ok(()) => {
                cell.end(Ok(1));
                None
            }
            Err(end) => Some(end),
        })
    };
    cell.abandon(true);
    let ended_in_queue = worker.join().unwrap();
    assert!(matches!(ended_in_queue, None | Some(End::Cancelled)));
    assert!(cell.is_ended());
}

fn expiry_and_cancellation_agree_on_one_end() {
    let cell = Arc::new(Cell::<u32>::new());
    let reaper = {
        let cell = Arc::clone(&cell);
        thread::spawn(move || cell.end_queued(Error::Expired))
    };
    cell.abandon(true);
    let reaped = reaper.join().unwrap();
    assert_eq!(
        reaped,
        cell.begin().err(),
        "whoever asks later hears the same end"
    );
}

checks! {
    answer: a_result_is_seen_or_its_waker_is_called without AnswerWakes;
    run_or_cancelled: a_task_is_either_run_or_cancelled without;
    one_end: expiry_and_cancellation_agree_on_one_end without;
}
