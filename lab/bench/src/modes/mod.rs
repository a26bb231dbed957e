//! Ways to deploy a service on a machine, which `chiplet bench --modes` measures and `chiplet-simulate --modes` models.
//!
//! | file | holds |
//! |---|---|
//! | `rate` | the search for the rate at which processor use is what was asked for |

pub mod rate;

use std::fmt;

use anyhow::ensure;

/// At which use modes are compared, and serving what; for both commands. Which modes they are is each command's own
/// option, as its conflicts are.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct Options {
    /// Processor use at which modes are compared, in percent: the rate is searched at which it is that, within a point
    #[arg(
        long,
        value_name = "PERCENT,..",
        value_delimiter = ',',
        default_values_t = USES,
        requires = "modes",
        value_parser = clap::value_parser!(u32).range(5..=90)
    )]
    pub uses: Vec<u32>,

    /// What a request costs: search, or ranking (500 candidates, their features by key, a network of three layers, as
    /// examples/ranking does it)
    #[arg(long, value_enum, default_value_t = Model::Search, requires = "modes")]
    pub model: Model,
}

/// NetEase's measure, and one below and above it.
const USES: [u32; 3] = [60, 30, 80];

/// How many processes serve all tables, and on which cpus. (The texts are `--help`'s.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// One process on all cores
    One,
    /// One process for each NUMA node, each on all cores
    PerNode,
    /// One process for each NUMA node, pinned to it
    Pinned,
    /// Four processes, each on all cores
    Four,
    /// Four processes, each pinned to a NUMA node
    FourPinned,
    /// One process on all cores, whose tables chiplet places
    Chiplet,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::PerNode => "per-node",
            Self::Pinned => "pinned",
            Self::Four => "four",
            Self::FourPinned => "four-pinned",
            Self::Chiplet => "chiplet",
        })
    }
}

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    /// One search
    Search,
    /// Candidates, their features, a network
    Ranking,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Search => "search",
            Self::Ranking => "ranking",
        })
    }
}

/// Modes and uses that are asked for are different ones.
pub fn check(modes: &[Mode], uses: &[u32]) -> anyhow::Result<()> {
    for (index, mode) in modes.iter().enumerate() {
        ensure!(
            !modes[..index].contains(mode),
            "--modes names {mode} twice; name each mode once, the spread over rounds shows the noise"
        );
    }
    for (index, percent) in uses.iter().enumerate() {
        ensure!(
            !uses[..index].contains(percent),
            "--uses names {percent} twice; name each use once"
        );
    }
    Ok(())
}

/// The modes of `--modes` without a list.
pub const DEFAULT: &str = "one,per-node,pinned,chiplet";

impl Mode {
    /// Whether its processes have to do with nodes.
    pub fn is_by_node(self) -> bool {
        matches!(self, Self::PerNode | Self::Pinned | Self::FourPinned)
    }

    /// The number of the node, of so many, that each process is pinned to; `None` where it is on all cores.
    pub fn processes(self, nodes: usize) -> Vec<Option<usize>> {
        let pinned = |count| (0..count).map(|number| Some(number % nodes));
        match self {
            Self::One | Self::Chiplet => vec![None],
            Self::PerNode => vec![None; nodes],
            Self::Pinned => pinned(nodes).collect(),
            Self::Four => vec![None; 4],
            Self::FourPinned => pinned(4).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_its_processes_on_its_nodes() {
        let processes = |mode: Mode| mode.processes(2);
        assert_eq!(processes(Mode::One), [None]);
        assert_eq!(processes(Mode::Chiplet), [None]);
        assert_eq!(processes(Mode::PerNode), [None, None]);
        assert_eq!(processes(Mode::Pinned), [Some(0), Some(1)]);
        assert_eq!(processes(Mode::Four), [None; 4]);
        assert_eq!(
            processes(Mode::FourPinned),
            [Some(0), Some(1), Some(0), Some(1)]
        );
    }
}
