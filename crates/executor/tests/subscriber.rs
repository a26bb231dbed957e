//! A `tracing` subscriber that panics.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use chiplet_executor::{Executor, Shutdown, Ticket, Topology};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;

static WARNED: AtomicUsize = AtomicUsize::new(0);

/// Panics at each warning.
struct Strict;

impl<S: Subscriber> Layer<S> for Strict {
    fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if *event.metadata().level() == Level::WARN {
            WARNED.fetch_add(1, Ordering::SeqCst);
            panic!("a subscriber panics");
        }
    }
}

/// Says that it was woken.
struct Woken(Sender<()>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// An executor whose one worker is in a task until the sender is dropped.
fn stuck() -> (Executor, Ticket<()>, Sender<()>) {
    let machine = Topology::uniform(1, 1, 32 << 20);
    let executor = Executor::builder().topology(machine).build().unwrap();
    let table = executor.add_closure_table("t", 1);
    let (begin, begun) = channel();
    let (open, opened) = channel::<()>();
    let task = executor.spawn(table, move || {
        begin.send(()).unwrap();
        // An error, once the test has let go of the other end.
        let _ = opened.recv();
    });
    begun.recv().unwrap();
    (executor, task, open)
}

// One test: the subscriber is the process's.
#[test]
fn a_shutdown_ends_though_its_warning_panics_and_dropping_the_executor_waits_for_no_more() {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Strict)).unwrap();
    let (executor, task, open) = stuck();
    let before = WARNED.load(Ordering::SeqCst);
    let bound = Shutdown::Abandon(Duration::from_millis(50));
    let mut stopping = pin!(executor.shutdown_async(bound));
    let (wake, woken) = channel();
    let waker = Arc::new(Woken(wake)).into();
    let mut context = Context::from_waker(&waker);
    let report = loop {
        match stopping.as_mut().poll(&mut context) {
            Poll::Ready(report) => break report,
            Poll::Pending => woken
                .recv_timeout(Duration::from_secs(60))
                .expect("it is woken"),
        }
    };
    assert_eq!(report.still_running, 1);
    let warned = || WARNED.load(Ordering::SeqCst) - before;
    assert_eq!(warned(), 1);
    // A second wait would be warned of, too.
    drop(executor);
    assert_eq!(warned(), 1);
    drop(open);
    task.wait().unwrap();

    let (executor, task, open) = stuck();
    for wait in [2, 3] {
        // Whoever asks for a wait again gets it.
        assert_eq!(executor.shutdown(bound).still_running, 1);
        assert_eq!(warned(), wait);
    }
    drop(executor);
    assert_eq!(warned(), 3);
    drop(open);
    task.wait().unwrap();
}
