//! The one door to synchronisation: everything that two threads share comes from here.
//!
//! A normal build gets parking_lot, std atomics, crossbeam-deque and arc-swap. Under `--cfg chiplet_loom` the same
//! names stand for loom's model-checked counterparts, so that loom explores the code that ships and not a
//! copy of it. Nothing else in this crate may name `std::sync` primitives other than `Arc` and `OnceLock`
//! (both carry no protocol of ours).

#[cfg(not(chiplet_loom))]
mod real {
    use std::time::Instant;

    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic;

    /// A condition variable whose `wait` hands the guard back, as loom's and std's do.
    #[derive(Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// Waits at most until `deadline`; the caller re-checks its condition either way.
        pub(crate) fn wait_until<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Instant,
        ) -> MutexGuard<'a, T> {
            self.0.wait_until(&mut guard, deadline);
            guard
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    pub(crate) mod deque {
        pub(crate) use crossbeam_deque::{Steal, Stealer, Worker};
    }

    /// Rounds of [`pause`] that are worth trying before sleeping: some 10 us in all, which is what putting a thread
    /// to sleep and waking it costs.
    pub(crate) const PAUSES: u32 = 32;

    /// Passes a moment, in round `round` of waiting: first a little of this core's time, then this core's turn.
    pub(crate) fn pause(round: u32) {
        if round < 4 {
            for _ in 0..1 << round {
                std::hint::spin_loop();
            }
        } else {
            std::thread::yield_now();
        }
    }

    /// A pointer that readers load without a lock while a writer replaces it.
    pub(crate) struct Swap<T>(arc_swap::ArcSwap<T>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(arc_swap::ArcSwap::from_pointee(value))
        }

        pub(crate) fn load(&self) -> arc_swap::Guard<std::sync::Arc<T>> {
            self.0.load()
        }

        pub(crate) fn store(&self, value: T) {
            self.0.store(std::sync::Arc::new(value));
        }
    }
}

#[cfg(chiplet_loom)]
mod model {
    use std::collections::VecDeque;
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    pub(crate) use loom::sync::atomic;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T>(loom::sync::MutexGuard<'a, T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(self.0.lock().expect("a model thread panicked"))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        fn deref(&self) -> &T {
            &self.0
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            &mut self.0
        }
    }

    /// One: each doubles what there is to explore.
    pub(crate) const PAUSES: u32 = 1;

    pub(crate) fn pause(_round: u32) {
        loom::thread::yield_now();
    }

    #[derive(Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            MutexGuard(self.0.wait(guard.0).expect("a model thread panicked"))
        }

        /// The model has no clock: a timed wait is a wait.
        pub(crate) fn wait_until<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: Instant,
        ) -> MutexGuard<'a, T> {
            self.wait(guard)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// crossbeam-deque's surface over a model mutex: its own algorithm is not under test here, the
    /// protocol around it is.
    pub(crate) mod deque {
        use super::{Mutex, VecDeque};
        use std::sync::Arc;

        pub(crate) struct Worker<T>(Arc<Mutex<VecDeque<T>>>);
        pub(crate) struct Stealer<T>(Arc<Mutex<VecDeque<T>>>);

        pub(crate) enum Steal<T> {
            Empty,
            Success(T),
            #[allow(dead_code)]
            Retry,
        }

        impl<T> Worker<T> {
            pub(crate) fn new_fifo() -> Self {
                Self(Arc::new(Mutex::new(VecDeque::new())))
            }

            pub(crate) fn push(&self, value: T) {
                self.0.lock().push_back(value);
            }

            pub(crate) fn pop(&self) -> Option<T> {
                self.0.lock().pop_front()
            }

            pub(crate) fn stealer(&self) -> Stealer<T> {
                Stealer(Arc::clone(&self.0))
            }
        }

        impl<T> Stealer<T> {
            pub(crate) fn steal(&self) -> Steal<T> {
                match self.0.lock().pop_front() {
                    Some(value) => Steal::Success(value),
                    None => Steal::Empty,
                }
            }

            pub(crate) fn is_empty(&self) -> bool {
                self.0.lock().is_empty()
            }
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
}

#[cfg(chiplet_loom)]
pub(crate) use model::{Condvar, Mutex, MutexGuard, PAUSES, Swap, atomic, deque, pause};
#[cfg(not(chiplet_loom))]
pub(crate) use real::{Condvar, Mutex, MutexGuard, PAUSES, Swap, atomic, deque, pause};
