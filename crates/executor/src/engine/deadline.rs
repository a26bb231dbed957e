//! How a deadline ends a task, and the threads that wake polled tickets in time.
//!
//! Whoever comes first ends it: a worker that has taken it and does not begin what cannot be answered in time
//! (`worker.rs`); a search of a full queue for tasks that are dead (`purge.rs`); the thread that waits for its ticket
//! (`ticket.rs`); or, for a polled ticket, the timer here. A task that runs asks its `Context`, and is answered late.
//!
//! A thread that waits for a ticket keeps the deadline itself. A future has nobody who would poll it when its deadline
//! comes, and no runtime may be assumed, so at its first poll that finds no answer it sets an alarm here. It takes the
//! alarm back when it is ready or dropped: there is at most one alarm for each ticket that lives.
//!
//! One thread leads: it sleeps until the earliest alarm, and without a limit while there is none. A new alarm wakes it
//! only if it is due before that. It is not woken when an alarm is taken back; it wakes for it in vain and goes on to
//! the next. When one is due it takes that alone, hands the lead on, and then calls the waker, which is the caller's
//! code and may block. If all other threads are inside wakers it starts another one first, up to [`MOST`]: only as many
//! wakers that block make another deadline wait. A thread that finds enough others waiting for the lead ends.
//!
//! Alarms refer to their tasks weakly: the timer keeps no task alive, and a task keeps the timer alive through its
//! table's entry. The last worker that leaves stops the timer ([`super::threads::Left`]): every accepted task has ended
//! by then, so no ticket needs an alarm any more.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Instant;

use crate::sync::{Condvar, Mutex, Step, left_out, now};
use chiplet_table::host::contain;

/// Threads that there are from the beginning. All but one wait for their turn, which costs nothing but their stacks'
/// addresses.
pub(crate) const THREADS: usize = match cfg!(any(chiplet_loom, chiplet_shuttle)) {
    true => 2,
    false => 4,
};

/// Threads that there may be.
const MOST: usize = match cfg!(any(chiplet_loom, chiplet_shuttle)) {
    true => 3,
    false => 128,
};

/// What has a deadline.
pub(crate) trait Expire: Send + Sync {
    /// The deadline has passed.
    fn expire(&self);
}

/// One ticket's place in the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alarm {
    at: Instant,
    /// Tells alarms of one instant apart.
    number: u64,
}

#[derive(Default)]
pub(crate) struct Timer {
    alarms: Mutex<Alarms>,
    /// For the thread that leads.
    changed: Condvar,
    /// For the others: the lead is to be had.
    free: Condvar,
}

#[derive(Default)]
struct Alarms {
    set: BTreeMap<Alarm, Weak<dyn Expire>>,
    /// Alarms set so far.
    count: u64,
    lead: Lead,
    /// Threads that wait for the lead.
    waiting: usize,
    /// Threads beside the [`THREADS`] from the beginning.
    more: usize,
}

/// Which thread leads.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Lead {
    /// None. Whoever takes the lead looks at the alarms first.
    #[default]
    Free,
    /// One, which looks at them again by then, if not before.
    Until(Option<Instant>),
    /// All have ended or are about to.
    Stopped,
}

impl Timer {
    /// Has `task` told at `at` that its deadline has passed. `None` once the timer was stopped.
    pub(crate) fn set(&self, at: Instant, task: Weak<dyn Expire>) -> Option<Alarm> {
        let mut alarms = self.alarms.lock();
        let wake = match alarms.lead {
            Lead::Stopped => return None,
            Lead::Free => false,
            Lead::Until(until) => until.is_none_or(|until| at < until),
        };
        let number = alarms.count;
        let alarm = Alarm { at, number };
        alarms.count += 1;
        alarms.set.insert(alarm, task);
        if wake {
            // One call is enough, however many later alarms are set until it is followed.
            alarms.lead = Lead::Until(Some(at));
        }
        drop(alarms);
        if wake && !left_out(Step::AlarmWakes) {
            self.changed.notify_one();
        }
        Some(alarm)
    }

    /// Forgets an alarm. It may be going off just now.
    pub(crate) fn take_back(&self, alarm: Alarm) {
        let gone = self.alarms.lock().set.remove(&alarm);
        // Whatever it may free is freed outside the lock.
        drop(gone);
    }

    /// Ends the threads and forgets all alarms.
    pub(crate) fn stop(&self) {
        let gone = {
            let mut alarms = self.alarms.lock();
            alarms.lead = Lead::Stopped;
            std::mem::take(&mut alarms.set)
        };
        drop(gone);
        self.changed.notify_one();
        self.free.notify_all();
    }

    /// One of the timer's threads; `start` starts another one, if it can. True: it ends because there are enough.
    pub(crate) fn run(&self, start: impl Fn() -> bool) -> bool {
        while let Some((task, is_last)) = self.wait() {
            if is_last && !start() {
                self.alarms.lock().more -= 1;
            }
            // Wakers are the caller's code. So is what goes with the task, should this be the last to refer to it.
            contain(|| {
                if let Some(task) = task.upgrade() {
                    task.expire();
                }
            });
        }
        self.alarms.lock().lead != Lead::Stopped
    }

    /// Waits for the lead, sleeps until an alarm is due, and takes it. Says whether another thread has to be started,
    /// which is counted already. `None` once the timer was stopped, and if enough others wait for the lead.
    fn wait(&self) -> Option<(Weak<dyn Expire>, bool)> {
        let mut alarms = self.alarms.lock();
        while matches!(alarms.lead, Lead::Until(_)) {
            if alarms.waiting == THREADS - 1 {
                // One leads, too.
                alarms.more -= 1;
                return None;
            }
            alarms.waiting += 1;
            alarms = self.free.wait(alarms);
            alarms.waiting -= 1;
        }
        while alarms.lead != Lead::Stopped {
            if let Some(due) = alarms.take_due(now()) {
                alarms.lead = Lead::Free;
                let is_last = alarms.waiting == 0
                    && THREADS + alarms.more < MOST
                    && !left_out(Step::StuckReplaced);
                alarms.more += usize::from(is_last);
                drop(alarms);
                self.free.notify_one();
                return Some((due, is_last));
            }
            let next = alarms.set.keys().next().map(|alarm| alarm.at);
            alarms.lead = Lead::Until(next);
            alarms = match next {
                Some(at) => self.changed.wait_until(alarms, at),
                None => self.changed.wait(alarms),
            };
        }
        None
    }
}

impl Alarms {
    /// The earliest alarm, if it is due.
    fn take_due(&mut self, now: Instant) -> Option<Weak<dyn Expire>> {
        let first = self.set.first_entry()?;
        (first.key().at <= now).then(|| first.remove())
    }
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::{Context, Poll, Wake, Waker};
    use std::time::Duration;

    use chiplet_policy::{Homes, Time};
    use chiplet_topology::DomainId;

    use super::*;
    use crate::engine::completion::Live;
    use crate::engine::registry::{Common, Index, Registry};
    use crate::engine::task::Header;
    use crate::error::Error;
    use crate::jobs::closure::Closure;
    use crate::options::TableOptions;
    use crate::ticket::Ticket;

    const HOUR: Duration = Duration::from_secs(3_600);
    /// A test that waits this long has hung.
    const HANG: Duration = Duration::from_secs(60);

    /// Says its name when it expires.
    struct Says(u32, Sender<u32>);

    impl Expire for Says {
        fn expire(&self) {
            self.1.send(self.0).unwrap();
        }
    }

    fn weak(task: &Arc<Says>) -> Weak<dyn Expire> {
        let task: Arc<dyn Expire> = Arc::clone(task) as _;
        Arc::downgrade(&task)
    }

    fn len(timer: &Timer) -> usize {
        timer.alarms.lock().set.len()
    }

    /// A ticket of a task with that deadline, which nobody runs.
    fn ticket(timer: &Arc<Timer>, deadline: Instant) -> Ticket<()> {
        let registry = Registry::new(Common {
            executor: 0,
            timer: Arc::clone(timer),
            cores: Arc::default(),
            began: now(),
            domains: 1,
        });
        let id = registry.reserve();
        registry.publish(
            id,
            "t".into(),
            Index::default(),
            TableOptions::default(),
            Homes::single(DomainId(0)),
        );
        let entry = registry.refer(id).unwrap();
        let header = Header::new(entry, Time::ZERO, Some(deadline), Default::default());
        let code = |_: &mut chiplet_table::Context| ();
        Ticket::live(Arc::new(Live::new(header, Closure, code)))
    }

    fn poll<T>(ticket: &mut Ticket<T>) -> Poll<Result<T, Error>> {
        pin!(ticket).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn alarms_go_off_in_order_whichever_was_set_first() {
        let (timer, (says, said)) = (Arc::new(Timer::default()), channel());
        let running = Arc::clone(&timer);
        let thread = std::thread::spawn(move || running.run(|| false));
        let tasks = [0, 1, 2, 3].map(|name| Arc::new(Says(name, says.clone())));
        let begun = now();
        let after = [
            HOUR,
            Duration::from_millis(500),
            Duration::from_millis(200),
            HOUR,
        ];
        let alarms: Vec<Alarm> = tasks
            .iter()
            .zip(after)
            .map(|(task, after)| timer.set(begun + after, weak(task)).unwrap())
            .collect();
        for (name, after) in [(2, after[2]), (1, after[1])] {
            assert_eq!(said.recv_timeout(HANG), Ok(name));
            assert!(begun.elapsed() >= after, "{name} came early");
        }
        assert_eq!(len(&timer), 2, "what has gone off is gone");
        timer.take_back(alarms[0]);
        timer.take_back(alarms[1]);
        assert_eq!(len(&timer), 1);
        timer.stop();
        thread.join().unwrap();
        assert_eq!(len(&timer), 0, "a stopped timer keeps nothing");
        assert_eq!(timer.set(begun, weak(&tasks[0])), None);
        assert!(said.try_recv().is_err());
    }

    #[test]
    fn a_task_that_is_gone_is_passed_over() {
        let (timer, (says, said)) = (Timer::default(), channel());
        let gone = Arc::new(Says(0, says.clone()));
        let there = Arc::new(Says(1, says));
        timer.set(now(), weak(&gone)).unwrap();
        timer.set(now(), weak(&there)).unwrap();
        drop(gone);
        for left in [1, 0] {
            let (due, _) = timer.wait().unwrap();
            assert_eq!(len(&timer), left);
            if let Some(task) = due.upgrade() {
                task.expire();
            }
        }
        assert_eq!(said.try_iter().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn as_many_threads_as_wakers_block_and_no_more_than_it_takes_when_they_go_on() {
        /// Says that it has expired, and waits until the sender is gone.
        struct Blocks(Sender<()>, crate::sync::Mutex<Option<Receiver<()>>>);
        impl Expire for Blocks {
            fn expire(&self) {
                self.0.send(()).unwrap();
                let gate = self.1.lock().take().unwrap();
                let _ = gate.recv();
            }
        }
        fn start(timer: &Arc<Timer>, ended: &Sender<bool>) {
            let (timer, ended) = (Arc::clone(timer), ended.clone());
            std::thread::spawn(move || {
                let another = || {
                    start(&timer, &ended);
                    true
                };
                let is_surplus = timer.run(another);
                let _ = ended.send(is_surplus);
            });
        }
        let timer = Arc::new(Timer::default());
        let (ends, ended) = channel();
        (0..THREADS).for_each(|_| start(&timer, &ends));
        let (tell, told) = channel();
        let mut blocked = Vec::new();
        for wakers in 1..=MOST + 1 {
            let (open, gate) = channel();
            let gate = crate::sync::Mutex::new(Some(gate));
            let task: Arc<dyn Expire> = Arc::new(Blocks(tell.clone(), gate));
            timer.set(now(), Arc::downgrade(&task)).unwrap();
            blocked.push((task, open));
            if wakers <= MOST {
                assert_eq!(told.recv_timeout(HANG), Ok(()), "waker {wakers}");
                let threads = THREADS + timer.alarms.lock().more;
                assert!(
                    threads <= MOST && threads > wakers - 1,
                    "{threads} for {wakers}"
                );
            }
        }
        assert!(told.try_recv().is_err(), "nobody is left for it");
        let (tasks, opens): (Vec<_>, Vec<_>) = blocked.into_iter().unzip();
        drop(opens);
        assert_eq!(told.recv_timeout(HANG), Ok(()), "now there is");
        drop(tasks);
        for _ in THREADS..MOST {
            assert_eq!(ended.recv_timeout(HANG), Ok(true));
        }
        assert_eq!(timer.alarms.lock().more, 0);
        timer.stop();
        for _ in 0..THREADS {
            assert_eq!(ended.recv_timeout(HANG), Ok(false));
        }
    }

    #[test]
    fn tickets_that_are_gone_leave_no_alarm() {
        let timer = Arc::new(Timer::default());
        let deadline = now() + HOUR;
        let mut kept = ticket(&timer, deadline);
        for turn in 0..10_000 {
            let mut ticket = ticket(&timer, deadline);
            // However often it is polled, it has one alarm.
            for _ in 0..3 {
                assert!(poll(&mut ticket).is_pending());
            }
            assert!(poll(&mut kept).is_pending());
            assert_eq!(len(&timer), 2);
            match turn % 2 {
                0 => drop(ticket),
                _ => ticket.detach(),
            }
            assert_eq!(len(&timer), 1);
        }
        drop(kept);
        assert_eq!(len(&timer), 0);
        assert_eq!(Arc::strong_count(&timer), 1, "nothing keeps the tasks");
    }

    #[test]
    fn a_ticket_that_is_ready_leaves_no_alarm() {
        let timer = Arc::new(Timer::default());
        let mut ticket = ticket(&timer, now() + Duration::from_millis(10));
        while poll(&mut ticket).is_pending() {
            assert!(len(&timer) <= 1);
        }
        assert_eq!(len(&timer), 0);
    }

    #[test]
    fn a_thread_that_waits_needs_no_alarm() {
        let timer = Arc::new(Timer::default());
        let deadline = now() + Duration::from_millis(300);
        let mut ticket = ticket(&timer, deadline);
        assert_eq!(ticket.wait_for(Duration::from_millis(1)), None);
        assert_eq!(len(&timer), 0);
        assert_eq!(ticket.wait(), Err(Error::Expired));
        assert!(now() >= deadline);
    }

    #[test]
    fn formatting_a_ticket_tells_nobody_that_it_has_expired() {
        struct Counts(AtomicUsize);
        impl Wake for Counts {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        // Nobody runs this timer.
        let timer = Arc::new(Timer::default());
        let deadline = now() + Duration::from_millis(10);
        let mut ticket = ticket(&timer, deadline);
        let calls = Arc::new(Counts(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&calls));
        let polled = pin!(&mut ticket).poll(&mut Context::from_waker(&waker));
        while polled.is_pending() && now() < deadline {
            std::thread::yield_now();
        }
        let formatted = format!("{ticket:?}");
        assert!(polled.is_ready() || formatted.contains("finished: true"));
        assert_eq!(calls.0.load(Ordering::Relaxed), 0);
    }
}
