//! Clients that choose a table at random each time, and then wait for its answer.

use std::time::Duration;

use super::simulation::MILLI;
use crate::queue::{Discipline, Queue, Run, Terms};
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
        for (worker, (run, ends)) in runs.iter_mut().enumerate() {
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
                queue.push(table, Terms::default(), now, now).unwrap();
            }
            if let Some(came) = queue.take(Some(worker), run, now) {
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
