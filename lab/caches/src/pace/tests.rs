use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

const QUANTUM: u64 = 100;
const LATENCY: u64 = 10;

fn pace(rouse: fn(u64)) -> Pace {
    Pace::new(QUANTUM, LATENCY, rouse)
}

#[test]
fn nobody_gets_further_ahead_than_a_quantum() {
    let pace = pace(|_| ());
    let clocks = [AtomicU64::new(0), AtomicU64::new(0)];
    let ids = [pace.enter().0, pace.enter().0];
    pace.begin();
    thread::scope(|scope| {
        for me in 0..2 {
            let (pace, clocks) = (&pace, &clocks);
            scope.spawn(move || {
                let step = [7, 60][me];
                for turn in 1..2000 / step {
                    let clock = turn * step;
                    if pace.is_ahead(clock) {
                        pace.meet(ids[me], clock);
                    }
                    clocks[me].store(clock, Ordering::SeqCst);
                    // The other may not have told its time for a quantum.
                    let other = clocks[1 - me].load(Ordering::SeqCst);
                    assert!(clock <= other + 2 * QUANTUM, "{clock} {other}");
                }
                pace.leave(ids[me]);
            });
        }
    });
    assert_eq!(pace.forced(), 0);
}

#[test]
fn whoever_is_woken_goes_on_after_the_waker() {
    let pace = pace(|_| ());
    let (sleeper, _) = pace.enter();
    let (waker, _) = pace.enter();
    pace.begin();
    pace.rest(sleeper, 5, Some(64), None);
    pace.meet(waker, 1_000);
    pace.wake(1_000, 64, 1);
    assert!(
        pace.is_ahead(1_000 + LATENCY + QUANTUM + 1),
        "it counts before it runs"
    );
    assert_eq!(pace.back(sleeper, Return::Woken), 1_000 + LATENCY);
}

#[test]
fn a_sleeper_that_another_is_woken_for_sleeps_on() {
    let pace = pace(|_| ());
    let ids: Vec<ThreadId> = (0..3).map(|_| pace.enter().0).collect();
    pace.begin();
    pace.rest(ids[0], 0, Some(64), None);
    pace.rest(ids[1], 0, Some(64), None);
    pace.wake(50, 64, 1);
    assert_eq!(pace.back(ids[1], Return::Woken), 50 + LATENCY);
    pace.rest(ids[1], 60, None, None);
    pace.meet(ids[2], 5_000);
    assert_eq!(pace.now(), 5_000, "the first holds nobody up");
}

#[test]
fn a_sleep_that_is_over_is_ended() {
    static ROUSED: AtomicU64 = AtomicU64::new(0);
    let pace = pace(|word| ROUSED.store(word, Ordering::Relaxed));
    let (sleeper, _) = pace.enter();
    let (other, _) = pace.enter();
    pace.begin();
    pace.rest(sleeper, 0, Some(64), Some(500));
    pace.meet(other, 400);
    assert_eq!(ROUSED.load(Ordering::Relaxed), 0);
    pace.meet(other, 501);
    assert_eq!(ROUSED.load(Ordering::Relaxed), 64);
    assert_eq!(pace.back(sleeper, Return::Woken), 500);
}

#[test]
fn time_jumps_to_the_first_end_where_nobody_runs() {
    let pace = pace(|_| ());
    let (late, _) = pace.enter();
    let (early, _) = pace.enter();
    pace.begin();
    pace.rest(late, 0, Some(64), Some(500));
    pace.rest(early, 10, Some(128), Some(300));
    assert_eq!(pace.back(late, Return::Other), 0, "it is not its turn");
    pace.rest(late, 0, Some(64), Some(500));
    assert_eq!(pace.back(early, Return::Other), 300);
}

#[test]
fn time_does_not_go_back_where_a_wake_up_was_not_seen() {
    let pace = pace(|_| ());
    let (joins, _) = pace.enter();
    let (ends, _) = pace.enter();
    pace.begin();
    pace.rest(joins, 5, Some(64), None);
    pace.meet(ends, 1_000);
    pace.leave(ends);
    assert_eq!(pace.enter().1, 1_000);
    assert_eq!(pace.back(joins, Return::Woken), 1_000);
}

#[test]
fn a_thread_that_does_not_come_up_is_not_waited_for_for_ever() {
    let pace = pace(|_| ());
    let (_stuck, _) = pace.enter();
    let (other, _) = pace.enter();
    pace.begin();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pace.meet(other, QUANTUM + 1);
            done.store(true, Ordering::Relaxed);
        });
    });
    assert!(done.load(Ordering::Relaxed));
    assert_eq!(pace.forced(), 1);
}
