//! Ends the test if nothing goes on any more, and says what stood still.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::HANG;
use crate::common::load::Load;

/// The load of the life that is being lived.
type Present = Arc<Mutex<Option<Arc<Load>>>>;

pub struct Watchdog {
    present: Present,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    pub fn start() -> Self {
        let present = Present::default();
        let (stop, stopped) = channel();
        let watched = Arc::clone(&present);
        let thread = std::thread::spawn(move || {
            let (mut last, mut since) = (None, Instant::now());
            while stopped.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                // Between two lives nothing runs, which is progress as seen from either of them.
                let now = watched
                    .lock()
                    .unwrap()
                    .as_ref()
                    .map(|load| load.executions());
                if now != last {
                    (last, since) = (now, Instant::now());
                } else if since.elapsed() >= HANG {
                    bark(&watched);
                }
            }
        });
        Self {
            present,
            stop,
            thread,
        }
    }

    pub fn look_at(&self, load: Option<&Arc<Load>>) {
        *self.present.lock().unwrap() = load.cloned();
    }

    pub fn stop(self) {
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

/// Prints to the real standard error, which the test harness does not capture, and aborts.
fn bark(present: &Present) -> ! {
    let say = |text: String| {
        let _ = writeln!(std::io::stderr(), "soak: {text}");
    };
    say(format!("nothing has ended for {} s", HANG.as_secs()));
    if let Some(load) = &*present.lock().unwrap() {
        say(format!(
            "{} executions, {:?}",
            load.executions(),
            load.tables()
        ));
        // Last, because it needs every lock, and one of them may be what all wait for.
        let snapshot = load.executor.snapshot();
        say(format!("total {:?}", snapshot.total));
        for domain in &snapshot.domains {
            say(format!(
                "domain {}: {} of {} workers busy, {} queued",
                domain.id.0, domain.busy_workers, domain.workers, domain.queued
            ));
        }
        for table in snapshot
            .tables
            .iter()
            .filter(|table| table.counts.queued + table.counts.running > 0)
        {
            say(format!(
                "table {:?} on {}: {:?}",
                table.id, table.homes, table.counts
            ));
        }
    }
    std::process::abort();
}
