//! What was run, in files: one for each variant, by the sources, the part of the suite and the number of seeds.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::figures::Figure;
use crate::source;
use crate::suite::Part;
use crate::variant::Variant;

/// One cell of the suite, as a variant of the rules served it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) cell: String,
    pub(crate) seed: u64,
    /// Queries a second that its workload can reach; 0 where nobody asked.
    pub(crate) reach: f64,
    pub(crate) figures: Vec<Figure>,
}

/// What a variant gave.
pub(crate) enum Run {
    Rows(Vec<Row>),
    /// It did not end well, for this reason.
    Failed(String),
}

/// The runs of one state of the sources, one part of the suite and one number of seeds.
pub(crate) struct Kept(PathBuf);

impl Kept {
    /// Of the copy of the sources in `folder`.
    pub(crate) fn of(folder: &Path, part: &Part) -> anyhow::Result<Self> {
        let sources = source::fingerprint(&folder.join("tree"))?;
        let part = format!("{} {}-seeds", part.told(), part.seeds);
        Ok(Self(folder.join("runs").join(sources).join(plain(&part))))
    }

    fn file(&self, variant: &Variant, ending: &str) -> PathBuf {
        self.0.join(format!("{}.{ending}", plain(&variant.name)))
    }

    /// What a variant gave, if it was run.
    pub(crate) fn read(&self, variant: &Variant) -> anyhow::Result<Option<Run>> {
        if let Ok(why) = std::fs::read_to_string(self.file(variant, "failed")) {
            return Ok(Some(Run::Failed(why)));
        }
        let path = self.file(variant, "jsonl");
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Ok(None);
        };
        let rows: Vec<Row> = text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .with_context(|| format!("{}: remove it to run it again", path.display()))?;
        ensure!(!rows.is_empty(), "{} is empty: remove it", path.display());
        Ok(Some(Run::Rows(rows)))
    }

    /// What the shipped rules gave.
    pub(crate) fn shipped(&self) -> anyhow::Result<Vec<Row>> {
        match self.read(&Variant::shipped())? {
            Some(Run::Rows(rows)) => Ok(rows),
            Some(Run::Failed(why)) => anyhow::bail!("the shipped rules have failed: {why}"),
            None => anyhow::bail!("nothing has been run yet: chiplet-rules run"),
        }
    }

    /// Where a run writes before it has ended.
    pub(crate) fn begin(&self, variant: &Variant) -> anyhow::Result<File> {
        std::fs::create_dir_all(&self.0).with_context(|| format!("{}", self.0.display()))?;
        let path = self.file(variant, "half-written");
        File::create(&path).with_context(|| format!("{}", path.display()))
    }

    /// It has ended well, or not, for a reason.
    pub(crate) fn end(&self, variant: &Variant, failed: Option<&str>) -> anyhow::Result<()> {
        if let Some(why) = failed {
            std::fs::write(self.file(variant, "failed"), why)?;
            return Ok(std::fs::remove_file(self.file(variant, "half-written"))?);
        }
        let (half, whole) = (
            self.file(variant, "half-written"),
            self.file(variant, "jsonl"),
        );
        Ok(std::fs::rename(half, whole)?)
    }
}

/// As the name of a file.
fn plain(name: &str) -> String {
    let plain = |char: char| match char.is_alphanumeric() || char == '.' {
        true => char,
        false => '-',
    };
    name.chars().map(plain).collect()
}
