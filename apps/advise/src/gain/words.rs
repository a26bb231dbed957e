//! The advice in words, for a command to print.

use std::fmt;

use super::decide::{Advice, Because, Figure};
use super::law::Terms;
use super::room::{Resource, Shortage};
use crate::features::RemoteBy;

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl fmt::Display for Terms {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.remote_by {
            Some(RemoteBy::Fills) => " by counted fills",
            Some(RemoteBy::Bandwidth) => " by counted bytes",
            Some(RemoteBy::Pages) => " by where its pages lie, not counted",
            None => "",
        };
        write!(
            out,
            "stalled on memory {} of cycles; remote {} of traffic{by}, {} afterwards; far memory takes {:.2} times as long",
            percent(self.msr),
            percent(self.rmbr),
            percent(self.q),
            self.lambda
        )
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { node, gain, terms } => {
                let gain = percent(*gain);
                write!(
                    out,
                    "bind to node {node}: saves about {gain} of its cycles ({terms})"
                )
            }
            Self::Nothing { because } => write!(out, "nothing: {because}"),
            Self::CannotPredict { missing } => {
                out.write_str("cannot predict")?;
                for (figure, why) in missing {
                    write!(out, "; no {figure}: {why}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneNode => out.write_str("the machine has one NUMA node with cpus"),
            Self::Local { node } => {
                write!(out, "it runs on node {node} beside all of its memory")
            }
            Self::TooLittle {
                node,
                gain,
                terms,
                threshold,
            } => write!(
                out,
                "node {node}, the best, saves about {} of its cycles, less than {} ({terms})",
                percent(*gain),
                percent(*threshold)
            ),
            Self::NoRoom { node, gain, terms } => write!(
                out,
                "node {node} would save about {} of its cycles and has no room ({terms})",
                percent(*gain)
            ),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Msr => "share of stalled cycles (MSR)",
            Self::Rmbr => "share of remote traffic (RMBR)",
            Self::Lambda => "ratio of latencies",
            Self::Pages => "place of its memory",
        })
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, unit, size) = match self.of {
            Resource::Cpus => ("cpus", "", 1.0),
            Resource::Memory => ("memory", " MB", 1e6),
            Resource::Bandwidth => ("memory bandwidth", " GB/s", 1e9),
            Resource::Cache => ("last-level cache", " MB", 1e6),
        };
        let (node, needed, left) = (self.node, self.needed / size, self.left / size);
        write!(
            out,
            "node {node} is short of {what}: {needed:.1}{unit} needed, {left:.1}{unit} left"
        )?;
        match &self.neighbour {
            Some(name) => write!(out, "; {name} takes most of it"),
            None => Ok(()),
        }
    }
}
