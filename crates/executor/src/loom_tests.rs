//! Every interleaving of a task's end: worker, ticket, timer and shutdown meet in one word.

use std::sync::Arc as StdArc;
use std::task::{Poll, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::checks::checks;
use crate::counts::End;
use crate::engine::completion::{Completion, Kind, end_of};
use crate::error::Error;

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

fn counting() -> (StdArc<CountWakes>, Waker) {
    let wakes = StdArc::new(CountWakes(AtomicUsize::new(0)));
    let waker = Waker::from(StdArc::clone(&wakes));
    (wakes, waker)
}

fn a_result_is_seen_or_its_waker_is_called() {
    let completion = Arc::new(Completion::new((), Kind::default()));
    let (wakes, waker) = counting();
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || completion.end(Ok(7)))
    };
    let shown = completion.is_ended();
    let first = completion.poll(&waker, false);
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

/// It has moved to another task of its runtime: the waker that it left last is called, or an earlier one before that.
fn a_ticket_that_moves_is_woken_where_it_is() {
    let completion = Arc::new(Completion::new((), Kind::default()));
    let wakers = [counting(), counting()];
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || completion.end(Ok(7)))
    };
    let polls = wakers
        .each_ref()
        .map(|(_, waker)| match completion.is_ended() {
            true => None,
            false => Some(completion.poll(waker, false).is_pending()),
        });
    worker.join().unwrap();
    if polls[1] == Some(true) {
        assert_eq!(wakers[1].0.0.load(Ordering::Acquire), 1);
    }
}

/// A ticket that has polled, and goes: `cancel` tells whether the task may still start then.
fn goes(cancel: bool) {
    let completion = Arc::new(Completion::new((), Kind::default()));
    let (wakes, waker) = counting();
    let answer = StdArc::new(());
    let worker = {
        let (completion, answer) = (Arc::clone(&completion), StdArc::clone(&answer));
        thread::spawn(move || match completion.stop_reason() {
            None => {
                completion.end(Ok(answer));
                None
            }
            reason => reason,
        })
    };
    let polled = completion.poll(&waker, false);
    if polled.is_pending() {
        completion.abandon(cancel);
    }
    let stopped = worker.join().unwrap();
    assert!(stopped.is_none() || cancel && stopped == Some(Error::Cancelled));
    drop((polled, waker));
    assert_eq!(StdArc::strong_count(&answer), 1, "nobody keeps the answer");
    assert_eq!(StdArc::strong_count(&wakes), 1, "nobody keeps the waker");
}

fn a_ticket_that_is_detached_leaves_nothing_behind() {
    goes(false);
}

fn a_task_is_either_run_or_cancelled_and_leaves_nothing_behind() {
    goes(true);
}

/// A shutdown ends a task in its queue, while its ticket finds the deadline passed: that is told and counted, or this.
fn a_task_that_ends_in_its_queue_is_told_what_is_counted() {
    let completion = Arc::new(Completion::<u32, ()>::new((), Kind::default()));
    let (_, waker) = counting();
    let reaper = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || completion.end_queued(Error::ShutDown))
    };
    let first = completion.poll(&waker, true);
    let counted = reaper.join().unwrap();
    let told = match first {
        Poll::Ready(_) => first,
        Poll::Pending => completion.poll(&waker, true),
    };
    let expected = match counted {
        End::Expired => Error::Expired,
        _ => Error::ShutDown,
    };
    assert_eq!(told, Poll::Ready(Err(expected)));
}

/// Worker, timer and ticket meet: the ticket is told once, and what it is told is what the worker counts.
fn a_deadline_and_an_answer_agree_on_one_end() {
    let completion = Arc::new(Completion::new((), Kind::default()));
    let (wakes, waker) = counting();
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || match completion.stop_reason() {
            None => {
                let counted = completion.settle(End::Done);
                completion.end(Ok(7));
                counted
            }
            Some(reason) => end_of::<u32>(&Err(reason)),
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
    let completion = Arc::new(Completion::new((), Kind::default()));
    let (_, waker) = counting();
    let worker = {
        let completion = Arc::clone(&completion);
        thread::spawn(move || {
            if completion.stop_reason().is_some() {
                return None;
            }
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
    answer: a_result_is_seen_or_its_waker_is_called without AnswerWakes WaiterLooks;
    moves: a_ticket_that_moves_is_woken_where_it_is without AnswerWakes WaiterLooks;
    detached: a_ticket_that_is_detached_leaves_nothing_behind without UnwantedDropped LeftoverDropped WakerForgotten;
    cancelled: a_task_is_either_run_or_cancelled_and_leaves_nothing_behind
        without UnwantedDropped LeftoverDropped WakerForgotten;
    one_end: a_task_that_ends_in_its_queue_is_told_what_is_counted without SettledStays;
    deadline: a_deadline_and_an_answer_agree_on_one_end without SettledStays ExpiryWakes AnswerWakes WaiterLooks;
    late_poll: a_late_poll_and_an_answer_agree_on_one_end without SettledStays;
}
