//! Scoped threads that are joined by the test and not only counted out.
//!
//! `std::thread::scope` waits until its threads have counted themselves out, inside the standard library, where
//! ThreadSanitizer does not see it (`tests/sanitizers`). A join it does see.

use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use parking_lot::Mutex;

pub struct Scope<'scope, 'env> {
    scope: &'scope std::thread::Scope<'scope, 'env>,
    threads: Mutex<Vec<ScopedJoinHandle<'scope, ()>>>,
}

impl<'scope> Scope<'scope, '_> {
    pub fn spawn<T>(&self, code: impl FnOnce() -> T + Send + 'scope) {
        let thread = self.scope.spawn(|| drop(code()));
        self.threads.lock().push(thread);
    }
}

/// As `std::thread::scope`; the first panic of a thread becomes the caller's.
pub fn scope<'env, T>(code: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> T) -> T {
    std::thread::scope(|scope| {
        let scope = Scope {
            scope,
            threads: Mutex::default(),
        };
        let result = code(&scope);
        for thread in scope.threads.into_inner() {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        result
    })
}
