//! The program `chiplet-advisor`: `advise` and `balance`, over the library of this package.
//!
//! Results go to standard output and everything else to standard error. Exit status 0 is success, 2 is
//! input that cannot be used, and then nothing is written to standard output.

mod advise;
mod balance;
mod stop;

use std::process::ExitCode;

use chiplet_bench::output;
use clap::{Parser, Subcommand};

/// Say whether other programs would gain from a NUMA node, and bind them so that it can be undone.
#[derive(Parser)]
#[command(name = "chiplet-advisor", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Advise(Box<advise::Arguments>),
    Balance(Box<balance::Arguments>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Advise(arguments) => advise::run(&arguments),
        Command::Balance(arguments) => balance::run(&arguments),
    };
    output::finish("chiplet-advisor", result)
}
