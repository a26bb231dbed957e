//! What the order of service promises, in virtual time: floods, bulk work, deadlines and slow tasks.
//!
//! Nothing here is left to chance: the same policy gives the same figures. Bounds are wide enough for a policy that is
//! changed, and far from what a policy gives that does not keep the promise.

mod crowds;
mod lengths;

use chiplet_baselines::Strategy;
use chiplet_topology::Topology;

use super::Scenario;
use crate::machine::{Costs, Machine};
use crate::outcome::{Outcome, Served};
use crate::workload::{Prepared, Recipe, Sampling};

fn run(domains: u32, cores: u32, tables: &str) -> Outcome {
    let machine = Machine::new(
        "test",
        Topology::uniform(domains, cores, 32 << 20),
        Costs::GENOA,
    );
    let recipe: Recipe = format!("name = 'test'\n{tables}").parse().unwrap();
    let prepared = Prepared::new(recipe.workload(1), Sampling::default(), |_| ());
    Scenario::new(&machine, &prepared, Strategy::CCD_AWARE).run(&mut |_| ())
}

fn of<'a>(outcome: &'a Outcome, name: &str) -> &'a Served {
    let found = outcome.tenants.iter().find(|served| served.name == name);
    found.unwrap()
}

/// A table by itself: tasks of so many microseconds, its terms, who asks it.
fn tables(name: &str, count: u32, micros: f64, terms: &str, asks: &str) -> String {
    format!(
        "[[tables]]\nname='{name}'\nkind='task'\ncount={count}\nmicros={micros:?}\n{terms}\n{asks}\n"
    )
}

/// At home in the first domain; of different times, so that workers do not all end at once.
const VARIED: &str = "home=0\ntimes='exponential'";

fn asks(what: &str) -> String {
    format!("[[tables.asks]]\n{what}\n")
}

/// One domain of two workers: a table of 0.5 ms with deadlines, and one beside it that keeps so many tasks waiting or
/// running. Answered and expired in each second of 8.
fn stalled(stalls: &str, deadline: f64, beside: u32) -> Vec<[u64; 2]> {
    let terms = format!("home=0\ndeadline_ms={deadline:?}\n{stalls}");
    let text = format!(
        "seconds = 8\n{}{}",
        tables("victim", 1, 500.0, &terms, &asks("rate=100.0")),
        tables(
            "beside",
            1,
            500.0,
            "home=0",
            &asks(&format!("outstanding={beside}"))
        ),
    );
    of(&run(1, 2, &text), "victim").each_second.clone()
}

#[test]
fn a_table_with_deadlines_answers_again_within_a_second_of_slow_tasks() {
    let two = "[[tables.stalls]]\nat=1.0\ntasks=2\nms=100.0";
    let long = "[[tables.stalls]]\nat=1.0\nms=500.0";
    let first = "[[tables.stalls]]\nat=0.0\nms=400.0";
    for beside in [3, 4, 12] {
        for (stalls, deadline) in [("", 20.0), (two, 20.0), (long, 50.0), (first, 60.0)] {
            let seconds = stalled(stalls, deadline, beside);
            for (second, &[done, expired]) in seconds.iter().enumerate() {
                let steady = stalls.is_empty() || second >= 3;
                assert!(
                    !steady || (done > 60 && expired <= done / 20),
                    "{beside} beside, {stalls:?}, second {second}: {seconds:?}"
                );
            }
        }
    }
}

#[test]
fn rare_stalls_cost_the_queries_that_they_meet() {
    let often = "[[tables.stalls]]\nchance=0.01\nms=100.0";
    let seconds = stalled(often, 20.0, 4);
    let done: u64 = seconds.iter().map(|second| second[0]).sum();
    let expired: u64 = seconds.iter().map(|second| second[1]).sum();
    // One of a hundred, and those that wait behind them: with one of two workers away for 100 ms nobody need expire.
    assert!(expired * 10 < done, "{seconds:?}");
}

/// A flood and five quiet tables at home in the first of two domains of four workers; the second one is busy.
fn evicted(floods: bool) -> Outcome {
    let flood = tables("flood", 1, 2_000.0, VARIED, &asks("outstanding=300"));
    let text = format!(
        "warm = 1\nseconds = 5\n{}{}{}",
        if floods { &flood } else { "" },
        tables("quiet", 5, 2_000.0, "home=0", &asks("rate=40.0")),
        tables("other", 1, 2_000.0, "home=1", &asks("outstanding=6")),
    );
    run(2, 4, &text)
}

#[test]
fn quiet_tables_stay_at_home_beside_a_flood() {
    for floods in [false, true] {
        let outcome = evicted(floods);
        let quiet = of(&outcome, "quiet");
        assert!(quiet.done > 900 && quiet.refused == 0, "{quiet:?}");
        assert!(
            quiet.away * 50 <= quiet.at_home,
            "flood: {floods}, {quiet:?}"
        );
        assert!(
            quiet.wait_us.p50 < 1_000.0 && quiet.wait_us.p99 < 10_000.0,
            "{quiet:?}"
        );
    }
}

/// Twenty tables that ask for this part of a domain of eight workers together.
fn quiet(part: f64) -> String {
    let rate = part * 8.0 / 0.002 / 20.0;
    tables(
        "quiet",
        20,
        2_000.0,
        "home=0",
        &asks(&format!("rate={rate:?}")),
    )
}

/// A table there that keeps so many tasks waiting or running.
fn offender(name: &str, micros: f64, terms: &str, outstanding: u32) -> String {
    let clients = asks(&format!("outstanding={outstanding}"));
    tables(name, 1, micros, &format!("{VARIED}\n{terms}"), &clients)
}

fn beside(part: f64, offenders: &[String]) -> Outcome {
    let offenders = offenders.concat();
    let text = format!("warm = 2\nseconds = 6\n{offenders}{}", quiet(part));
    run(1, 8, &text)
}

fn is_protected(part: f64, outcome: &Outcome) {
    let [quiet, flood] = ["quiet", "flood"].map(|name| of(outcome, name));
    let told = format!("{part}: {:?} {:?}", quiet.wait_us, flood.time_share);
    assert_eq!(quiet.refused, 0, "{told}");
    assert!(quiet.wait_us.p50 < 5_000.0, "{told}");
    assert!(quiet.wait_us.p99 < 30_000.0, "{told}");
    // It gets what is left, and a little where little is.
    let left = (1.0 - part).max(0.05);
    assert!(flood.time_share > 0.8 * left, "{told}");
}

#[test]
fn a_flood_is_held_back_whatever_the_others_ask_for() {
    for part in [0.2, 0.4, 0.6, 0.8, 0.9] {
        is_protected(part, &beside(part, &[offender("flood", 2_000.0, "", 600)]));
    }
}

#[test]
fn bulk_work_gives_way_whatever_the_others_ask_for() {
    for part in [0.2, 0.3, 0.4, 0.6, 0.8, 0.9] {
        let bulk = offender("flood", 2_000.0, "class='bulk'", 1_000);
        is_protected(part, &beside(part, &[bulk]));
    }
}

#[test]
fn a_flood_and_bulk_work_at_once_take_no_more_than_one_of_them() {
    for part in [0.4, 0.9] {
        let flood = offender("flood", 1_000.0, "", 300);
        let bulk = offender("bulk", 2_000.0, "class='bulk'", 500);
        let outcome = beside(part, &[flood, bulk]);
        let [quiet, flood, bulk] = ["quiet", "flood", "bulk"].map(|name| of(&outcome, name));
        let told = format!(
            "{part}: {:?} {} {}",
            quiet.wait_us, flood.time_share, bulk.time_share
        );
        assert!(
            quiet.wait_us.p50 < 5_000.0 && quiet.wait_us.p99 < 40_000.0,
            "{told}"
        );
        // Bulk work counts as a table of a sixteenth of the weight.
        assert!(flood.time_share > 0.02 && bulk.time_share > 0.015, "{told}");
    }
}

#[test]
fn a_flood_is_not_starved_by_tables_that_ask_for_all() {
    let outcome = beside(1.04, &[offender("flood", 2_000.0, "", 600)]);
    let flood = of(&outcome, "flood");
    assert!(flood.time_share > 0.04, "{flood:?}");
}

#[test]
fn a_table_of_more_weight_goes_before_a_flood() {
    let text = format!(
        "warm = 2\nseconds = 6\n{}{}",
        tables("flood", 1, 2_000.0, VARIED, &asks("outstanding=600")),
        tables(
            "heavy",
            20,
            2_000.0,
            "home=0\nweight=10.0",
            &asks("rate=120.0")
        ),
    );
    let outcome = run(1, 8, &text);
    let heavy = of(&outcome, "heavy");
    assert!(
        heavy.wait_us.p50 < 5_000.0 && heavy.wait_us.p99 < 30_000.0,
        "{heavy:?}"
    );
}

#[test]
fn two_floods_share_by_weight() {
    let flood = |name, weight| {
        let terms = format!("home=0\nweight={weight:?}");
        tables(name, 1, 1_000.0, &terms, &asks("outstanding=400"))
    };
    let text = format!(
        "warm = 2\nseconds = 6\n{}{}",
        flood("a", 1.0),
        flood("b", 3.0)
    );
    let outcome = run(1, 8, &text);
    let [a, b] = ["a", "b"].map(|name| of(&outcome, name).time_share);
    assert!((2.5..3.5).contains(&(b / a)), "{a} {b}");
}

#[test]
fn the_first_burst_of_a_table_that_nothing_is_known_of_is_held_back_like_any() {
    for class in ["interactive", "bulk"] {
        for from in [0.0, 2.0] {
            let bursts = format!("burst=600\nfrom={from:?}");
            let text = format!(
                "seconds = 4\n{}{}",
                tables(
                    "new",
                    1,
                    5_000.0,
                    &format!("home=0\nclass='{class}'"),
                    &asks(&bursts)
                ),
                tables("quiet", 4, 500.0, "home=0", &asks("rate=100.0")),
            );
            let outcome = run(1, 4, &text);
            let (new, quiet) = (of(&outcome, "new"), of(&outcome, "quiet"));
            assert_eq!(new.done, 600);
            assert!(
                quiet.wait_us.p50 < 10_000.0,
                "{class} from {from}: {quiet:?}"
            );
            assert!(
                quiet.wait_us.p99 < 100_000.0,
                "{class} from {from}: {quiet:?}"
            );
        }
    }
}

#[test]
fn one_slow_task_does_not_make_a_table_that_floods() {
    for ms in [400.0_f64, 2_000.0] {
        let stall = format!("home=0\n[[tables.stalls]]\nat=0.0\nms={ms:?}");
        let text = format!(
            "warm = {:?}\nseconds = 1\n{}{}",
            ms / 1e3 + 0.1,
            tables("slow", 1, 500.0, &stall, &asks("rate=80.0")),
            tables("beside", 1, 500.0, "home=0", &asks("outstanding=6")),
        );
        let outcome = run(1, 2, &text);
        let slow = of(&outcome, "slow");
        assert!(slow.wait_us.p99 < 10_000.0, "{ms}: {slow:?}");
    }
}

#[test]
fn short_queries_do_not_expire_for_long_ones_of_their_table() {
    // Four tasks of 64 queries each, as of a batch, every 200 ms; between them, when all workers are free, bursts of
    // eight single queries of 1 ms, which have 15 ms.
    let singles = |from: f64| {
        asks(&format!(
            "burst=8\nevery=0.2\nfrom={from:?}\ndeadline_ms=15.0"
        ))
    };
    let long = asks("burst=4\nevery=0.2\nwork=64.0");
    let kinds = [0.08, 0.12, 0.16].map(singles).concat();
    let run_of = |kinds: &str| {
        let text = format!(
            "seconds = 4\n{}",
            tables("mixed", 1, 1_000.0, "home=0", kinds)
        );
        let outcome = run(1, 4, &text);
        let singles = outcome.tenants.iter().filter(|kind| kind.done > 0);
        let singles = singles.filter(|kind| kind.latency_us.p50 < 15_000.0);
        let counts = singles.map(|kind| (kind.done, kind.expired.all()));
        let sum = counts.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        (sum, outcome)
    };
    assert_eq!(run_of(&kinds).0, (3 * 20 * 8, 0));
    let ((done, expired), outcome) = run_of(&format!("{kinds}{long}"));
    assert!(
        done + expired == 3 * 20 * 8 && expired * 20 <= done,
        "{:?}",
        outcome.tenants
    );
}
