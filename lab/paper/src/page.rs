//! The page `paper.md`, made of the runs.

use std::fmt::Write as _;

use crate::claims::{CLAIMS, Verdict};
use crate::evidence::{Evidence, How};
use crate::runs::{
    ASKED, CCDS, COUNTS, Case, Kind, Results, SHARES, SIZED, SIZES, SWEPT, System, TOPICS, topics,
};
use anyhow::Result;

/// The page.
///
/// # Errors
/// If a run is missing.
pub fn page(results: &Results) -> Result<String> {
    let (date, queries) = (&results.date, results.queries);
    let seeds = seeds(results);
    let mut out = format!(
        "\
# The paper, claim by claim

The figures of [arXiv 2605.10090](https://arxiv.org/abs/2605.10090) beside those of our simulator. **All of ours are
modelled.** The paper's tables and traffic are production data and not public. No machine with several CCDs was
measured. `make paper` made this page and [its data](paper.json) on {date}: {seeds}, {queries} queries a run.
[The simulator's page](simulation.md) says what is modelled.

V0 is round-robin; for IVF one team of threads for each query. V1 is work stealing that does not know the machine. V2 is
the paper's system, *ours* chiplet's defaults. The machine is a Genoa with 12 CCDs.

"
    );
    claims(&mut out, results)?;
    evidence(&mut out, results);
    scaling(&mut out, results)?;
    locality(&mut out, results)?;
    if results.has_sizes() {
        sizes(&mut out, results)?;
    }
    rome(&mut out, results)?;
    out += ELSEWHERE;
    Ok(out)
}

/// With which seeds what is run.
fn seeds(results: &Results) -> String {
    let first = results.seed;
    match results.seeds {
        1 => format!("seed {first}"),
        seeds => format!("seeds {first} to {}", first + seeds - 1),
    }
}

fn claims(out: &mut String, results: &Results) -> Result<()> {
    let (share, count) = (TOPICS.share * 100.0, TOPICS.count);
    let _ = write!(
        out,
        "\
## Claims

The paper reports high access locality, and no measure of it. So each claim is judged twice: with Zipf 0.8 over a
million queries of each table (*no topics*), and with {share:.0} % of a table's queries near one of {count} centres
(*topics*: the cell of the sweep below whose gain for graphs is nearest to the paper's). Absolute figures follow from
the tables, and are not judged. Nor are those of emulated caches and of a machine, whose tables have fewer rows.

| | claim | paper | agrees within | no topics | topics | | emulated | measured | why, as far as known |
| --- | --- | --: | --: | --: | --: | --- | --: | --: | --- |
"
    );
    for claim in CLAIMS {
        let ([without, with], verdict) = claim.judge(results, TOPICS)?;
        let (verdict, why) = match verdict {
            Verdict::Agrees => ("agrees", ""),
            Verdict::WithTopics => ("agrees with topics", claim.why),
            Verdict::Differs => ("**differs**", claim.why),
            Verdict::Open => ("-", ""),
        };
        let unit = claim.figure.unit;
        let [emulated, measured] = [How::Emulated, How::Measured].map(|how| {
            let found = Evidence::of(&results.evidence, how, claim.kind);
            let figure = found.and_then(|found| found.figures.get(claim.figure.name));
            figure.map_or(String::new(), |&figure| unit.text(figure))
        });
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {verdict} | {emulated} | {measured} | {why} |",
            name(claim.kind),
            claim.figure.name,
            claim.paper,
            claim.within(),
            without.text(|figure| unit.text(figure)),
            with.text(|figure| unit.text(figure))
        );
    }
    out.push_str(match results.seeds {
        1 => {
            "
The paper's figures are read off pictures, so some difference agrees. Another seed draws other tables: these are one
seed's verdicts.

"
        }
        _ => {
            "
The paper's figures are read off pictures, so some difference agrees. Another seed draws other tables: figures are the
median of all seeds, with the least and the most, and the median is judged.

"
        }
    });
    Ok(())
}

/// Where the columns *emulated* and *measured* come from.
fn evidence(out: &mut String, results: &Results) {
    for evidence in &results.evidence {
        let on = match &evidence.date {
            Some(date) => format!(", {date}"),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "* {}, {}: {}{on}, `{}`.",
            name(evidence.kind),
            evidence.how.name(),
            evidence.machine,
            evidence.command
        );
    }
    if !results.evidence.is_empty() {
        out.push('\n');
    }
}

fn scaling(out: &mut String, results: &Results) -> Result<()> {
    out.push_str(
        "\
## Scaling by CCD

Thousand queries a second, saturated, in brackets the part of as many times one CCD: medians of the seeds. Then how many
times V2's throughput ours is, for each seed with the same tables.

| | topics | CCDs | V0 | V1 | V2 | ours | ours to V2 |
| --- | --- | --: | --: | --: | --: | --: | --: |
",
    );
    for kind in [Kind::Hnsw, Kind::Ivf] {
        for topics in [None, Some(TOPICS)] {
            for ccds in CCDS {
                let mut row = format!(
                    "| {} | {} | {ccds} |",
                    name(kind),
                    if topics.is_some() { "yes" } else { "no" }
                );
                for system in [System::V0, System::V1, System::V2, System::Ours] {
                    let case = |ccds| Case::full(kind, false, topics, ccds, system);
                    let all = results.of(case(ccds), |run| run.qps)?;
                    let part = results.to_case(case(ccds), case(1), |run| run.qps)?;
                    let _ = write!(
                        row,
                        " {:.1} ({:.0} %) |",
                        all.median / 1e3,
                        100.0 * part.median / ccds as f64
                    );
                }
                let ours = Case::full(kind, false, topics, ccds, System::Ours);
                let to_v2 = results.to(ours, System::V2, |run| run.qps)?;
                let _ = write!(row, " {} |", to_v2.text(|times| format!("{times:.2}")));
                out.push_str(&row);
                out.push('\n');
            }
        }
    }
    out.push('\n');
    Ok(())
}

fn locality(out: &mut String, results: &Results) -> Result<()> {
    out.push_str(
        "\
## Gain over locality

A part of each table's queries lies near one of its centres. Of each centre many different queries are recorded: 1,024
with up to four centres, 256 with 16, 64 with 64. Two of them compare about three quarters of the same rows
(`chiplet-simulate --topics 0.8,4,0.3` prints how many). Within a run a recorded query comes again some times; its rows
are the same then. Over the seconds of a run the centres stand still.

![Gain over the part of queries near a centre](img/locality.svg)

Queries a second to V1's, V2 and ours, saturated; then the L3 miss rates of V1 and ours:

| | part near a centre | centres a table | V2 | ours | misses, V1 | ours |
| --- | --: | --: | --: | --: | --: | --: |
",
    );
    for (kind, four_bits, what) in SWEPT {
        let grid = SHARES.into_iter().flat_map(|share| {
            let of_share = COUNTS.map(|count| Some(topics(share, count)));
            of_share.into_iter()
        });
        for topics in std::iter::once(None).chain(grid) {
            let (share, count) = match topics {
                None => ("none".to_owned(), "-".to_owned()),
                Some(topics) => (
                    format!("{:.0} %", topics.share * 100.0),
                    topics.count.to_string(),
                ),
            };
            let case = Case::full(kind, four_bits, topics, 12, System::V1);
            let row = gains(results, case)?;
            let _ = writeln!(out, "| {what} | {share} | {count} | {row} |");
        }
    }
    out.push_str(
        "
Graphs with f32 rows gain as much as the paper reports where few centres take most of the queries: one L3 holds what
they read of its own tables, and no L3 holds what they read of all. With 64 centres a table they do not. Lists, and
graphs with 4-bit rows, gain less. A service can tell from its log which of these it has. We know no public log of
vector queries with their times, so none was measured.

",
    );
    Ok(())
}

/// How many times V1's throughput V2's and ours are, and the L3 miss rates of V1 and ours.
fn gains(results: &Results, case: Case) -> Result<String> {
    let gain = |system| {
        let gain = results.gain(case, system)?;
        anyhow::Ok(gain.text(|times| format!("{times:.2}")))
    };
    let misses = |system| {
        let misses = results.of(Case { system, ..case }, |run| run.l3_misses)?;
        anyhow::Ok(100.0 * misses.median)
    };
    Ok(format!(
        "{} | {} | {:.0} % | {:.0} %",
        gain(System::V2)?,
        gain(System::Ours)?,
        misses(System::V1)?,
        misses(System::Ours)?
    ))
}

fn sizes(out: &mut String, results: &Results) -> Result<()> {
    out.push_str(
        "\
## Gain over size and skew

The same tables with a part of their rows, f32, asked at random with a skew over a million queries of each, or near
centres as above:

![Gain over the rows of the tables](img/size.svg)

Queries a second to V1's, V2 and ours, saturated; then the L3 miss rates of V1 and ours:

| | rows times | queries | V2 | ours | misses, V1 | ours |
| --- | --: | --- | --: | --: | --: | --: |
",
    );
    for (kind, what) in SIZED {
        for (topics, query_skew, asked) in ASKED {
            for rows in SIZES {
                let row = gains(results, Case::sized(kind, rows, topics, query_skew))?;
                let _ = writeln!(out, "| {what} | {rows:.2} | {asked} | {row} |");
            }
        }
    }
    out.push('\n');
    Ok(())
}

fn rome(out: &mut String, results: &Results) -> Result<()> {
    out.push_str(
        "\
## Rome

Thousand queries a second on a Rome 7K62, all of its L3s, saturated. We do not have the paper's figures for it.

| | topics | V0 | V1 | V2 | ours |
| --- | --- | --: | --: | --: | --: |
",
    );
    for kind in [Kind::Hnsw, Kind::Ivf] {
        for topics in [None, Some(TOPICS)] {
            let of = |system| {
                let case = Case {
                    genoa: false,
                    ..Case::full(kind, false, topics, 12, system)
                };
                anyhow::Ok(results.of(case, |run| run.qps)?.median / 1e3)
            };
            let _ = writeln!(
                out,
                "| {} | {} | {:.1} | {:.1} | {:.1} | {:.1} |",
                name(kind),
                if topics.is_some() { "yes" } else { "no" },
                of(System::V0)?,
                of(System::V1)?,
                of(System::V2)?,
                of(System::Ours)?
            );
        }
    }
    out.push('\n');
    Ok(())
}

const ELSEWHERE: &str = "\
## Other evidence, and the commands

| | where | command | minutes on 2 cores |
| --- | --- | --- | --: |
| this page | [paper.json](paper.json) has each run | `make paper` | 20 |
| one run of it | [simulation](simulation.md) | `chiplet-simulate --query-skew 0 --topics 0.8,4,0.3 --queries 40000` | 1 |
| emulated: the paper's graphs, a 200th of their rows | the column above | `target/release/chiplet-caches run --workload paper-hnsw --size 0.005 --repeats 1 --strategies round-robin,global-steal,ccd-aware-bytes,ccd-aware` | 35 |
| emulated: other tables on 96 modelled cores | [emulated caches](emulated-caches.md) | `make caches` | 30 |
| measured: your machine, in the column above | target/paper/paper.md | `make paper MACHINE=this`, `PAPER_SIZE=0.01` of the rows | 10 to 60 |
| measured: machines with one L3, whose L2s stand for CCDs | [performance](performance.md) | `chiplet bench` | 2 |
| how far the model is off | [validation](validation.md) | `make validate` | 15 |

What agrees is in the column *agrees within* above: run again, a modelled figure is the same to the digit, an emulated
one within some percent.

The same seed gives the same figures on the same kind of CPU. Another seed draws other tables: `make paper
ARGS=\"--seeds 3 --into FOLDER\"` runs three, and gives medians with the least and the most.

Not compared: how often the paper's mapper remaps. It gives no figure, and a saturated run of the model is too short for
its windows of 10 and 60 s. [The simulator's page](simulation.md#when-the-hot-set-moves) has longer runs.
";

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Hnsw => "HNSW",
        Kind::Ivf => "IVF",
    }
}
