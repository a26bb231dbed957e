//! What only `--modes` knows, of the command line.

use chiplet_bench::modes::{self, DEFAULT, Mode};

/// Ways to deploy a service on a machine.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Ways to deploy")]
#[group(skip)]
pub(crate) struct Options {
    /// Compare ways to deploy a service here instead of strategies: its processes are children of this command, asked
    /// over Unix sockets. Without a list: one,per-node,pinned,chiplet
    #[arg(
        long,
        value_enum,
        value_name = "MODE,..",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = DEFAULT,
        conflicts_with_all = [
            "direct", "workers", "clients", "rate", "outstanding", "flip", "deadline", "sweep", "no_sweep", "report", "picture",
        ]
    )]
    pub(crate) modes: Vec<Mode>,

    #[command(flatten)]
    pub(crate) at: modes::Options,

    /// Measure each mode with automatic NUMA balancing on, off, or both: sets kernel.numa_balancing while a round runs
    /// (root), and puts it back
    #[arg(
        long,
        value_enum,
        value_name = "on,off",
        value_delimiter = ',',
        requires = "modes"
    )]
    pub(crate) autonuma: Vec<AutoNuma>,

    /// This process is one of a mode's: it reads on standard input what it is to do
    #[arg(long, hide = true, requires = "modes")]
    pub(crate) instance: bool,
}

/// Whether the kernel moves pages to the node that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AutoNuma {
    On,
    Off,
}
