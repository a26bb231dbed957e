//! What a model-checked build shares state through: the same names, over loom's or shuttle's primitives.
//!
//! Time is made up: it passes by being asked for. A deadline that is near may come at any moment that somebody waits
//! for it, and one that is very near does come. arc-swap is stood in for by a pointer under a model mutex: its own
//! algorithm is not under test here, the protocol around it is.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
pub(crate) use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[cfg(chiplet_loom)]
use loom as checker;
#[cfg(chiplet_shuttle)]
use shuttle as checker;

pub(crate) use checker::sync::{atomic, mpsc};
pub(crate) use checker::{thread, thread_local};

#[derive(Default)]
pub(crate) struct Mutex<T>(checker::sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T> {
    guard: checker::sync::MutexGuard<'a, T>,
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(checker::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            guard: self.0.lock().expect("a model thread panicked"),
            mutex: self,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// One: each doubles what there is to explore.
pub(crate) const PAUSES: u32 = 1;
pub(crate) const LINGERS: u32 = PAUSES;

/// Loom takes a yield for "nothing to do until others have run" and would not explore that they have not.
pub(crate) fn pause() {
    #[cfg(chiplet_shuttle)]
    thread::yield_now();
}

#[derive(Default)]
pub(crate) struct Condvar(checker::sync::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let MutexGuard { guard, mutex } = guard;
        let guard = self.0.wait(guard).expect("a model thread panicked");
        MutexGuard { guard, mutex }
    }

    /// Waits, finds that `deadline` has come, or returns early: which of them, the checker tries.
    pub(crate) fn wait_until<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> MutexGuard<'a, T> {
        match turn_of(deadline) {
            Turn::Come => guard,
            Turn::Later => {
                let mutex = guard.mutex;
                drop(guard);
                thread::yield_now();
                mutex.lock()
            }
            Turn::Never => self.wait(guard),
        }
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Threads that touch it at the same time are a failure.
pub(crate) struct Slot<T>(checker::sync::Mutex<Option<T>>);

impl<T> Slot<T> {
    pub(crate) fn new(value: Option<T>) -> Self {
        Self(checker::sync::Mutex::new(value))
    }

    pub(crate) fn put(&self, value: T) -> Option<T> {
        let mut place = self.0.try_lock().expect("one thread at a time");
        place.replace(value)
    }

    pub(crate) fn take(&self) -> Option<T> {
        let mut place = self.0.try_lock().expect("one thread at a time");
        place.take()
    }
}

pub(crate) struct Swap<T>(Mutex<std::sync::Arc<T>>);

impl<T> Swap<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(std::sync::Arc::new(value)))
    }

    pub(crate) fn load(&self) -> std::sync::Arc<T> {
        std::sync::Arc::clone(&self.0.lock())
    }

    pub(crate) fn store(&self, value: T) {
        *self.0.lock() = std::sync::Arc::new(value);
    }
}

/// A deadline farther away than this is patience, and never comes.
const NEAR: Duration = Duration::from_secs(10);

/// A deadline nearer than this comes if it is waited for for long enough; of one farther away that is left to chance.
const SOON: Duration = Duration::from_millis(5);

/// Deadlines, other than such as come soon, that may come while one thread waits; without a bound a checker would try
/// for ever what happens if nothing but time passes.
const MOST_TIMEOUTS: u32 = 3;

std::thread_local! {
    /// Nanoseconds that have passed. All threads of a model run on one of the system's, so this is the model's own:
    /// models that are explored at the same time do not move each other's clocks.
    static PASSED: Cell<u64> = const { Cell::new(0) };
}

/// Sets the clock back: each execution of a model has to see the same times.
pub(crate) fn begin() {
    PASSED.set(0);
}

/// What time it is: a microsecond later each time.
pub(crate) fn now() -> Instant {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let began = *BEGAN.get_or_init(Instant::now);
    pass(1_000);
    began + Duration::from_nanos(PASSED.get())
}

fn pass(nanos: u64) {
    PASSED.set(PASSED.get() + nanos);
}

/// What becomes of a deadline that somebody waits for.
enum Turn {
    /// It comes now, and it is that late.
    Come,
    /// It will come. The wait ends early, as waits may.
    Later,
    /// It does not come while this wait lasts.
    Never,
}

fn turn_of(deadline: Instant) -> Turn {
    thread_local! {
        static TIMEOUTS: Cell<u32> = Cell::new(0);
    }
    let left = deadline.saturating_duration_since(now());
    let soon = left <= SOON && cfg!(chiplet_shuttle);
    let used = TIMEOUTS.with(Cell::get);
    if left > NEAR || (used == MOST_TIMEOUTS && !soon) {
        return Turn::Never;
    }
    if !chance() {
        return if soon { Turn::Later } else { Turn::Never };
    }
    if !soon {
        TIMEOUTS.with(|timeouts| timeouts.set(used + 1));
    }
    pass(left.as_nanos() as u64);
    thread::yield_now();
    Turn::Come
}

#[cfg(chiplet_shuttle)]
fn chance() -> bool {
    use checker::rand::Rng as _;
    checker::rand::thread_rng().r#gen()
}

/// Loom has no chance to give; what it explores uses no clock.
#[cfg(chiplet_loom)]
fn chance() -> bool {
    false
}

/// Parks this thread until it is unparked, or until the time is up; it may return early.
pub(crate) fn park_timeout(time: Duration) {
    match turn_of(now() + time) {
        Turn::Come => {}
        Turn::Later => thread::yield_now(),
        Turn::Never => thread::park(),
    }
}
