//! Clients that wait for each answer before they ask again, of a table that they choose at random each time, or of their
//! own.

use std::time::Duration;

use super::simulation::MILLI;
use crate::queue::{Discipline, Pace, Queue, Run, Terms};
use crate::{TableId, Time};

/// The median wait and the longest of a hundredth of all, of 32 tables alike whose tasks take 2 ms on average.
fn waits(workers: usize, clients: usize) -> [Duration; 2] {
    let mut queue = Queue::new(Discipline::for_workers(workers), workers);
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let (mut now, mut waits) = (Time::ZERO, Vec::new());
    let mut waiting = clients;
    let mut runs = vec![(Run::default(), None); workers];
    let end = Time::ZERO + 20_000 * MILLI;
    while now < end {
        for (run, ends) in runs.iter_mut() {
            if ends.is_some_and(|ends| ends > now) {
                continue;
            }
            if ends.take().is_some() {
                run.end(now);
                waiting += 1;
            }
            for _ in 0..std::mem::take(&mut waiting) {
                let (slot, generation) = (draw(32) as u32, 0);
                let table = TableId { slot, generation };
                queue.push(table, &Terms::default(), now, now).unwrap();
            }
            if let Some(came) = queue.take(false, run, now) {
                waits.push(now.since(came));
                *ends = Some(now + MILLI + Duration::from_nanos(draw(2_000_000)));
            }
        }
        now = runs.iter().filter_map(|(_, ends)| *ends).min().unwrap();
    }
    // What waited before the tables were known is gone by then.
    let mut waits = waits.split_off(waits.len() / 4);
    waits.sort_unstable();
    [waits[waits.len() / 2], waits[waits.len() * 99 / 100]]
}

#[test]
fn equal_tables_whose_clients_choose_at_random_are_served_as_they_come() {
    // None floods, though of some much waits by chance, and of others nothing.
    for (workers, clients) in [(2, 250), (8, 640), (8, 1_000)] {
        let [median, p99] = waits(workers, clients);
        assert!(
            p99 < 2 * median,
            "{workers} workers, {clients} clients: {median:?}, {p99:?}"
        );
    }
}

#[test]
fn tables_that_keep_half_of_a_queue_filled_do_not_change_sides_with_every_task() {
    let mut queue = Queue::new(Discipline::for_workers(8), 8);
    let (mut paces, mut changes) = ([Pace::Within; 8], 0);
    let mut push = |queue: &mut Queue<u32>, slot: u32, now| {
        let table = TableId {
            slot,
            generation: 0,
        };
        let pace = queue.push(table, &Terms::default(), slot, now).unwrap();
        let before = std::mem::replace(&mut paces[slot as usize], pace);
        changes += u32::from(before != pace);
    };
    let mut now = Time::ZERO;
    (0..1_030).for_each(|client| push(&mut queue, client % 8, now));
    let mut runs = vec![(Run::default(), None); 8];
    for _ in 0..5_000 {
        // So the queue is more than half full each time, and less.
        for (run, present) in &mut runs {
            run.end(now);
            present
                .take()
                .into_iter()
                .for_each(|slot| push(&mut queue, slot, now));
        }
        for (run, present) in runs.iter_mut() {
            *present = queue.take(false, run, now);
        }
        now += Duration::from_micros(100);
    }
    assert!(changes < 100, "{changes} changes in 40,000 tasks");
}
