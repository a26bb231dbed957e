//! Who has shown the key: where one is set, strangers have half of the connections, and make room for newer ones.
//!
//! Everybody begins as a stranger and is known after one request with the key. When there are too many strangers the oldest
//! is let go, so that whoever has the key always gets in, however many others hold on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

use parking_lot::Mutex;

/// The strangers among the connections of a port.
pub(crate) struct Strangers {
    most: usize,
    now: AtomicUsize,
    /// The oldest first, and some that are known or gone.
    arrived: Mutex<VecDeque<Weak<Standing>>>,
}

impl Strangers {
    /// Lets the oldest stranger go; false if there is none, and none on its way out.
    pub(crate) fn make_room(&self) -> bool {
        let mut arrived = self.arrived.lock();
        while let Some(oldest) = arrived.pop_front() {
            if oldest.upgrade().is_some_and(|oldest| oldest.let_go()) {
                break;
            }
        }
        self.now.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            now: AtomicUsize::new(0),
            arrived: Mutex::default(),
        })
    }

    /// A new connection's standing. It may cost the oldest stranger its own.
    pub(crate) fn arrive(self: &Arc<Self>) -> Arc<Standing> {
        let standing = Arc::new(Standing {
            strangers: Some(Arc::clone(self)),
            known: AtomicBool::new(false),
            end: Mutex::default(),
        });
        let count = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if count > self.most {
            self.make_room();
        }
        let mut arrived = self.arrived.lock();
        if arrived.len() > 2 * self.most {
            arrived.retain(|standing| standing.strong_count() > 0);
        }
        arrived.push_back(Arc::downgrade(&standing));
        standing
    }
}

/// Whether a connection's peer has shown the key.
#[derive(Default)]
pub(crate) struct Standing {
    strangers: Option<Arc<Strangers>>,
    known: AtomicBool,
    end: Mutex<End>,
}

#[derive(Default)]
struct End {
    has_come: bool,
    /// Whoever is to see it.
    waker: Option<Waker>,
}

impl Standing {
    /// The peer has shown the key.
    pub(crate) fn know(&self) {
        // The lock keeps it from being let go at the same moment.
        let _end = self.end.lock();
        if !self.known.swap(true, Ordering::Relaxed) {
            self.no_stranger();
        }
    }

    /// Ends a stranger's connection; false if it is known.
    fn let_go(&self) -> bool {
        let mut end = self.end.lock();
        if self.known.load(Ordering::Relaxed) || end.has_come {
            return false;
        }
        end.has_come = true;
        if let Some(waker) = end.waker.take() {
            waker.wake();
        }
        true
    }

    /// Whether the connection is to end; wakes the task when it is.
    pub(crate) fn has_ended(&self, context: &mut Context<'_>) -> bool {
        if self.strangers.is_none() || self.known.load(Ordering::Relaxed) {
            return false;
        }
        let mut end = self.end.lock();
        if !end.has_come
            && !end
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            end.waker = Some(context.waker().clone());
        }
        end.has_come
    }

    fn no_stranger(&self) {
        if let Some(strangers) = &self.strangers {
            strangers.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if !*self.known.get_mut() {
            self.no_stranger();
        }
    }
}

/// What a request knows of its connection.
#[derive(Clone)]
pub(crate) struct Peer(pub(crate) Arc<Standing>);

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(standing: &Standing) -> bool {
        standing.has_ended(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_oldest_stranger_makes_room_and_whoever_is_known_stays() {
        let strangers = Strangers::new(3);
        let friend = strangers.arrive();
        friend.know();
        friend.know();
        let all: Vec<_> = (0..3).map(|_| strangers.arrive()).collect();
        assert!(!all.iter().any(|one| ended(one)));
        let newest = strangers.arrive();
        assert!(ended(&all[0]) && !ended(&all[1]) && !ended(&newest) && !ended(&friend));
        all[1].know();
        let next = strangers.arrive();
        assert!(ended(&all[2]) && !ended(&newest) && !ended(&next));
        drop((all, newest, next));
        assert_eq!(strangers.now.load(Ordering::Relaxed), 0);
        // Those that are gone are not kept.
        for _ in 0..100 {
            drop(strangers.arrive());
        }
        assert!(strangers.arrived.lock().len() <= 7);
        assert!(
            !ended(&Standing::default()),
            "without a key nobody is let go"
        );
    }
}
