//! The program `chiplet-rules`: what each rule and constant of the policy earns.
//!
//! | file | holds |
//! |---|---|
//! | `list` | the rules, from `rules.toml`, and whether all are there |
//! | `source` | a copy of the sources with a switch for each rule |
//! | `suite/` | scenarios |
//! | `variant` | what is not as it is shipped |
//! | `runs`, `kept` | variants, run in processes and kept in files |
//! | `figures`, `judge` | what a run is judged by, and what a variant changes |
//! | `page` | the tables |

mod figures;
mod judge;
mod kept;
mod list;
mod page;
mod runs;
mod source;
mod suite;
mod variant;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::ensure;
use clap::{Parser, Subcommand};

use kept::Kept;
use list::List;
use suite::Part;
use variant::Variant;

/// What each rule and constant of chiplet's policy earns.
///
/// Copies the sources, gives each rule a switch, and lets the simulator run a suite of scenarios with each rule off and
/// with its constants halved and doubled. Everything is modelled.
#[derive(Parser)]
#[command(name = "chiplet-rules", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Print all rules, their constants and variants, and the suite's cells
    List,
    /// Run the suite with each variant that has not been run yet, and print what they change
    Run {
        /// The folder of the copy and of the runs
        #[arg(long, value_name = "FOLDER", default_value = "target/rules")]
        into: PathBuf,

        /// Only variants whose name has this text
        #[arg(long, value_name = "TEXT", default_value = "")]
        only: String,

        /// These variants at once, as one: "runs off, burst 2"
        #[arg(long, value_name = "VARIANTS", conflicts_with = "only")]
        together: Option<String>,

        /// Processes at a time
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        jobs: u16,

        #[command(flatten)]
        part: Part,
    },
    /// Print what was found, as Markdown
    Page {
        /// The folder of the runs
        #[arg(long, value_name = "FOLDER", default_value = "target/rules")]
        into: PathBuf,

        /// Also all that these variants, run together, change
        #[arg(long, value_name = "VARIANTS")]
        detail: Option<String>,

        #[command(flatten)]
        part: Part,
    },
    /// Run the suite once, in this process, and print its figures as lines of JSON: for `run` alone
    #[command(hide = true)]
    Suite(Part),
}

const EXAMPLES: &str = "\
Examples:
  chiplet-rules run --seeds 1                      all variants, a first look: three hours on two cores; goes on
                                                   where it was
  chiplet-rules run --only 'runs off'              one variant
  chiplet-rules run --together 'runs off, burst 2' several at once
  chiplet-rules page --detail 'runs off'           what was found, and all that this variant changes";

fn main() -> ExitCode {
    chiplet_bench::output::finish("chiplet-rules", run(Arguments::parse()))
}

fn run(arguments: Arguments) -> anyhow::Result<String> {
    let list = List::kept()?;
    match arguments.command {
        What::List => Ok(page::rules(&list)),
        What::Suite(part) => {
            ensure!(
                option_env!("CHIPLET_SWITCHED").is_some(),
                "this program has no switches: chiplet-rules run builds one that has"
            );
            part.run().map(|()| String::new())
        }
        What::Run {
            into,
            only,
            together,
            jobs,
            part,
        } => {
            part.check()?;
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            list.check(&root)?;
            let variants = match &together {
                Some(told) => vec![Variant::together(&list, told)?],
                None => Variant::all(&list),
            };
            let chosen = |variant: &Variant| variant.name.contains(&only);
            let variants: Vec<Variant> = variants.into_iter().filter(chosen).collect();
            ensure!(
                !variants.is_empty(),
                "no variant's name has {only:?}: chiplet-rules list names them"
            );
            runs::build(&root, &into, &list)?;
            runs::run(&into, &part, &variants, usize::from(jobs))?;
            page::effects(&Kept::of(&into, &part)?, &variants)
        }
        What::Page { into, detail, part } => {
            let kept = Kept::of(&into, &part)?;
            let mut text = page::effects(&kept, &Variant::all(&list))?;
            if let Some(told) = detail {
                text += &page::detail(&kept, &Variant::together(&list, &told)?)?;
            }
            Ok(text)
        }
    }
}
