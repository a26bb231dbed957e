//! Keeps threads together in modelled time, though few host cores run them and each at its own speed.
//!
//! 1. Each thread has a clock. The *horizon* is the earliest clock of all threads that run, plus a quantum. A thread
//!    whose clock passes the horizon waits until the others have come up ([`Pace::meet`]).
//! 2. A thread that sleeps in the kernel holds nobody up ([`Pace::rest`]). When another wakes it, it counts as running
//!    from then on, with the waker's time plus what waking takes ([`Pace::wake`]), though it may take long on the host
//!    until it does run ([`Pace::back`]).
//! 3. A sleep that has an end in modelled time is ended by whoever moves the horizon past it. If nobody runs, the
//!    host lets sleepers look up after a while, and for the one whose sleep ends first it has ended: time jumps.
//!
//! Which thread the kernel wakes is a guess (the one that sleeps longest), and a thread may be kept from running by
//! something that is not seen here. So a wait that lasts unlikely long on the host moves the horizon all the same;
//! [`Pace::forced`] counts that.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A thread that waits so many of these on the host without any progress goes on.
const PATIENCE: u32 = 60;
const LOOK: Duration = Duration::from_millis(5);

/// A thread's number, given by [`Pace::enter`].
pub type ThreadId = u64;

/// How a sleep in the kernel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// It did not sleep.
    AtOnce,
    /// Somebody woke it.
    Woken,
    /// Its time was over, or the system call was no sleep on a word.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    Runs,
    /// Sleeps on a word since the turn `since`, until a modelled time.
    Sleeps {
        word: Option<u64>,
        until: Option<u64>,
        since: u64,
    },
    /// Was woken, or its sleep was over, and it has not come back yet.
    Wakes {
        word: u64,
        over: bool,
    },
}

struct Thread {
    clock: u64,
    doing: Doing,
}

#[derive(Default)]
struct State {
    threads: BTreeMap<ThreadId, Thread>,
    next: ThreadId,
    turn: u64,
    forced: u64,
    going: bool,
    /// The latest time at which all that ran are known to have been.
    reached: u64,
}

/// See the module.
pub struct Pace {
    horizon: AtomicU64,
    quantum: u64,
    /// From waking a thread until it runs.
    latency: u64,
    state: Mutex<State>,
    moved: Condvar,
    /// Ends a sleep on a word on the host.
    rouse: fn(u64),
}

impl Pace {
    /// All times in picoseconds. `rouse` wakes all host threads that sleep on a word. Nobody waits for anybody until
    /// [`Pace::begin`].
    #[must_use]
    pub fn new(quantum: u64, latency: u64, rouse: fn(u64)) -> Self {
        Self {
            horizon: AtomicU64::new(u64::MAX),
            quantum,
            latency,
            state: Mutex::default(),
            moved: Condvar::new(),
            rouse,
        }
    }

    /// Whether a thread at `clock` has to [`meet`](Self::meet).
    #[inline]
    pub fn is_ahead(&self, clock: u64) -> bool {
        clock > self.horizon.load(Ordering::Relaxed)
    }

    /// A thread begins, at the time of those that run. Returns its number and its clock.
    pub fn enter(&self) -> (ThreadId, u64) {
        let mut state = self.lock();
        let clock = state.now().unwrap_or(state.reached);
        let id = state.next;
        state.next += 1;
        state.threads.insert(
            id,
            Thread {
                clock,
                doing: Doing::Runs,
            },
        );
        (id, clock)
    }

    /// A thread ends.
    pub fn leave(&self, id: ThreadId) {
        let mut state = self.lock();
        state.threads.remove(&id);
        self.advance(&mut state);
    }

    /// From now on threads wait for each other.
    pub fn begin(&self) {
        let mut state = self.lock();
        state.going = true;
        self.horizon.store(0, Ordering::Relaxed);
        self.advance(&mut state);
    }

    /// Nobody waits any more.
    pub fn end(&self) {
        let mut state = self.lock();
        state.going = false;
        self.horizon.store(u64::MAX, Ordering::Relaxed);
        self.moved.notify_all();
    }

    /// Waits until no thread that runs is a quantum behind.
    pub fn meet(&self, id: ThreadId, clock: u64) {
        let mut state = self.lock();
        state.run(id, clock);
        self.advance(&mut state);
        let mut looks = 0;
        while self.is_ahead(clock) {
            let before = state.turn;
            let (guard, waited) = self
                .moved
                .wait_timeout(state, LOOK)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if !waited.timed_out() || state.turn != before {
                looks = 0;
                continue;
            }
            looks += 1;
            // It may have been on its way to sleep when it was to be woken.
            for word in state.overdue() {
                (self.rouse)(word);
            }
            if looks >= PATIENCE && self.is_ahead(clock) {
                looks = 0;
                state.forced += 1;
                state.forget_wakes();
                self.move_to(
                    &mut state,
                    self.horizon.load(Ordering::Relaxed) + self.quantum,
                );
            }
        }
    }

    /// A thread is about to sleep: on a word, until a modelled time, or in a way that is not known.
    pub fn rest(&self, id: ThreadId, clock: u64, word: Option<u64>, until: Option<u64>) {
        let mut state = self.lock();
        let since = state.turn;
        state.turn += 1;
        let doing = Doing::Sleeps { word, until, since };
        state.threads.insert(id, Thread { clock, doing });
        self.advance(&mut state);
    }

    /// A thread has slept; returns its clock.
    pub fn back(&self, id: ThreadId, how: Return) -> u64 {
        let mut state = self.lock();
        let now = state.now();
        let Some(thread) = state.threads.get(&id) else {
            return 0;
        };
        let (own, doing) = (thread.clock, thread.doing);
        let clock = match (how, doing) {
            (Return::AtOnce, Doing::Sleeps { .. }) | (_, Doing::Wakes { .. } | Doing::Runs) => own,
            (Return::Woken, Doing::Sleeps { word, .. }) => {
                // It was woken in another's place, which sleeps on.
                let other = word.and_then(|word| state.swap_wake(word));
                other.or(now).unwrap_or(state.reached).max(own)
            }
            (Return::Other, Doing::Sleeps { until, .. }) => match (now, until) {
                (Some(now), until) => until.map_or(now, |until| until.min(now)).max(own),
                (None, Some(until)) if state.first_end() == Some(until) => until.max(own),
                (None, Some(_)) => own,
                (None, None) => state.reached.max(own),
            },
        };
        state.run(id, clock);
        self.advance(&mut state);
        clock
    }

    /// A thread at `clock` wakes up to `count` of those that sleep on `word`.
    pub fn wake(&self, clock: u64, word: u64, count: u64) {
        let mut state = self.lock();
        let mut sleepers: Vec<(u64, ThreadId)> = state
            .threads
            .iter()
            .filter_map(|(&id, thread)| match thread.doing {
                Doing::Sleeps {
                    word: Some(on),
                    since,
                    ..
                } if on == word => Some((since, id)),
                _ => None,
            })
            .collect();
        sleepers.sort_unstable();
        for (_, id) in sleepers.into_iter().take(count as usize) {
            if let Some(thread) = state.threads.get_mut(&id) {
                thread.clock = thread.clock.max(clock + self.latency);
                thread.doing = Doing::Wakes { word, over: false };
            }
        }
    }

    /// The time of the thread that is furthest behind, of those that run.
    pub fn now(&self) -> u64 {
        let state = self.lock();
        state.now().unwrap_or(state.reached)
    }

    /// How often the horizon was moved although a thread had not come up.
    pub fn forced(&self) -> u64 {
        self.lock().forced
    }

    /// Moves the horizon as far as those that run allow, and ends sleeps that are over by then.
    fn advance(&self, state: &mut State) {
        if !state.going {
            return;
        }
        let Some(now) = state.now() else {
            return;
        };
        let over: Vec<(ThreadId, u64, u64)> = state
            .threads
            .iter()
            .filter_map(|(&id, thread)| match thread.doing {
                Doing::Sleeps {
                    word: Some(word),
                    until: Some(until),
                    ..
                } if until <= now => Some((id, word, until)),
                _ => None,
            })
            .collect();
        for (id, word, until) in over {
            if let Some(thread) = state.threads.get_mut(&id) {
                thread.clock = thread.clock.max(until);
                thread.doing = Doing::Wakes { word, over: true };
            }
            (self.rouse)(word);
        }
        let now = state.now().unwrap_or(now);
        state.reached = state.reached.max(now);
        if now + self.quantum > self.horizon.load(Ordering::Relaxed) {
            self.move_to(state, now + self.quantum);
        }
    }

    fn move_to(&self, state: &mut State, horizon: u64) {
        state.turn += 1;
        self.horizon.store(horizon, Ordering::Relaxed);
        self.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thread {
    fn until(&self) -> Option<u64> {
        match self.doing {
            Doing::Sleeps { until, .. } => until,
            _ => None,
        }
    }
}

impl State {
    fn now(&self) -> Option<u64> {
        let run = |thread: &&Thread| !matches!(thread.doing, Doing::Sleeps { .. });
        self.threads
            .values()
            .filter(run)
            .map(|thread| thread.clock)
            .min()
    }

    fn run(&mut self, id: ThreadId, clock: u64) {
        self.threads.insert(
            id,
            Thread {
                clock,
                doing: Doing::Runs,
            },
        );
    }

    /// When the first sleep ends that has an end.
    fn first_end(&self) -> Option<u64> {
        self.threads.values().filter_map(Thread::until).min()
    }

    /// Words that threads sleep on though their sleep is over.
    fn overdue(&self) -> Vec<u64> {
        let word = |thread: &Thread| match thread.doing {
            Doing::Wakes { word, over: true } => Some(word),
            _ => None,
        };
        self.threads.values().filter_map(word).collect()
    }

    /// Takes its wake-up away from a thread that still sleeps on `word`, and returns its time.
    fn swap_wake(&mut self, word: u64) -> Option<u64> {
        let since = self.turn;
        let other = self
            .threads
            .values_mut()
            .find(|thread| thread.doing == Doing::Wakes { word, over: false })?;
        other.doing = Doing::Sleeps {
            word: Some(word),
            until: None,
            since,
        };
        Some(other.clock)
    }

    /// Threads that were thought to wake up, and have not for long, hold nobody up any more.
    fn forget_wakes(&mut self) {
        let since = self.turn;
        for thread in self.threads.values_mut() {
            if let Doing::Wakes { word, .. } = thread.doing {
                thread.doing = Doing::Sleeps {
                    word: Some(word),
                    until: None,
                    since,
                };
            }
        }
    }
}
