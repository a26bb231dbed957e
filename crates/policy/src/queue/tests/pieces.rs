//! When a task that waits goes before another piece of one that is shared out.

use super::simulation::{DISCIPLINE, MILLI, Simulation};
use crate::Time;
use crate::queue::{Queue, Run, Terms, Underway};
use chiplet_table::Class;

/// Whether a task of `waits` that came at 5 ms goes before a piece of one of `shared` that came at 1 ms and was begun
/// at 2 ms, at each of these times in milliseconds.
fn goes_before<const N: usize>(waits: Class, shared: Class, times: [u32; N]) -> [bool; N] {
    let mut queue = Queue::new(DISCIPLINE, 4);
    let terms = Terms {
        class: waits,
        ..Terms::default()
    };
    queue
        .push(Simulation::table(0), &terms, (), Time::ZERO + 5 * MILLI)
        .unwrap();
    let task = Underway {
        class: shared,
        came: Time::ZERO + MILLI,
        began: Time::ZERO + 2 * MILLI,
    };
    times.map(|time| queue.goes_before(&task, Time::ZERO + time * MILLI))
}

#[test]
fn what_has_been_started_goes_first_unless_it_takes_long() {
    use Class::{Bulk, Interactive};
    let times = [6, 17, 18, 200];
    let after_long = [false, false, true, true];
    assert_eq!(goes_before(Interactive, Interactive, times), after_long);
    assert_eq!(goes_before(Bulk, Bulk, times), after_long);
    assert_eq!(goes_before(Interactive, Bulk, times), [true; 4]);
    assert_eq!(goes_before(Bulk, Interactive, times), [false; 4]);
}

#[test]
fn nothing_goes_first_when_nothing_waits() {
    let mut queue = Queue::new(DISCIPLINE, 4);
    let task = Underway {
        class: Class::Bulk,
        came: Time::ZERO,
        began: Time::ZERO,
    };
    assert!(!queue.goes_before(&task, Time::ZERO + 50 * MILLI));
    let table = Simulation::table(0);
    queue
        .push(table, &Terms::default(), (), Time::ZERO + 50 * MILLI)
        .unwrap();
    assert!(queue.goes_before(&task, Time::ZERO + 50 * MILLI));
    assert!(
        queue
            .take(false, &mut Run::default(), Time::ZERO + 50 * MILLI)
            .is_some()
    );
    assert!(!queue.goes_before(&task, Time::ZERO + 51 * MILLI));
}
