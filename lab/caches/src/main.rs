//! `chiplet-caches`: builds tables, runs the program on emulated caches, compares strategies.

mod bounces;
#[cfg(target_os = "linux")]
mod inside;
mod known;
mod program;
mod run;

use std::process::ExitCode;

use chiplet_caches::tables;
use clap::{Parser, Subcommand};

/// The shipped executor on emulated caches: all times and rates are modelled.
#[derive(Parser)]
#[command(name = "chiplet-caches", about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(Box<run::Arguments>),
    Tables(tables::Arguments),
    Program(program::Arguments),
    Known(known::Arguments),
    /// Compares the model's counts with counts that are known: one thread reads buffers of three sizes.
    Control,
    #[cfg(target_os = "linux")]
    Vm(run::vm::Arguments),
    /// What `vm` has an emulated machine do.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Inside,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Control => run::control(),
        Command::Known(arguments) => known::run(&arguments),
        Command::Tables(arguments) => tables::run(&arguments),
        Command::Program(arguments) => program::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Vm(arguments) => run::vm::vm(&arguments),
        #[cfg(target_os = "linux")]
        Command::Inside => inside::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("caches: {error:#}");
            ExitCode::FAILURE
        }
    }
}
