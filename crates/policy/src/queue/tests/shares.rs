//! Who gets how much of a domain's time, and who waits how long, when tables ask for more than there is.

use std::time::Duration;

use proptest::prelude::*;

use super::simulation::{MILLI, SECOND, Served, Simulation, Source, ratio, source};
use crate::Time;
use crate::queue::{Pace, Terms};

#[test]
fn two_tables_that_ask_for_too_much_are_served_by_their_weights() {
    for workers in [1, 4] {
        let all = workers as f64;
        for (one, three) in [
            (1.0, 1.0),
            (10.0, 1.0),
            (1.0, 10.0),
            (5.0, 5.0),
            (0.5, 0.9),
            (0.3, 0.9),
        ] {
            for times in [[2, 2], [1, 4], [4, 1]] {
                let [first, second] = times.map(|time| time * MILLI);
                let mut simulation = Simulation::new(
                    workers,
                    &[
                        source(1.0, one * all).taking(first),
                        source(3.0, three * all).taking(second),
                    ],
                );
                simulation.run_until(5 * SECOND);
                let served = simulation.run_until(15 * SECOND);
                let ratio = ratio(&served, 1, 0);
                assert!(
                    (2.7..=3.3).contains(&ratio),
                    "{workers} workers, asked for {one} and {three}, {times:?} ms: {ratio}"
                );
                let time = served[0].time + served[1].time;
                let idle = workers as u32 * 10 * SECOND;
                assert!(idle.saturating_sub(time) < 100 * MILLI, "nobody idles");
            }
        }
    }
}

#[test]
fn a_light_table_beside_them_hardly_waits() {
    for weights in [[1.0, 3.0], [1.0, 1.0], [0.01, 10.0]] {
        let [one, other] = weights.map(|weight| source(weight, 3.0));
        let light = source(1.0, 0.05).from(3 * MILLI);
        let mut simulation = Simulation::new(1, &[one, other, light]);
        simulation.run_until(5 * SECOND);
        let served = simulation.run_until(65 * SECOND);
        // The task that runs, and one of those that have their turn.
        let longest = served[2].longest();
        assert!(longest <= 6 * MILLI, "{weights:?}: {longest:?}");
        assert!(served[2].waits.len() > 1_400);
    }
}

/// What is over a table's part by a little is held back a little: none stands still until the flood has got as much.
#[test]
fn tables_that_ask_for_a_little_too_much_beside_a_flood_wait_alike() {
    let flood = source(1.0, 1.0).keeping(300);
    let quiet = |slot: u32| source(1.0, 8.0 * 0.96 / 20.0).from(slot * MILLI);
    let sources: Vec<Source> = std::iter::once(flood).chain((0..20).map(quiet)).collect();
    let mut simulation = Simulation::new(8, &sources);
    simulation.run_until(5 * SECOND);
    let served = simulation.run_until(15 * SECOND);
    let longest: Vec<Duration> = served[1..].iter().map(Served::longest).collect();
    assert!(
        longest.iter().all(|&wait| wait < 300 * MILLI),
        "{longest:?}"
    );
    let part = served[0].time.div_duration_f64(8 * 10 * SECOND);
    assert!(
        (0.035..0.05).contains(&part),
        "the flood gets its part: {part}"
    );
}

#[test]
fn who_was_ahead_of_a_flood_is_one_when_that_has_ended() {
    let flood = source(1.0, 2.0).until(2 * SECOND);
    let ahead = source(1.0, 0.9).until(4 * SECOND);
    let light = source(1.0, 0.05).from(3 * MILLI);
    let mut simulation = Simulation::new(1, &[flood, ahead, light]);
    let served = simulation.run_until(6 * SECOND);
    let waited = served[1].longest();
    assert!(
        waited > 300 * MILLI,
        "it has to have got more than its part: {waited:?}"
    );
    let longest = served[2].longest();
    assert!(longest < 20 * MILLI, "{longest:?}");
}

#[test]
fn many_tables_that_ask_for_too_much_share_by_their_weights() {
    let weights = [1.0, 2.0, 5.0, 5.0];
    let sources = weights.map(|weight| source(weight, 2.0));
    let mut simulation = Simulation::new(2, &sources);
    simulation.run_until(5 * SECOND);
    let served = simulation.run_until(25 * SECOND);
    for (slot, weight) in weights.into_iter().enumerate() {
        let ratio = ratio(&served, slot, 0);
        let expected = f64::from(weight);
        assert!((ratio / expected - 1.0).abs() < 0.1, "{weight}: {ratio}");
    }
}

#[test]
fn equal_tables_that_ask_for_too_much_share_alike_whatever_they_send() {
    let mut simulation = Simulation::new(1, &[source(1.0, 2.0), source(1.0, 20.0)]);
    simulation.run_until(5 * SECOND);
    let served = simulation.run_until(15 * SECOND);
    let ratio = ratio(&served, 1, 0);
    assert!((0.9..=1.1).contains(&ratio), "{ratio}");
}

#[test]
fn equal_tables_that_keep_tasks_waiting_get_the_same_time_however_many_those_are() {
    // Each asks for all that it can get. Served in the order in which they come, who has more clients would get more.
    for [few, many] in [[80, 390], [16, 390]] {
        let sources = [
            source(1.0, 1.0).keeping(few),
            source(1.0, 1.0).keeping(many),
        ];
        let mut simulation = Simulation::new(2, &sources);
        simulation.run_until(5 * SECOND);
        let served = simulation.run_until(15 * SECOND);
        let ratio = ratio(&served, 1, 0);
        // Of whom little waits gets up to four times as much.
        assert!((0.24..=1.6).contains(&ratio), "{few} and {many}: {ratio}");
        for (served, tasks) in served.iter().zip([few, many]) {
            let (longest, half) = (served.longest(), 2 * MILLI * tasks as u32);
            assert!(longest <= 3 * half, "{few} and {many}: {longest:?}");
        }
    }
}

#[test]
fn a_first_burst_of_short_tasks_is_no_flood_once_they_are_known() {
    // 200 tasks of 5 us come before one has run; then as many come as are served.
    let short = source(1.0, 1.0).taking(Duration::from_micros(5));
    let sources = [short.keeping(200), short.keeping(200)];
    let mut simulation = Simulation::new(8, &sources);
    simulation.run_until(2 * MILLI);
    let now = Time::ZERO + 2 * MILLI;
    for slot in 0..2 {
        let (table, task) = (Simulation::table(slot), (slot, 2 * MILLI));
        let pace = simulation.queue.push(table, &Terms::default(), task, now);
        assert_eq!(pace, Ok(Pace::Within), "table {slot}");
    }
}

#[test]
fn equal_tables_of_which_alike_much_waits_are_served_as_they_come() {
    // Or with many, but not far more of one.
    for few in [4, 100] {
        let sources = [few, 2 * few].map(|tasks| source(1.0, 1.0).keeping(tasks));
        let mut simulation = Simulation::new(2, &sources);
        simulation.run_until(5 * SECOND);
        let served = simulation.run_until(15 * SECOND);
        let ratio = ratio(&served, 1, 0);
        // Runs of one table make it no more than about that.
        assert!((1.7..=2.3).contains(&ratio), "{few}: {ratio}");
    }
}

#[test]
fn others_hardly_wait_beside_tables_that_flood_whatever_they_ask_for() {
    let mut worst = Vec::new();
    for workers in [1, 2, 8] {
        for floods in [1, 2, 3] {
            for (quiet, bulk) in [(5, false), (20, false), (20, true)] {
                for asked in [0.2, 0.4, 0.6, 0.8, 0.9] {
                    // Each gets up to as much as a flood.
                    let most = f64::from(quiet) / f64::from(quiet + floods);
                    if asked > most - 0.04 {
                        continue;
                    }
                    let floods = floods as usize;
                    let mut sources: Vec<_> =
                        (0..floods).map(|_| source(1.0, 1.0).keeping(300)).collect();
                    if bulk {
                        sources = sources.into_iter().map(|source| source.bulk()).collect();
                    }
                    let all = workers as f64;
                    let each = source(1.0, asked * all / f64::from(quiet));
                    for number in 0..quiet {
                        // Not all at once.
                        let phase = each.every.mul_f64(f64::from(number) / f64::from(quiet));
                        sources.push(each.from(phase));
                    }
                    let mut simulation = Simulation::new(workers, &sources);
                    // What waited before the tables were known is gone by then.
                    simulation.run_until(8 * SECOND);
                    let served = simulation.run_until(13 * SECOND);
                    let mut waits: Vec<Duration> = served[floods..]
                        .iter()
                        .flat_map(|served| served.waits.iter().copied())
                        .collect();
                    waits.sort_unstable();
                    // With one worker and nine tenths asked for, a worker's next task of the floods is waited for.
                    let p99 = waits[waits.len() * 99 / 100];
                    let median = waits[waits.len() / 2];
                    let expected = asked * all * 5.0 / 0.002;
                    assert!(
                        waits.len() as f64 > 0.98 * expected,
                        "{} of {expected}",
                        waits.len()
                    );
                    worst.push((p99, median, workers, floods, quiet, bulk, asked));
                    let got: f64 = served[..floods]
                        .iter()
                        .map(|served| served.time.as_secs_f64())
                        .sum();
                    let left = (1.0 - asked) * all * 5.0;
                    assert!(
                        got > 0.9 * left,
                        "{workers} workers, {asked}: the floods got {got} of {left} s"
                    );
                }
            }
        }
    }
    for (until, median_most, p99_most) in [(0.6, 4, 8), (0.9, 18, 20)] {
        let cells = worst.iter().filter(|cell| cell.6 <= until);
        let cell = cells.max_by_key(|(p99, ..)| p99).unwrap();
        let (p99, median, ..) = *cell;
        let told = format!("{cell:?}");
        assert!(
            median < median_most * MILLI && p99 < p99_most * MILLI,
            "{told}"
        );
    }
}

#[test]
fn tasks_that_are_dead_when_they_are_taken_are_not_charged() {
    for [first, second] in [[8, 0], [0, 8], [5, 9]] {
        let sources = [
            source(1.0, 8.0).dying(first),
            source(3.0, 40.0).dying(second),
        ];
        let mut simulation = Simulation::new(2, &sources);
        simulation.run_until(5 * SECOND);
        let served = simulation.run_until(15 * SECOND);
        let ratio = ratio(&served, 1, 0);
        assert!(
            (2.7..=3.3).contains(&ratio),
            "{first} and {second} of ten: {ratio}"
        );
    }
}

#[test]
fn tasks_that_are_dead_when_they_are_taken_do_not_cost_their_table_its_turn() {
    for workers in [2, 4] {
        let all = workers as f64;
        let time = |dead: usize| {
            // A few tasks of another table wait at all times.
            let beside = source(1.0, 1.0).taking(MILLI / 4).keeping(4 * workers);
            let floods = source(1.0, 2.0 * all / (1.0 - dead as f64 / 10.0));
            let mut simulation = Simulation::new(workers, &[floods.dying(dead), beside]);
            simulation.run_until(5 * SECOND);
            simulation.run_until(15 * SECOND)[0].time.as_secs_f64()
        };
        let alive = time(0);
        for dead in [5, 8, 9] {
            let part = time(dead) / alive;
            assert!(part > 0.92, "{workers} workers, {dead} of ten: {part}");
        }
    }
}

#[test]
fn weights_hold_for_tables_that_keep_tasks_waiting() {
    let sources = [source(1.0, 1.0).keeping(200), source(3.0, 1.0).keeping(100)];
    let mut simulation = Simulation::new(2, &sources);
    simulation.run_until(5 * SECOND);
    let served = simulation.run_until(15 * SECOND);
    let ratio = ratio(&served, 1, 0);
    assert!((2.7..=3.3).contains(&ratio), "{ratio}");
}

#[test]
fn a_weight_takes_nothing_from_a_table_that_asks_for_little() {
    // Together they ask for nine tenths, so all of them get what they ask for.
    let sources = [source(0.01, 0.2), source(1.0, 0.3), source(100.0, 0.4)];
    let mut simulation = Simulation::new(1, &sources);
    simulation.run_until(SECOND);
    let served = simulation.run_until(11 * SECOND);
    for (served, asked) in served.iter().zip([2.0, 3.0, 4.0]) {
        let time = served.time.as_secs_f64();
        assert!((time / asked - 1.0).abs() < 0.02, "{time} of {asked} s");
    }
}

#[test]
fn what_a_table_asked_for_too_much_is_soon_forgotten() {
    let over = 60 * SECOND;
    // Two that flood for a minute, and then ask for a tenth each, beside a third that asks for half.
    let flood = |weight| source(weight, 3.0).until(over);
    let mut simulation = Simulation::new(1, &[flood(1.0), flood(3.0)]);
    // What waits by then takes less than two seconds.
    let again = over + 2 * SECOND;
    simulation.run_until(again);
    for source in &mut simulation.sources {
        source.every = 20 * MILLI;
        source.until = Duration::MAX;
        source.next = again;
    }
    let third = source(1.0, 0.5).from(again);
    simulation.sources.push(third);
    simulation.served.push(Served::default());
    simulation.taken.push(0);
    let first = simulation.run_until(again + 2 * SECOND);
    for served in &first {
        assert!(served.longest() <= 1_100 * MILLI, "{:?}", served.longest());
    }
    let later = simulation.run_until(again + 9 * SECOND);
    for served in &later {
        assert!(served.longest() <= 8 * MILLI, "{:?}", served.longest());
        assert!(served.waits.len() >= 349);
    }
}

#[test]
fn nobody_starves() {
    // The least weight against the largest, both flooding.
    let mut simulation = Simulation::new(1, &[source(1.0, 3.0), source(100.0, 3.0)]);
    simulation.run_until(5 * SECOND);
    let served = simulation.run_until(65 * SECOND);
    let ratio = ratio(&served, 1, 0);
    assert!((90.0..=110.0).contains(&ratio), "{ratio}");
    // Four that ask for all of the time without one of them asking for too much, and one that floods.
    let mut sources = vec![source(1.0, 0.26); 4];
    sources.push(source(1.0, 3.0));
    let mut simulation = Simulation::new(1, &sources);
    simulation.run_until(5 * SECOND);
    for second in 6..30 {
        let served = simulation.run_until(second * SECOND);
        for (slot, served) in served.iter().enumerate() {
            assert!(served.time > 50 * MILLI, "{slot} in second {second}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(16),
        ..ProptestConfig::default()
    })]

    /// Whatever they send, however long their tasks take and however many workers there are. Weights that hardly differ
    /// are taken as even.
    #[test]
    fn tables_that_flood_share_by_their_weights(
        tables in prop::collection::vec((1.0_f32..10.0, 1.2_f64..20.0, 500_u32..4_000), 2..5),
        workers in 1_usize..6,
    ) {
        prop_assume!(tables.iter().any(|table| (table.0 / tables[0].0 - 1.0).abs() > 0.01));
        let sources: Vec<_> = tables
            .iter()
            .map(|&(weight, load, micros)| {
                source(weight, load * workers as f64).taking(Duration::from_micros(micros.into()))
            })
            .collect();
        let mut simulation = Simulation::new(workers, &sources);
        simulation.run_until(3 * SECOND);
        let served = simulation.run_until(10 * SECOND);
        for (slot, &(weight, ..)) in tables.iter().enumerate() {
            let ratio = ratio(&served, slot, 0) * f64::from(tables[0].0 / weight);
            prop_assert!((ratio - 1.0).abs() < 0.1, "{} {}", slot, ratio);
        }
    }
}
