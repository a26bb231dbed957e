//! The thread that adds and removes tables, takes cpus away and gives them back, and looks at the counters meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::book::Book;
use super::{Dice, Load, Served, assert_adds_up};
use crate::common::HANG;

/// Between two replacements.
const PAUSE: Duration = Duration::from_millis(2);

pub(super) fn run(load: &Load, mut dice: Dice) {
    while !load.over.load(Ordering::Relaxed) {
        replace(load, &mut dice);
        if dice.one_in(16) {
            assert_adds_up(&load.executor.snapshot());
        }
        if dice.one_in(16) {
            restaff(load, &mut dice);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Other cpus than before: every second time all of them, else any, but at least one.
fn restaff(load: &Load, dice: &mut Dice) {
    let domains = load.executor.topology().domains();
    let all: Vec<u32> = domains.iter().flat_map(|domain| domain.cpus()).collect();
    let mut cpus = all.clone();
    if dice.one_in(2) {
        // The last domains go as a whole, as when a container shrinks; of the others some cpus.
        let left = 1 + dice.throw(domains.len() as u64) as usize;
        cpus = domains[..left]
            .iter()
            .flat_map(|domain| domain.cpus())
            .collect();
        cpus.retain(|_| !dice.one_in(3));
        cpus.push(all[dice.throw(all.len() as u64) as usize]);
    }
    load.executor.restrict_to(&cpus).unwrap();
}

/// A new table for an old one. Most go while clients still submit to them, one in sixteen is first left to end its
/// tasks, so that its own counts can be checked before they are counted among all that was removed.
fn replace(load: &Load, dice: &mut Dice) {
    let slot = dice.throw(load.slots.len() as u64) as usize;
    let searchable = load.served(slot).searchable;
    let new = Arc::new(load.add(searchable));
    let old = std::mem::replace(&mut *load.slots[slot].write().unwrap(), new);
    if dice.one_in(16) {
        check_when_quiet(load, &old);
    }
    assert!(
        load.executor.remove_table(old.id).is_ok(),
        "it is removed once"
    );
    assert!(load.executor.remove_table(old.id).is_err(), "and only once");
    load.removed.fetch_add(1, Ordering::Relaxed);
}

fn check_when_quiet(load: &Load, old: &Arc<Served>) {
    let begun = Instant::now();
    let wait = || {
        assert!(begun.elapsed() < HANG, "a table's tasks do not end");
        std::thread::sleep(Duration::from_micros(500));
    };
    // Clients hold the table for a burst, and no longer find it in its slot.
    while Arc::strong_count(old) > 1 {
        wait();
    }
    loop {
        let snapshot = load.executor.snapshot();
        assert_adds_up(&snapshot);
        let table = snapshot.tables.iter().find(|table| table.id == old.id);
        let counts = table.expect("it is not removed yet").counts;
        if counts.queued + counts.running == 0 {
            Book::check([&*old.book], counts);
            load.checked.fetch_add(1, Ordering::Relaxed);
            return;
        }
        wait();
    }
}
