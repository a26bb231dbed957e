//! The `chiplet` command: one module a subcommand.
//!
//! Results go to standard output and everything else to standard error. Exit status 0 is success, 2 is
//! input that cannot be used, and then nothing is written to standard output.

mod bench;
mod compare;
mod modes;
mod simulate;
mod topology;

use clap::{Parser, Subcommand};
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

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
    Simulate(Box<simulate::Arguments>),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let result: anyhow::Result<String> = match command {
        Command::Topology(arguments) => topology::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
    };
    match result {
        Ok(text) => print(&text),
        Err(error) => {
            eprintln!("chiplet: {}", explain(&error));
            ExitCode::from(2)
        }
    }
}

/// An error and its causes; a cause that the message tells already is not told again.
fn explain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints a result. A reader that has seen enough (`| head`) is no error.
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("chiplet: cannot write the result: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
