//! The tables, as Markdown.

use std::fmt::Write as _;

use super::load::Outcome;
use super::theirs;

/// Calls beyond a quantile that is told, but for rounding.
const BEYOND: f64 = 4.99;

const QUANTILES: [f64; 8] = [0.5, 0.7, 0.9, 0.95, 0.97, 0.99, 0.999, 0.9999];

fn rounded(values: impl IntoIterator<Item = f64>) -> String {
    let shown = values.into_iter().map(|value| format!(" {value:.0} |"));
    shown.collect()
}

/// The mean and these quantiles; none beyond which there are fewer than [`BEYOND`] calls.
fn latency<const N: usize>(outcome: &Outcome, quantiles: [f64; N]) -> String {
    let summary = outcome.latency.summary();
    let found = outcome.latency.quantiles(quantiles);
    let shown = quantiles.iter().zip(found).map(|(quantile, found)| {
        match summary.count as f64 * (1.0 - quantile) >= BEYOND {
            true => format!(" {found:.0} |"),
            false => " - |".to_owned(),
        }
    });
    format!(" {:.0} |{}", outcome.mean(), shown.collect::<String>())
}

/// Says which calls no server answered.
fn refused<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    match outcomes.map(|outcome| outcome.refused).sum::<u64>() {
        0 => String::new(),
        calls => format!(
            "\n{calls} calls were refused or not answered in time; they are in no figure.\n"
        ),
    }
}

/// One server, at parts of what it keeps up with.
pub(super) fn single(
    keys: usize,
    saturation: f64,
    lines: &[(f64, Outcome)],
    theirs: &[theirs::Line],
) -> String {
    let calls = if keys == 1 {
        "1 key a call"
    } else {
        &format!("{keys} keys a call")
    };
    let mut text = format!(
        "### {calls}\n\nSaturation: {saturation:.0} calls a second are kept up with, {:.0} keys. Each line is the median of three runs.\n\n\
         | | calls a second | processor | mean | 50 % | 70 % | 90 % | 95 % | 97 % | 99 % | 99.9 % | 99.99 % | server, us a key | \
         client and load, us a key | sent late, 99 % |\n\
         | --- |{}\n",
        saturation * keys as f64,
        " --: |".repeat(14)
    );
    for (share, outcome) in lines {
        let [server, client] = outcome.processor_a_key();
        let _ = writeln!(
            text,
            "| ours, {:.0} % of it | {:.0} | {:.0} % of a core |{} {server:.2} | {client:.2} | {:.0} |",
            100.0 * share,
            outcome.calls_a_second(),
            100.0 * outcome.server_share(),
            latency(outcome, QUANTILES),
            outcome.lag,
        );
    }
    for line in theirs {
        let _ = writeln!(
            text,
            "| theirs | {:.0} | {} of the machine |{} | | |",
            line.calls_a_second,
            line.processor,
            rounded(line.latency.map(f64::from)),
        );
    }
    text + &refused(lines.iter().map(|(_, outcome)| outcome))
}

/// Shards with some replicas.
pub(super) fn sharded(
    shards: usize,
    rate: f64,
    lines: &[(usize, usize, Outcome)],
    theirs: &[(usize, [u32; 5])],
) -> String {
    let mut text = format!(
        "### {shards} shards, {rate:.0} calls a second\n\n\
         | | keys a call | mean | 80 % | 99 % | 99.9 % | 99.99 % | servers, us a key | client and load, us a key |\n\
         | --- |{}\n",
        " --: |".repeat(8)
    );
    for (replicas, keys, outcome) in lines {
        let [servers, client] = outcome.processor_a_key();
        let name = match replicas {
            1 => "ours, 1 replica".to_owned(),
            many => format!("ours, {many} replicas"),
        };
        let _ = writeln!(
            text,
            "| {name} | {keys} |{} {servers:.2} | {client:.2} |",
            latency(outcome, [0.8, 0.99, 0.999, 0.9999])
        );
    }
    for (keys, latency) in theirs {
        let _ = writeln!(
            text,
            "| theirs | {keys} |{} | |",
            rounded(latency.map(f64::from))
        );
    }
    text + &refused(lines.iter().map(|(_, _, outcome)| outcome))
}

/// Other settings, each to the first of the same round.
pub(super) fn variants(lines: &[(String, Vec<Outcome>)]) -> String {
    let mut text = "### Other settings\n\n\
         Calls of 100 keys, as many as are answered; ratios to the usual setting in the same round, medians, lowest and highest\n\
         in brackets.\n\n\
         | server | calls a second | to usual | server, us a key, to usual |\n\
         | --- | --: | --: | --: |\n"
        .to_owned();
    let Some((_, usual)) = lines.first() else {
        return text;
    };
    for (name, outcomes) in lines {
        let to_usual = |value: &dyn Fn(&Outcome) -> f64| {
            let rounds = outcomes.iter().zip(usual);
            spread(
                rounds
                    .map(|(own, usual)| value(own) / value(usual))
                    .collect(),
            )
        };
        let calls = median(outcomes.iter().map(Outcome::calls_a_second).collect());
        let _ = writeln!(
            text,
            "| {name} | {calls:.0} | {} | {} |",
            to_usual(&Outcome::calls_a_second),
            to_usual(&|outcome| outcome.processor_a_key()[0]),
        );
    }
    text + &refused(lines.iter().flat_map(|(_, outcomes)| outcomes))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    format!(
        "{:.2} ({:.2}-{:.2})",
        values[values.len() / 2],
        values[0],
        values[last]
    )
}
