//! A shutdown that is awaited, while clients submit and others shut down too.

use std::sync::Arc;

use shuttle::thread;

use super::{PATIENCE, assert_complete, builder};
use crate::checks::checks;
use crate::{Shutdown, SubmitError};

/// One awaits the shutdown, or drops it; another client submits until it is refused. What was accepted is answered.
fn stopping() {
    for awaits in [true, false] {
        let executor = Arc::new(builder(1, 2).build().unwrap());
        let table = executor.add_closure_table("t", 1);
        let client = {
            let executor = Arc::clone(&executor);
            thread::spawn(move || {
                let mut accepted = 0;
                for n in 0..3 {
                    match executor.submit_fn(table, None, move |_| n) {
                        Ok(ticket) => {
                            accepted += 1;
                            assert_eq!(ticket.wait(), Ok(n), "a drain answers it");
                        }
                        Err(refused) => assert_eq!(refused.reason, SubmitError::ShuttingDown),
                    }
                }
                accepted
            })
        };
        let stopping = executor.shutdown_async(Shutdown::Drain(PATIENCE));
        match awaits {
            true => {
                let report = shuttle::future::block_on(stopping);
                assert_eq!((report.abandoned, report.still_running), (0, 0));
            }
            false => drop(stopping),
        }
        let accepted = client.join().unwrap();
        let report = executor.shutdown(Shutdown::Drain(PATIENCE));
        assert_eq!((report.abandoned, report.still_running), (0, 0));
        assert_complete(&executor, accepted);
    }
}

checks! {
    an_awaited_shutdown_answers_what_was_accepted_and_wakes: stopping without ShutdownWakes;
}
