//! Which connections have shown the key. Where one is set, those that have not may be half of all.
//!
//! A connection is authenticated after one request with the key. Of too many that are not, the oldest is closed, so that
//! whoever has the key always gets in, however many others hold on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

use parking_lot::Mutex;

/// The connections of a port that have not shown the key.
pub(crate) struct Unauthenticated {
    most: usize,
    now: AtomicUsize,
    /// The oldest first, and some that are confirmed or gone.
    oldest_first: Mutex<VecDeque<Weak<Authentication>>>,
}

impl Unauthenticated {
    /// Closes the oldest; false if there is none, and none that is being closed.
    pub(crate) fn close_oldest(&self) -> bool {
        let mut oldest_first = self.oldest_first.lock();
        while let Some(oldest) = oldest_first.pop_front() {
            if oldest.upgrade().is_some_and(|oldest| oldest.close()) {
                break;
            }
        }
        self.now.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            now: AtomicUsize::new(0),
            oldest_first: Mutex::default(),
        })
    }

    /// Adds a new connection, which may cost the oldest its place.
    pub(crate) fn add(self: &Arc<Self>) -> Arc<Authentication> {
        let one = Arc::new(Authentication {
            all: Some(Arc::clone(self)),
            confirmed: AtomicBool::new(false),
            end: Mutex::default(),
        });
        let count = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if count > self.most {
            self.close_oldest();
        }
        let mut oldest_first = self.oldest_first.lock();
        if oldest_first.len() > 2 * self.most {
            oldest_first.retain(|one| one.strong_count() > 0);
        }
        oldest_first.push_back(Arc::downgrade(&one));
        one
    }
}

/// Whether a connection's peer has shown the key.
#[derive(Default)]
pub(crate) struct Authentication {
    all: Option<Arc<Unauthenticated>>,
    confirmed: AtomicBool,
    end: Mutex<End>,
}

#[derive(Default)]
struct End {
    has_come: bool,
    /// Whoever is to see it.
    waker: Option<Waker>,
}

impl Authentication {
    /// The peer has shown the key.
    pub(crate) fn confirm(&self) {
        // The lock keeps it from being closed at the same moment.
        let _end = self.end.lock();
        if !self.confirmed.swap(true, Ordering::Relaxed) {
            self.forget();
        }
    }

    /// Ends the connection; false if its peer has shown the key.
    fn close(&self) -> bool {
        let mut end = self.end.lock();
        if self.confirmed.load(Ordering::Relaxed) || end.has_come {
            return false;
        }
        end.has_come = true;
        if let Some(waker) = end.waker.take() {
            waker.wake();
        }
        true
    }

    /// Whether the connection is to end; wakes the task when it is.
    pub(crate) fn is_closed(&self, context: &mut Context<'_>) -> bool {
        if self.all.is_none() || self.confirmed.load(Ordering::Relaxed) {
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

    fn forget(&self) {
        if let Some(all) = &self.all {
            all.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Authentication {
    fn drop(&mut self) {
        if !*self.confirmed.get_mut() {
            self.forget();
        }
    }
}

/// What a request knows of its connection.
#[derive(Clone)]
pub(crate) struct ConnectionInfo(pub(crate) Arc<Authentication>);

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(one: &Authentication) -> bool {
        one.is_closed(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_oldest_is_closed_and_whoever_has_shown_the_key_stays() {
        let unauthenticated = Unauthenticated::new(3);
        let with_key = unauthenticated.add();
        with_key.confirm();
        with_key.confirm();
        let all: Vec<_> = (0..3).map(|_| unauthenticated.add()).collect();
        assert!(!all.iter().any(|one| ended(one)));
        let newest = unauthenticated.add();
        assert!(ended(&all[0]) && !ended(&all[1]) && !ended(&newest) && !ended(&with_key));
        all[1].confirm();
        let next = unauthenticated.add();
        assert!(ended(&all[2]) && !ended(&newest) && !ended(&next));
        drop((all, newest, next));
        assert_eq!(unauthenticated.now.load(Ordering::Relaxed), 0);
        // Those that are gone are not kept.
        for _ in 0..100 {
            drop(unauthenticated.add());
        }
        assert!(unauthenticated.oldest_first.lock().len() <= 7);
        assert!(
            !ended(&Authentication::default()),
            "without a key nobody is closed"
        );
    }
}
