//! Tables that fill the queue, beside quiet ones: nothing of those is refused, or little.

use super::{VARIED, asks, of, run, tables};

/// Ten quiet tables that ask for 6 % of four workers in the first of so many domains, beside so many tables that are
/// asked as `how` says: how many of the quiet tables' tasks were refused, and of how many.
fn refused(domains: u32, floods: u32, class: &str, how: &str) -> (u64, u64) {
    let terms = format!("{VARIED}\nclass='{class}'");
    let text = format!(
        "warm = 0.3\nseconds = 1\n{}{}",
        tables("flood", floods, 2_000.0, &terms, &asks(how)),
        tables("quiet", 10, 2_000.0, "home=0", &asks("rate=12.0")),
    );
    let outcome = run(domains, 4, &text);
    let (quiet, flood) = (of(&outcome, "quiet"), of(&outcome, "flood"));
    assert!(flood.refused > 1_000 && flood.time_share > 0.9, "{flood:?}");
    (quiet.refused, quiet.done + quiet.refused)
}

#[test]
fn nothing_of_quiet_tables_is_refused_beside_a_few_floods_and_little_beside_many() {
    for domains in [1, 2] {
        for class in ["interactive", "bulk"] {
            for (floods, how) in [
                (2, "rate=10000.0"),
                (4, "rate=5000.0"),
                (8, "rate=2500.0"),
                (2, "burst=1000\nevery=0.1"),
                // Nothing tells these from others but that there are many: so all wait as they come.
                (100, "rate=200.0"),
                (100, "burst=20\nevery=0.1"),
            ] {
                let (refused, all) = refused(domains, floods, class, how);
                let most = if floods > 8 { all / 6 } else { 0 };
                assert!(
                    refused <= most && all > 90,
                    "{refused} of {all}: {floods} {class} {how}"
                );
            }
        }
    }
}
