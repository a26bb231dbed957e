//! The list of rules, `rules.toml`, and whether it is complete.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::source;

/// All rules, and the constants that are none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    #[serde(rename = "rule")]
    pub(crate) rules: Vec<Rule>,
    plain: Vec<Plain>,
}

/// Something that the policy or the executor does besides what it must.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) name: String,
    /// What it is.
    pub(crate) says: String,
    /// What defect it mended.
    pub(crate) since: String,
    #[serde(rename = "where")]
    pub(crate) place: Place,
    /// The crate that alone runs it, where that is not the one that holds it.
    judge: Option<Place>,
    /// Its constants, each a file and a name.
    #[serde(default)]
    pub(crate) consts: Vec<String>,
    /// Edits of its sources that switch it off.
    #[serde(default)]
    pub(crate) off: Vec<Edit>,
    /// Edits that scale what no constant holds.
    #[serde(default)]
    pub(crate) scale: Vec<Edit>,
}

impl Rule {
    /// Whether the simulator runs it.
    pub(crate) fn is_simulated(&self) -> bool {
        self.judge.unwrap_or(self.place) == Place::Policy
    }
}

/// Constants that decide nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    consts: Vec<String>,
    #[serde(rename = "where")]
    place: Place,
    #[expect(dead_code, reason = "for whoever reads the file")]
    why: String,
}

/// The crate that holds a rule. What the executor alone has, the simulator does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    Policy,
    Executor,
}

/// Text of a file, and what stands there instead.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(crate) file: String,
    pub(crate) find: String,
    pub(crate) replace: String,
}

/// A file and a name, of one of a rule's constants.
pub(crate) fn parts(constant: &str) -> anyhow::Result<(&str, &str)> {
    let parts = constant.split_once(' ');
    parts.with_context(|| format!("{constant:?}: a constant is a file and a name"))
}

impl Place {
    /// The sources, below the project's folder.
    pub(crate) fn sources(self) -> PathBuf {
        Path::new("crates").join(self.name()).join("src")
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Executor => "executor",
        }
    }
}

impl List {
    /// The list as it is kept beside this program's sources.
    pub(crate) fn kept() -> anyhow::Result<Self> {
        toml::from_str(include_str!("../rules.toml")).context("lab/rules/rules.toml")
    }

    /// Every constant of the sources below `root` is listed once, and every edit has its place.
    pub(crate) fn check(&self, root: &Path) -> anyhow::Result<()> {
        let mut names = BTreeSet::new();
        for rule in &self.rules {
            ensure!(
                names.insert(&rule.name),
                "there are two rules {}",
                rule.name
            );
            for edit in rule.off.iter().chain(&rule.scale) {
                let path = root.join(rule.place.sources()).join(&edit.file);
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("{}", path.display()))?;
                let found = text.matches(&edit.find).count();
                ensure!(
                    found == 1,
                    "{}: {:?} is {found} times in {}: correct it in lab/rules/rules.toml",
                    rule.name,
                    edit.find,
                    edit.file
                );
            }
        }
        for place in [Place::Policy, Place::Executor] {
            let rules = self.rules.iter().filter(|rule| rule.place == place);
            let plain = self.plain.iter().filter(|plain| plain.place == place);
            let listed = rules.flat_map(|rule| &rule.consts);
            let listed: Vec<&String> = listed
                .chain(plain.flat_map(|plain| &plain.consts))
                .collect();
            let unique: BTreeSet<&String> = listed.iter().copied().collect();
            ensure!(
                unique.len() == listed.len(),
                "a constant of {} is listed twice",
                place.name()
            );
            let there = source::constants(&root.join(place.sources()))?;
            for constant in &there {
                ensure!(
                    unique.contains(constant),
                    "{}: {constant} is not in lab/rules/rules.toml: add it to a rule's consts, or to a [[plain]]",
                    place.name()
                );
            }
            for constant in unique {
                ensure!(
                    there.contains(constant),
                    "{}: there is no {constant}: take it out of lab/rules/rules.toml",
                    place.name()
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_and_every_edit_has_its_place() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        List::kept().unwrap().check(&root).unwrap();
    }
}
