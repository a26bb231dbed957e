//! Every interleaving of a task's end: worker, ticket, timer and shutdown meet in one word.

use std::sync::Arc as StdArc;
use std::task::{Poll, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use chiplet_policy::{Homes, Time};
use chiplet_topology::DomainId;

use crate::checks::checks;
use crate::counts::End;
use crate::engine::completion::Live;
use crate::engine::registry::{Common, Index, Registry};
use crate::engine::task::Header;
use crate::error::Error;
use crate::jobs::closure::Closure;
use crate::options::TableOptions;
use crate::report::Record;
use crate::sync::now;

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

/// One that nobody has begun, with or without a deadline.
fn new_task<T>() -> Arc<Live<T, Closure>> {
    let common = Common {
        executor: 0,
        timer: StdArc::default(),
        cores: StdArc::default(),
        began: now(),
        domains: 1,
    };
    let registry = Registry::new(common);
    let id = registry.reserve();
    let (options, homes) = (TableOptions::default(), Homes::single(DomainId(0)));
    registry.publish(id, "t".into(), Index::default(), options, homes);
    let entry = registry.refer(id).expect("it was published");
    let header = Header::new(entry, Time::ZERO, None, Default::default());
    Arc::new(Live::new(header, Closure, ()))
}

/// Its worker answers it.
fn tell<T>(task: &Live<T, Closure>, answer: T) {
    task.tell(Ok((answer, Record::idle(DomainId(0)))));
}

/// Its ticket asks, whose deadline has passed or has not.
fn ask<T>(task: &Live<T, Closure>, waker: &Waker, due: bool) -> Poll<Result<T, Error>> {
    if due {
        task.header.expire();
    }
    let asked = task.ask(waker);
    asked.map(|told| told.map(|(answer, _)| answer))
}

fn a_result_is_seen_or_its_waker_is_called() {
    let task = new_task();
    let (wakes, waker) = counting();
    let worker = {
        let task = Arc::clone(&task);
        thread::spawn(move || tell(&task, 7))
    };
    let shown = task.header.is_ended();
    let first = ask(&task, &waker, false);
    assert!(first.is_ready() || !shown, "what has ended has an answer");
    worker.join().unwrap();
    assert!(task.header.is_ended());
    match first {
        Poll::Ready(result) => assert_eq!(result, Ok(7)),
        Poll::Pending => {
            assert_eq!(
                wakes.0.load(Ordering::Acquire),
                1,
                "a pending poll is followed by one wake"
            );
            assert_eq!(ask(&task, &waker, false), Poll::Ready(Ok(7)));
        }
    }
}

/// It has moved to another task of its runtime: the waker that it left last is called, or an earlier one before that.
fn a_ticket_that_moves_is_woken_where_it_is() {
    let task = new_task();
    let wakers = [counting(), counting()];
    let worker = {
        let task = Arc::clone(&task);
        thread::spawn(move || tell(&task, 7))
    };
    let polls = wakers
        .each_ref()
        .map(|(_, waker)| match task.header.is_ended() {
            true => None,
            false => Some(ask(&task, waker, false).is_pending()),
        });
    worker.join().unwrap();
    if polls[1] == Some(true) {
        assert_eq!(wakers[1].0.0.load(Ordering::Acquire), 1);
    }
}

/// A ticket that has polled, and goes: `cancel` tells whether the task may still start then.
fn goes(cancel: bool) {
    let task = new_task();
    let (wakes, waker) = counting();
    let answer = StdArc::new(());
    let worker = {
        let (task, answer) = (Arc::clone(&task), StdArc::clone(&answer));
        thread::spawn(move || match task.header.stop_reason() {
            None => {
                tell(&task, answer);
                None
            }
            reason => reason,
        })
    };
    let polled = ask(&task, &waker, false);
    if polled.is_pending() {
        task.leave(cancel);
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
    let task = new_task::<u32>();
    let (_, waker) = counting();
    let reaper = {
        let task = Arc::clone(&task);
        thread::spawn(move || task.end_in_queue(Error::ShutDown))
    };
    let first = ask(&task, &waker, true);
    let counted = reaper.join().unwrap();
    let told = match first {
        Poll::Ready(_) => first,
        Poll::Pending => ask(&task, &waker, true),
    };
    let expected = match counted {
        End::Expired => Error::Expired,
        _ => Error::ShutDown,
    };
    assert_eq!(told, Poll::Ready(Err(expected)));
}

/// Worker, timer and ticket meet: the ticket is told once, and what it is told is what the worker counts.
fn a_deadline_and_an_answer_agree_on_one_end() {
    let task = new_task();
    let (wakes, waker) = counting();
    let worker = {
        let task = Arc::clone(&task);
        thread::spawn(move || match task.header.stop_reason() {
            None => {
                let counted = task.header.settle(End::Done);
                tell(&task, 7);
                counted
            }
            Some(reason) => End::by(&reason),
        })
    };
    let timer = {
        let task = Arc::clone(&task);
        thread::spawn(move || task.header.expire())
    };
    let first = ask(&task, &waker, false);
    timer.join().unwrap();
    let counted = worker.join().unwrap();
    let told = match first {
        Poll::Ready(result) => result,
        Poll::Pending => {
            assert_eq!(wakes.0.load(Ordering::Acquire), 1, "it is woken once");
            match ask(&task, &waker, false) {
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
    let task = new_task();
    let (_, waker) = counting();
    let worker = {
        let task = Arc::clone(&task);
        thread::spawn(move || {
            if task.header.stop_reason().is_some() {
                return None;
            }
            let counted = task.header.settle(End::Done);
            tell(&task, 7);
            Some(counted)
        })
    };
    let first = ask(&task, &waker, true);
    let counted = worker.join().unwrap();
    match first {
        Poll::Ready(Ok(answer)) => assert_eq!((answer, counted), (7, Some(End::Done))),
        Poll::Ready(Err(error)) => {
            assert_eq!(error, Error::Expired);
            assert!(matches!(counted, None | Some(End::Expired)));
        }
        Poll::Pending => {
            assert_eq!(counted, Some(End::Done));
            assert_eq!(ask(&task, &waker, true), Poll::Ready(Ok(7)));
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
