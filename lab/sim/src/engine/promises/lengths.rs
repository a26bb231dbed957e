//! Tables whose queries are long and short, beside a busy one: the short ones are answered in time.

use super::{asks, run, tables};
use crate::outcome::Served;

/// Ordinary queries of the table take so many microseconds.
const SHORT: f64 = 500.0;

/// What became of the first kind of queries of a table that is asked as `kinds` say, in so many seconds of four
/// workers. Another table, of 1 ms, keeps six tasks waiting or running.
fn beside_a_busy_one(seconds: u32, kinds: &str) -> Served {
    let text = format!(
        "seconds = {seconds}\n{}{}",
        tables("mixed", 1, SHORT, "home=0", kinds),
        tables("beside", 1, 1_000.0, "home=0", &asks("outstanding=6")),
    );
    let outcome = run(1, 4, &text);
    outcome
        .tenants
        .into_iter()
        .next()
        .expect("of the first table")
}

/// Queries that last 60 ms.
fn long(how: &str) -> String {
    asks(&format!("{how}\nwork={:?}", 60e3 / SHORT))
}

#[test]
fn rare_short_queries_are_begun_beside_long_ones_of_their_table() {
    for theirs in ["", "deadline_ms=1000.0"] {
        let kinds = |terms| {
            let short = asks(&format!("rate=2.0\n{terms}"));
            format!("{short}{}", long(&format!("rate=25.0\n{theirs}")))
        };
        let with = beside_a_busy_one(30, &kinds("deadline_ms=25.0"));
        let without = beside_a_busy_one(30, &kinds(""));
        // Some wait longer than that behind long ones, with deadlines or without.
        assert!(
            without.done > 50 && 2 * with.done > without.done,
            "{theirs}: {with:?}, without deadlines {without:?}"
        );
        assert!(
            with.expired.passed_over * 20 < with.done,
            "{theirs}: {with:?}"
        );
    }
}

#[test]
fn a_burst_of_long_queries_silences_short_ones_only_while_it_lasts() {
    for theirs in ["", "deadline_ms=25.0", "deadline_ms=1000.0"] {
        let kinds = [
            asks("rate=100.0\ndeadline_ms=25.0\nfrom=0.01"),
            long(&format!("burst=40\n{theirs}")),
            long(&format!("rate=25.0\n{theirs}")),
        ];
        let short = beside_a_busy_one(8, &kinds.concat());
        // It takes its table's part of the workers for that long.
        for [done, expired] in &short.each_second[5..8] {
            assert!(*done > 80 && expired * 10 < *done, "{theirs}: {short:?}");
        }
    }
}
