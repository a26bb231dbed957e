//! What `advise` and `balance` are told alike: the machine, and where the journal is.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use chiplet_advise::{Host, Journal};

/// The machine that is watched.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Machine {
    /// How much longer a read from another node's memory takes than one from the own node's, such as 1.7. Without it
    /// both are measured at the start, which keeps one core busy for a second or two
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    pub(crate) lambda: Option<f64>,

    /// Share of cycles stalled on memory, measured elsewhere, such as 0.4: for machines without counters of their own.
    /// Without it stalls are counted
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) msr: Option<f64>,

    /// Bytes a second that the memory of each node can give, in GB/s. Without it bandwidth is not considered
    #[arg(long, value_name = "GB/S", value_parser = positive)]
    pub(crate) bandwidth: Option<f64>,

    /// Another machine, or a saved one: its /sys and /proc are below DIR. Nothing is counted or measured there
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/",
        hide_default_value = true
    )]
    pub(crate) sysfs: PathBuf,
}

/// Where changes are noted unless told.
const JOURNAL: &str = "/var/lib/chiplet/journal";

/// Where changes are noted.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Noted {
    /// The journal: what was changed, what was there before, what it gained
    #[arg(long, value_name = "FILE", default_value = JOURNAL)]
    pub(crate) journal: PathBuf,
}

impl Machine {
    pub(crate) fn host(&self) -> anyhow::Result<Host> {
        Ok(Host::open(&self.sysfs)?)
    }

    /// Whether it is the machine that this command runs on.
    pub(crate) fn is_this(&self) -> bool {
        self.sysfs == Path::new("/")
    }
}

impl Noted {
    /// Opens it to write. Its folder is made. Changes of one machine are not undone on another, so the usual journal is
    /// this machine's alone.
    pub(crate) fn open(&self, machine: &Machine) -> anyhow::Result<Journal> {
        ensure!(
            machine.is_this() || self.journal != Path::new(JOURNAL),
            "--sysfs is another machine, and {JOURNAL} is this one's: name a journal for it by --journal FILE"
        );
        if let Some(folder) = self
            .journal
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).with_context(|| {
                format!(
                    "the journal's folder {} cannot be made; run as root, or name another file by --journal",
                    folder.display()
                )
            })?;
        }
        Ok(Journal::open(&self.journal)?)
    }

    /// That it is there, for who only reads it.
    pub(crate) fn must_exist(&self) -> anyhow::Result<()> {
        ensure!(
            self.journal.exists(),
            "there is no journal {}: nothing was changed yet, or it is elsewhere (--journal FILE)",
            self.journal.display()
        );
        Ok(())
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (1.0..=100.0).contains(&ratio) => Ok(ratio),
        _ => Err("say by how much far memory takes longer, 1 to 100, such as 1.7".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("say a share of all cycles, 0 to 1".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 && f64::is_finite(value) => Ok(value),
        _ => Err("say a number above 0".to_owned()),
    }
}

/// Seconds, for windows and pauses.
pub(crate) fn seconds(text: &str) -> Result<std::time::Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => {
            Ok(std::time::Duration::from_secs_f64(seconds))
        }
        _ => Err("say seconds, 0.1 to 86400".to_owned()),
    }
}
