//! `chiplet topology --probe`: which cores are near each other, measured, as a person or a program reads it.

use std::fmt::Write as _;
use std::time::Duration;

use chiplet_bench::probe::{Finding, Latencies, ProbeError};
use chiplet_topology::{DomainList, Topology};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Long enough for all machines that there are.
const LIMIT: Duration = Duration::from_secs(20);
/// Up to so many cores the matrix is drawn with numbers, and up to so many with shades.
const NUMBERS: usize = 24;
const SHADES: usize = 128;
/// From near to far.
const SCALE: [char; 5] = ['█', '▓', '▒', '░', '·'];

/// Measures and judges.
pub(super) fn run(machine: &Topology, json: bool) -> Result<String, ProbeError> {
    // Drawn where standard error is a terminal. Ctrl-C ends the process, which has nothing to clean up.
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("measuring pairs of cores {wide_bar} {pos}/{len}")
            .expect("the template is valid"),
    );
    let matrix = chiplet_bench::probe::measure(machine, LIMIT, |progress| {
        bar.set_length(progress.of as u64);
        bar.set_position(progress.done as u64);
    })?;
    bar.finish_and_clear();
    let finding = chiplet_bench::probe::find_domains(&matrix);
    let proposed = finding.domains(machine);
    if json {
        let json = Json::of(&matrix, &finding, proposed);
        let text = serde_json::to_string_pretty(&json);
        return Ok(text.expect("numbers and strings always make JSON") + "\n");
    }
    Ok(draw(&matrix) + "\n" + &words(&finding, proposed.as_ref(), machine))
}

/// The matrix.
fn draw(matrix: &Latencies) -> String {
    let cores = matrix.cpus().len();
    let measured = matrix.pairs().count();
    let mut text = format!(
        "{cores} cores, each by its first cpu; pairs measured: {measured}; nanoseconds for a line from one core to another\n"
    );
    // Writing to a String cannot fail.
    let _ = if cores <= NUMBERS {
        numbers(matrix, &mut text)
    } else if cores <= SHADES {
        shades(matrix, &mut text)
    } else {
        writeln!(text, "(too many cores to draw; --json has all pairs)")
    };
    text
}

fn numbers(matrix: &Latencies, text: &mut String) -> std::fmt::Result {
    let cpus = matrix.cpus();
    let widest = matrix
        .pairs()
        .map(|(.., sample)| sample.best)
        .fold(0.0, f64::max);
    let widest = format!("{widest:.0}").len();
    let width = cpus
        .iter()
        .map(|cpu| cpu.to_string().len())
        .fold(widest, usize::max)
        + 1;
    write!(text, "{:width$}", "")?;
    for cpu in cpus {
        write!(text, "{cpu:>width$}")?;
    }
    for (a, cpu) in cpus.iter().enumerate() {
        write!(text, "\n{cpu:>width$}")?;
        for b in 0..cpus.len() {
            let shown = match matrix.get(a, b) {
                Some(sample) => format!("{:.0}", sample.best),
                None if a == b => "-".to_owned(),
                None => String::new(),
            };
            write!(text, "{shown:>width$}")?;
        }
    }
    writeln!(text)
}

/// One character a pair, by how far it is between the nearest and the farthest.
fn shades(matrix: &Latencies, text: &mut String) -> std::fmt::Result {
    let of = |choose: fn(f64, f64) -> f64, from| {
        matrix
            .pairs()
            .map(|(.., sample)| sample.best)
            .fold(from, choose)
    };
    let (nearest, farthest) = (of(f64::min, f64::INFINITY), of(f64::max, 0.0));
    let step = (farthest / nearest).powf(1.0 / SCALE.len() as f64);
    let legend: Vec<String> = (SCALE.iter().enumerate())
        .map(|(at, shade)| format!("{shade} from {:.0}", nearest * step.powi(at as i32)))
        .collect();
    writeln!(text, "{}", legend.join("  "))?;
    let cpus = matrix.cpus();
    let width = cpus
        .iter()
        .map(|cpu| cpu.to_string().len())
        .max()
        .unwrap_or(1);
    for (a, cpu) in cpus.iter().enumerate() {
        write!(text, "{cpu:>width$} ")?;
        for b in 0..cpus.len() {
            let shade = matrix.get(a, b).map_or(' ', |sample| {
                let steps = (sample.best / nearest).ln() / step.ln();
                SCALE[(steps as usize).min(SCALE.len() - 1)]
            });
            text.push(shade);
        }
        text.push('\n');
    }
    Ok(())
}

/// What follows, and what to do with it.
fn words(finding: &Finding, proposed: Option<&DomainList>, machine: &Topology) -> String {
    match finding {
        Finding::Domains { groups, near, far } => {
            let list = proposed.expect("domains make a list");
            let told: Vec<Vec<u32>> = machine.domains().iter().map(|domain| domain.cpus()).collect();
            let mut found = list.domains().to_vec();
            found.sort();
            let mut same = told.clone();
            same.sort();
            let verdict = if found == same {
                "The system tells the same domains; there is nothing to be done.".to_owned()
            } else {
                format!(
                    "The system tells of {} domain{}. To use those that were measured:\n  --domains {list}",
                    told.len(),
                    if told.len() == 1 { "" } else { "s" },
                )
            };
            let near = match *near {
                0.0 => String::new(),
                near => format!("{near:.0} ns within and "),
            };
            format!(
                "{} domains: {near}{far:.0} ns between them.\n{verdict}\n",
                groups.len()
            )
        }
        Finding::Alike { nanos } => format!(
            "No domains can be told apart: all cores are about {nanos:.0} ns from each other. They share one cache, or a \
             mesh, or each has its own (then a pass takes 80 ns or more).\n"
        ),
        Finding::TooFew => {
            "Too few cores to tell domains apart: it takes four that this process may use.\n".to_owned()
        }
        Finding::TooNoisy => "No domains can be told: the latencies differ without a pattern. Something else keeps the \
             cores busy, or the virtual cpus move between cores. Try again when the machine is idle.\n"
            .to_owned(),
        Finding::Unfinished => format!(
            "Not enough could be measured in {} s to tell domains. Something else keeps the cores busy; try again when the \
             machine is idle.\n",
            LIMIT.as_secs()
        ),
        _ => "What was found has no words in this version.\n".to_owned(),
    }
}

/// The form that programs read; its fields are a promise.
#[derive(Serialize)]
struct Json {
    finding: &'static str,
    /// For `--domains`; null if no domains were found.
    domains: Option<String>,
    /// By row and column of `nanoseconds`.
    cpus: Vec<u32>,
    /// Null for what was not measured.
    nanoseconds: Vec<Vec<Option<f64>>>,
}

impl Json {
    fn of(matrix: &Latencies, finding: &Finding, proposed: Option<DomainList>) -> Self {
        let cores = matrix.cpus().len();
        let row = |a: usize| (0..cores).map(|b| Some(matrix.get(a, b)?.best)).collect();
        Self {
            finding: match finding {
                Finding::Domains { .. } => "domains",
                Finding::Alike { .. } => "alike",
                Finding::TooFew => "too few",
                Finding::TooNoisy => "too noisy",
                Finding::Unfinished => "unfinished",
                _ => "other",
            },
            domains: proposed.map(|list| list.to_string()),
            cpus: matrix.cpus().to_vec(),
            nanoseconds: (0..cores).map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use chiplet_bench::probe::Sample;

    use super::*;

    /// CCDs of four cores.
    fn matrix(cores: usize) -> Latencies {
        let mut matrix = Latencies::new((0..cores as u32).collect());
        for a in 0..cores {
            for b in 0..a {
                let nanos = if a / 4 == b / 4 { 28.0 } else { 182.0 };
                matrix.set(a, b, Sample::exact(nanos));
            }
        }
        matrix
    }

    #[test]
    fn a_small_matrix_is_drawn_with_numbers() {
        let text = draw(&matrix(8));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("8 cores") && lines[0].contains("pairs measured: 28;"),
            "{text}"
        );
        assert_eq!(lines[1], "       0   1   2   3   4   5   6   7");
        assert_eq!(lines[2], "   0   -  28  28  28 182 182 182 182");
        assert_eq!(lines[9], "   7 182 182 182 182  28  28  28   -");
    }

    #[test]
    fn a_large_matrix_is_drawn_with_shades_and_a_very_large_one_not_at_all() {
        let text = draw(&matrix(32));
        assert!(
            text.contains("█ from 28") && text.contains("· from"),
            "{text}"
        );
        assert!(text.contains("\n 0  ███····"), "{text}");
        assert_eq!(text.lines().count(), 34);
        assert!(draw(&matrix(132)).contains("too many"));
    }

    #[test]
    fn what_was_found_is_said_with_what_to_do() {
        let matrix = matrix(8);
        let finding = chiplet_bench::probe::find_domains(&matrix);
        let says = |told: &Topology| words(&finding, finding.domains(told).as_ref(), told);
        let hidden = says(&Topology::uniform(1, 8, 0));
        assert!(
            hidden.contains("2 domains: 28 ns within and 182 ns between"),
            "{hidden}"
        );
        assert!(hidden.contains("\n  --domains 0-3,4-7\n"), "{hidden}");
        let told = says(&Topology::uniform(2, 4, 0));
        assert!(
            told.contains("nothing to be done") && !told.contains("--domains"),
            "{told}"
        );
        let one = Topology::uniform(1, 8, 0);
        for (finding, word) in [
            (Finding::Alike { nanos: 30.0 }, "30 ns"),
            (Finding::TooFew, "it takes four"),
            (Finding::TooNoisy, "idle"),
            (Finding::Unfinished, "20 s"),
        ] {
            let text = words(&finding, None, &one);
            assert!(text.contains(word) && !text.contains("--domains"), "{text}");
        }
    }
}
