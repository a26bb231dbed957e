//! The program `chiplet-server`: its command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;

use anyhow::Context;
use chiplet_server::config::Settings;
use chiplet_server::server::Server;
use chiplet_server::telemetry::Telemetry;
use clap::Parser;

/// A vector-search server on chiplet, compatible with a subset of the Qdrant gRPC API.
///
/// Settings come from built-in defaults, then the file of --config, then CHIPLET_* variables; the later wins. A key of
/// a section has two underscores in its variable: limits.dimensions is CHIPLET_LIMITS__DIMENSIONS.
#[derive(Parser)]
#[command(name = "chiplet-server", version, after_help = EXAMPLES)]
struct Arguments {
    /// A TOML file with settings; --print-config shows what may be in it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the settings in force as a TOML file, without the key, and exit.
    #[arg(long)]
    print_config: bool,

    /// Make the collections `words` and `words-ivf` from 30,000 word vectors, unless collections of these names are
    /// there. DIR is the repository's folder `datasets`.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "datasets")]
    sample: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  chiplet-server --sample              serve the sample data on 127.0.0.1:6334, the admin page on :6335
  chiplet-server --print-config        every setting
  CHIPLET_GRPC_ADDR=0.0.0.0:6334 CHIPLET_AUTH__API_KEY=... chiplet-server --config server.toml

SIGTERM or Ctrl-C: not ready, then running requests are finished (drain_seconds), then acknowledged writes are stored
(drain_writes_seconds), then exit 0; exit 1 if some of these are lost.";

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chiplet-server: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (settings, ignored) =
        Settings::load(arguments.config.as_deref(), Settings::environment()?)?;
    if arguments.print_config {
        print!("{}", settings.to_toml());
        return Ok(());
    }
    let telemetry = Telemetry::start(&settings)?;
    // Before anything else, so that no signal ends the process without draining.
    let end = watch_signals()?;
    for variable in ignored {
        tracing::warn!("{variable} is no setting and is ignored; see --print-config");
    }
    tracing::info!("settings:\n{}", settings.to_toml());
    let server = Server::start(&settings)?;
    let (grpc, admin) = (server.grpc_addr(), server.admin_addr());
    tracing::info!("gRPC on {grpc}, admin page on http://{admin}/");
    if let Some(datasets) = &arguments.sample {
        server.wait_until_ready();
        server
            .load_sample(datasets)
            .context("--sample (give the repository's folder `datasets`)")?;
    }
    // An error means that nothing can send a signal any more, which is an end too.
    let _ = end.recv();
    tracing::info!("draining");
    let stopped = server.shutdown();
    drop(telemetry);
    end_at_once(i32::from(stopped.lost_writes > 0))
}

/// Ends the process in good order, but without the exit handlers of C libraries: an index may still be in training, and
/// OpenBLAS' handler frees the memory that it is computed in.
#[expect(unsafe_code, reason = "the standard library's exit runs the handlers")]
fn end_at_once(code: i32) -> ! {
    // SAFETY: it ends the process and touches nothing in it. Nothing waits to be written: the log is not buffered.
    unsafe { libc::_exit(code) }
}

/// Where SIGTERM, SIGHUP and Ctrl-C are reported; a second one ends the process at once.
fn watch_signals() -> anyhow::Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel();
    let mut seen = false;
    ctrlc::set_handler(move || {
        if std::mem::replace(&mut seen, true) || sender.send(()).is_err() {
            eprintln!("second signal: ending at once");
            std::process::exit(130);
        }
    })
    .context("signals cannot be watched")?;
    Ok(receiver)
}
