//! Slots for the requests under way (`limits.requests`).
//!
//! A call takes its slot as soon as its headers are there, since from then on it takes memory. Its message may never
//! come. So of the calls whose message is still on its way the oldest gives its slot to a new call that finds none
//! free: open calls alone never keep others out. And a message has to come at some pace.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes a second that a client has to send at least: 1 MiB takes 16 s, on top of `limits.message_seconds`.
const SLOWEST: u64 = 64 << 10;

/// How long the bytes of a message may take that are there.
pub(super) fn patience(bytes: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1_000) / SLOWEST)
}

/// The slots, and which calls may lose theirs.
pub(crate) struct RequestSlots {
    free: Arc<Semaphore>,
    /// The oldest first, and some whose message is there, or that are over.
    arriving: Mutex<VecDeque<Weak<Arrival>>>,
}

impl RequestSlots {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            arriving: Mutex::default(),
        }
    }

    /// A slot for a call whose headers are there: a free one, or that of the oldest whose message is not.
    pub(super) fn take(&self) -> Option<Arc<Arrival>> {
        let free = Arc::clone(&self.free).try_acquire_owned().ok();
        let slot = free.or_else(|| self.take_from_oldest())?;
        let arrival = Arc::new(Arrival(Mutex::new(State::Arriving(slot, None))));
        let mut arriving = self.arriving.lock();
        if arriving.len() == arriving.capacity() {
            arriving.retain(|one| one.upgrade().is_some_and(|one| one.is_arriving()));
            // So that it is long until the next time.
            let more = arriving.len().max(64);
            arriving.reserve(more);
        }
        arriving.push_back(Arc::downgrade(&arrival));
        Some(arrival)
    }

    fn take_from_oldest(&self) -> Option<OwnedSemaphorePermit> {
        let mut arriving = self.arriving.lock();
        while let Some(oldest) = arriving.pop_front() {
            if let Some(slot) = oldest.upgrade().and_then(|oldest| oldest.give_up()) {
                return Some(slot);
            }
        }
        None
    }
}

/// A call with its slot, which is free again when this is dropped.
pub(crate) struct Arrival(Mutex<State>);

enum State {
    /// Its message is on its way; who is to hear if its slot goes to another.
    Arriving(OwnedSemaphorePermit, Option<Waker>),
    /// Its message is there, so the slot stays its own.
    Arrived(OwnedSemaphorePermit),
    GivenUp,
}

impl Arrival {
    fn is_arriving(&self) -> bool {
        matches!(&*self.0.lock(), State::Arriving(..))
    }

    fn give_up(&self) -> Option<OwnedSemaphorePermit> {
        let mut state = self.0.lock();
        if !matches!(&*state, State::Arriving(..)) {
            return None;
        }
        let State::Arriving(slot, waker) = std::mem::replace(&mut *state, State::GivenUp) else {
            return None;
        };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(slot)
    }

    /// Whether its slot went to another; wakes the task when it does.
    pub(super) fn is_given_up(&self, context: &Context<'_>) -> bool {
        match &mut *self.0.lock() {
            State::Arriving(_, waker) => {
                if !waker
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(context.waker()))
                {
                    *waker = Some(context.waker().clone());
                }
                false
            }
            State::Arrived(_) => false,
            State::GivenUp => true,
        }
    }

    /// All of its message is there.
    pub(super) fn arrived(&self) {
        let mut state = self.0.lock();
        *state = match std::mem::replace(&mut *state, State::GivenUp) {
            State::Arriving(slot, _) | State::Arrived(slot) => State::Arrived(slot),
            State::GivenUp => State::GivenUp,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given_up(one: &Arrival) -> bool {
        one.is_given_up(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_oldest_whose_message_is_not_there_makes_room() {
        let slots = RequestSlots::new(3);
        let [first, second, third] = [(); 3].map(|()| slots.take().unwrap());
        first.arrived();
        let fourth = slots.take().unwrap();
        assert!(given_up(&second));
        assert!(!given_up(&first) && !given_up(&third) && !given_up(&fourth));
        // What comes too late changes nothing.
        second.arrived();
        assert!(given_up(&second));
        third.arrived();
        fourth.arrived();
        assert!(slots.take().is_none(), "whoever is whole stays");
        drop(second);
        assert!(slots.take().is_none(), "its slot is another's");
        drop(first);
        assert!(slots.take().is_some());
    }

    #[test]
    fn calls_that_are_over_are_not_kept() {
        let slots = RequestSlots::new(10);
        let open = slots.take().unwrap();
        for _ in 0..10_000 {
            slots.take().unwrap().arrived();
        }
        assert!(slots.arriving.lock().capacity() < 1_000);
        assert!(!given_up(&open));
    }
}
