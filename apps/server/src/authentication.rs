//! Which connections have shown the key. Where one is set, those that have not are strangers: they may be half of all,
//! and take a bounded memory together.
//!
//! A connection is authenticated after one request with the key. Of too many strangers, or when they take too much
//! together, the oldest is closed, so that whoever has the key always gets in, however many others hold on.
//!
//! A stranger's memory is not measured but charged: what a connection takes by itself, what its peer has sent (the
//! headers that HTTP/2 remembers may keep whole buffers), and its calls. What a call's headers decode to is far more
//! than was sent; so a stranger's connection decodes one call's at a time (`gate`), and their memory is part of what a
//! connection takes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};

use parking_lot::Mutex;

/// Memory that strangers may be charged together. They take up to 64 MiB, with what allocators and closing connections
/// add.
const MOST_BYTES: u64 = 48 << 20;

/// A connection by itself, with the headers of one call.
const CONNECTION_BYTES: u64 = 80 << 10;

/// What TLS adds.
const TLS_BYTES: u64 = 64 << 10;

/// A call of health that is under way.
const CALL_BYTES: u64 = 12 << 10;

/// Calls of health that a stranger may have under way on a connection.
const MOST_CALLS: usize = 4;

/// Bytes that a stranger may send on a connection: a probe that asks each second until the connection has become too
/// old sends half of it.
pub(crate) const MOST_SENT: u64 = 256 << 10;

/// The connections of a port that have not shown the key.
pub(crate) struct Unauthenticated {
    most: usize,
    /// What each connection is charged from the beginning.
    each: u64,
    now: AtomicUsize,
    /// What those are charged that are not being closed.
    bytes: AtomicU64,
    /// The oldest first, and some that are confirmed or gone.
    oldest_first: Mutex<VecDeque<Weak<Authentication>>>,
}

impl Unauthenticated {
    /// Closes the oldest; false if there is none, and none that is being closed.
    pub(crate) fn close_oldest(&self) -> bool {
        self.close_one();
        self.now.load(Ordering::Relaxed) > 0
    }

    /// Closes the oldest that is not being closed yet; false if there is none.
    fn close_one(&self) -> bool {
        let mut oldest_first = self.oldest_first.lock();
        while let Some(oldest) = oldest_first.pop_front() {
            if oldest.upgrade().is_some_and(|oldest| oldest.close()) {
                return true;
            }
        }
        false
    }

    /// At most `most` connections, as far as their memory allows.
    pub(crate) fn new(most: usize, tls: bool) -> Arc<Self> {
        let each = CONNECTION_BYTES + if tls { TLS_BYTES } else { 0 };
        Arc::new(Self {
            most: most.max(1),
            each,
            now: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            oldest_first: Mutex::default(),
        })
    }

    /// Adds a new connection, which may cost the oldest its place.
    pub(crate) fn add(self: &Arc<Self>) -> Arc<Authentication> {
        let one = Arc::new(Authentication {
            all: Some(Arc::clone(self)),
            confirmed: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let count = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        if count > self.most {
            self.close_oldest();
        }
        {
            let mut oldest_first = self.oldest_first.lock();
            if oldest_first.len() > 2 * self.most {
                oldest_first.retain(|one| one.strong_count() > 0);
            }
            oldest_first.push_back(Arc::downgrade(&one));
        }
        one.charge(self.each);
        one
    }
}

/// Whether a connection's peer has shown the key, and what it takes until then.
#[derive(Default)]
pub(crate) struct Authentication {
    all: Option<Arc<Unauthenticated>>,
    confirmed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The end has come.
    ended: bool,
    /// What it is charged.
    bytes: u64,
    /// Calls of health under way.
    calls: usize,
    /// Calls that were looked at.
    judged: u64,
    /// Whoever is to see a change.
    waker: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wait(&mut self, context: &Context<'_>) {
        let waiting = self.waker.as_ref();
        if !waiting.is_some_and(|waker| waker.will_wake(context.waker())) {
            self.waker = Some(context.waker().clone());
        }
    }
}

impl Authentication {
    /// Whether nothing is bounded here: the key was shown, or there is none.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.all.is_none() || self.confirmed.load(Ordering::Relaxed)
    }

    /// The peer has shown the key.
    pub(crate) fn confirm(&self) {
        if self.is_confirmed() {
            return;
        }
        // The lock keeps it from being closed at the same moment.
        let mut state = self.state.lock();
        if !self.confirmed.swap(true, Ordering::Relaxed) {
            self.give_back(&mut state);
            self.forget();
        }
        state.wake();
    }

    /// Ends the connection; false if its peer has shown the key.
    fn close(&self) -> bool {
        let mut state = self.state.lock();
        if self.confirmed.load(Ordering::Relaxed) || state.ended {
            return false;
        }
        state.ended = true;
        self.give_back(&mut state);
        state.wake();
        true
    }

    /// Whether the connection is to end; wakes the task when it is.
    pub(crate) fn is_closed(&self, context: &Context<'_>) -> bool {
        if self.is_confirmed() {
            return false;
        }
        let mut state = self.state.lock();
        if !state.ended {
            state.wait(context);
        }
        state.ended
    }

    /// A call of the connection was looked at, and let in or refused.
    pub(crate) fn judge(&self) {
        if !self.is_confirmed() {
            let mut state = self.state.lock();
            state.judged += 1;
            state.wake();
        }
    }

    /// Whether so many of its calls were looked at, or none need be any more; wakes the task when it changes.
    pub(crate) fn has_judged(&self, calls: u64, context: &Context<'_>) -> bool {
        if self.is_confirmed() {
            return true;
        }
        let mut state = self.state.lock();
        let judged = state.judged >= calls || self.confirmed.load(Ordering::Relaxed);
        if !judged {
            state.wait(context);
        }
        judged
    }

    /// A place for a call of health; `None` if a stranger has too many under way.
    pub(crate) fn open_call(self: &Arc<Self>) -> Option<OpenCall> {
        {
            let mut state = self.state.lock();
            if state.calls >= MOST_CALLS {
                return None;
            }
            state.calls += 1;
        }
        self.charge(CALL_BYTES);
        Some(OpenCall(Arc::clone(self)))
    }

    /// Charges memory, which may cost the oldest its place.
    pub(crate) fn charge(&self, bytes: u64) {
        let Some(all) = &self.all else { return };
        {
            let mut state = self.state.lock();
            if state.ended || self.confirmed.load(Ordering::Relaxed) {
                return;
            }
            state.bytes += bytes;
            all.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        while all.bytes.load(Ordering::Relaxed) > MOST_BYTES && all.close_one() {}
    }

    fn give_back(&self, state: &mut State) {
        if let Some(all) = &self.all {
            let bytes = std::mem::take(&mut state.bytes);
            all.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
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
            let mut state = std::mem::take(self.state.get_mut());
            self.give_back(&mut state);
            self.forget();
        }
    }
}

/// A stranger's call that is under way.
pub(crate) struct OpenCall(Arc<Authentication>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.calls -= 1;
        // Nothing is charged any more once the key was shown, or the end has come.
        let bytes = CALL_BYTES.min(state.bytes);
        state.bytes -= bytes;
        if let Some(all) = &self.0.all {
            all.bytes.fetch_sub(bytes, Ordering::Relaxed);
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
        one.is_closed(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn strangers_are_closed_when_they_take_too_much_together() {
        let all = Unauthenticated::new(usize::MAX / 4, false);
        let bytes = || all.bytes.load(Ordering::Relaxed);
        let first = all.add();
        let with_key = all.add();
        with_key.confirm();
        let mut others = Vec::new();
        while !ended(&first) {
            others.push(all.add());
            assert!(bytes() <= MOST_BYTES);
        }
        assert!((100..1_000).contains(&others.len()), "{}", others.len());
        let next = &others[0];
        assert!(!ended(next));
        // Calls, and what is sent, count too.
        let call = next.open_call().unwrap();
        assert!(bytes() <= MOST_BYTES);
        drop(call);
        let newest = &others[others.len() - 1];
        newest.charge(MOST_SENT);
        assert!(bytes() <= MOST_BYTES && ended(next) && !ended(newest));
        with_key.charge(MOST_BYTES);
        assert!(bytes() <= MOST_BYTES && !ended(&with_key));
        drop((first, with_key, others));
        assert_eq!((bytes(), all.now.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_stranger_has_few_calls_under_way() {
        let all = Unauthenticated::new(3, true);
        let one = all.add();
        let calls: Vec<_> = (0..MOST_CALLS).filter_map(|_| one.open_call()).collect();
        assert_eq!(calls.len(), MOST_CALLS);
        assert!(one.open_call().is_none());
        // Ended in either order, all is given back.
        one.confirm();
        assert_eq!(all.bytes.load(Ordering::Relaxed), 0);
        drop(calls);
        assert_eq!(all.bytes.load(Ordering::Relaxed), 0);
        assert!(one.open_call().is_some());
    }

    #[test]
    fn a_call_counts_as_looked_at_once_it_is_or_the_key_was_shown() {
        let all = Unauthenticated::new(3, false);
        let one = all.add();
        let context = Context::from_waker(Waker::noop());
        assert!(one.has_judged(0, &context) && !one.has_judged(1, &context));
        one.judge();
        assert!(one.has_judged(1, &context) && !one.has_judged(2, &context));
        one.confirm();
        assert!(one.has_judged(2, &context));
    }

    #[test]
    fn the_oldest_is_closed_and_whoever_has_shown_the_key_stays() {
        let unauthenticated = Unauthenticated::new(3, false);
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
