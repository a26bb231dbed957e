//! The `chiplet` command: one module a subcommand.
//!
//! Results go to standard output and everything else to standard error. Exit status 0 is success, 2 is
//! input that cannot be used, and then nothing is written to standard output.

mod bench;
mod compare;
mod topology;

use std::process::ExitCode;

use chiplet_bench::output;
use clap::{Parser, Subcommand};

/// Look at a machine the way chiplet does, as domains of cores that share a last-level cache, and measure on it.
#[derive(Parser)]
#[command(name = "chiplet", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Topology(topology::Arguments),
    Bench(Box<bench::Arguments>),
    Compare(compare::Arguments),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result: anyhow::Result<String> = match command {
        Command::Topology(arguments) => topology::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
    };
    output::finish("chiplet", result)
}
