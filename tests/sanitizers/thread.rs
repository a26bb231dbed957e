//! Has a data race, which ThreadSanitizer has to report: a check of the check.
#![allow(static_mut_refs)]

use std::sync::Arc;

static mut SHARED: u64 = 0;

fn main() {
    // An Arc that both threads drop orders nothing that they did not order.
    let both = Arc::new(());
    let other = {
        let both = Arc::clone(&both);
        std::thread::spawn(move || {
            unsafe { SHARED += 1 };
            drop(both);
        })
    };
    unsafe { SHARED += 1 };
    drop(both);
    other.join().unwrap();
}
