//! Every interleaving of a task's end: completion, cancellation and deadline meet in one completion.

use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::checks::checks;
use crate::counts::End;
use crate::engine::completion::Completion;
use crate::error::Error;

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

fn a_result_is_seen_or_its_waker_is_called() {
    let completion = Arc::new(Completion::new());
    let wakes = StdArc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(StdArc::clone(&wakes));
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || {
            completion.begin().unwrap();
            completion.end(Ok(7));
        })
    };
    let shown = completion.is_ended();
    let first = completion.poll(Context::from_waker(&waker).waker(), false);
    assert!(first.is_ready() || !shown, "what has ended has an answer");
    worker.join().unwrap();
    assert!(completion.is_ended());
    match first {
        Poll::Ready(result) => assert_eq!(result, Ok(7)),
        Poll::Pending => {
            assert_eq!(
                wakes.0.load(Ordering::Acquire),
                1,
                "a pending poll is followed by one wake"
            );
            assert_eq!(completion.poll(&waker, false), Poll::Ready(Ok(7)));
        }
    }
}

fn a_task_is_either_run_or_cancelled() {
    let completion = Arc::new(Completion::<u32>::new());
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || match completion.begin() {
            Ok(()) => {
                completion.end(Ok(1));
                None
            }
            Err(end) => Some(end),
        })
    };
    completion.abandon(true);
    let ended_in_queue = worker.join().unwrap();
    assert!(matches!(ended_in_queue, None | Some(End::Cancelled)));
    assert!(completion.is_ended());
}

fn expiry_and_cancellation_agree_on_one_end() {
    let completion = Arc::new(Completion::<u32>::new());
    let reaper = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || completion.end_queued(Error::Expired))
    };
    completion.abandon(true);
    let reaped = reaper.join().unwrap();
    assert_eq!(
        reaped,
        completion.begin().err(),
        "whoever asks later hears the same end"
    );
}

/// Worker, timer and ticket meet: the ticket is told once, and what it is told is what the worker counts.
fn a_deadline_and_an_answer_agree_on_one_end() {
    let completion = Arc::new(Completion::new());
    let wakes = StdArc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(StdArc::clone(&wakes));
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || match completion.begin() {
            Ok(()) => {
                let counted = completion.settle(End::Done);
                completion.end(Ok(7));
                counted
            }
            Err(end) => end,
        })
    };
    let timer = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || completion.expire())
    };
    let first = completion.poll(&waker, false);
    timer.join().unwrap();
    let counted = worker.join().unwrap();
    let told = match first {
        Poll::Ready(result) => result,
        Poll::Pending => {
            assert_eq!(wakes.0.load(Ordering::Acquire), 1, "it is woken once");
            match completion.poll(&waker, false) {
                Poll::Ready(result) => result,
                Poll::Pending => panic!("both have ended it"),
            }
        }
    };
    match counted {
        End::Done => assert_eq!(told, Ok(7)),
        End::Expired => assert_eq!(told, Err(Error::Expired)),
        other => panic!("nobody ended it as {other:?}"),
    }
}

/// A ticket that finds its deadline passed is told so at once, unless the answer is being counted; its worker counts
/// the same.
fn a_late_poll_and_an_answer_agree_on_one_end() {
    let completion = Arc::new(Completion::new());
    let waker = Waker::from(StdArc::new(CountWakes(AtomicUsize::new(0))));
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || {
            completion.begin().ok()?;
            let counted = completion.settle(End::Done);
            completion.end(Ok(7));
            Some(counted)
        })
    };
    let first = completion.poll(&waker, true);
    let counted = worker.join().unwrap();
    match first {
        Poll::Ready(Ok(answer)) => assert_eq!((answer, counted), (7, Some(End::Done))),
        Poll::Ready(Err(error)) => {
            assert_eq!(error, Error::Expired);
            assert!(matches!(counted, None | Some(End::Expired)));
        }
        Poll::Pending => {
            assert_eq!(counted, Some(End::Done));
            assert_eq!(completion.poll(&waker, true), Poll::Ready(Ok(7)));
        }
    }
}

checks! {
    answer: a_result_is_seen_or_its_waker_is_called without AnswerWakes EndShows;
    run_or_cancelled: a_task_is_either_run_or_cancelled without;
    one_end: expiry_and_cancellation_agree_on_one_end without;
    deadline: a_deadline_and_an_answer_agree_on_one_end without SettledStays ExpiryWakes AnswerWakes;
    late_poll: a_late_poll_and_an_answer_agree_on_one_end without SettledStays;
}
