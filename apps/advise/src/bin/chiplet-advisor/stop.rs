//! Ctrl-C and SIGTERM, for commands that put something back before they end.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

static ASKED: AtomicBool = AtomicBool::new(false);

/// How soon a request to stop is seen.
const GLANCE: Duration = Duration::from_millis(50);

/// From now on Ctrl-C and SIGTERM are seen by [`asked`] and [`rest`]. The second one ends the process at once, after
/// it has said `left`: what is not put back then.
pub(crate) fn heed(left: &'static str) -> anyhow::Result<()> {
    ctrlc::set_handler(move || {
        if ASKED.swap(true, Ordering::Relaxed) {
            say(left);
            std::process::exit(130);
        }
        say("stopping; once more to stop at once");
    })
    .context("Ctrl-C cannot be handled")
}

/// Tells on standard error, whether or not anybody reads it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "chiplet-advisor: {text}");
}

/// Whether this process was asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Sleeps so long; `false` as soon as this process is asked to stop.
pub(crate) fn rest(length: Duration) -> bool {
    let end = Instant::now() + length;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if asked() {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

/// Does a work that waits for others on a thread of its own; `None` as soon as this process is asked to stop.
pub(crate) fn unless_asked<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<Option<T>> {
    let (done, result) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("waiting".to_owned())
        .spawn(move || done.send(work()))?;
    loop {
        match result.recv_timeout(GLANCE) {
            Ok(result) => return Ok(Some(result)),
            Err(RecvTimeoutError::Timeout) if asked() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the work has panicked"),
        }
    }
}
