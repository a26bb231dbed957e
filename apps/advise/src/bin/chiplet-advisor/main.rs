//! The program `chiplet-advisor`: `advise` and `balance`, over the library of this package.
//!
//! Results go to standard output and everything else to standard error. Exit status 0 is success, 2 is
//! input that cannot be used, and then nothing is written to standard output.

mod advise;
mod balance;
mod stop;

use clap::{Parser, Subcommand};
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

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
    match result {
        Ok(text) => print(&text),
        Err(error) => {
            stop::say(&explain(&error));
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
            eprintln!("chiplet-advisor: cannot write the result: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
