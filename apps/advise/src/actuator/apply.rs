//! A change of a group: checked, noted, made, noted.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use chiplet_topology::{Tree, cpu_ranges, parse_list};

use super::error::ApplyError;
use super::files::{Files, same, view};
use crate::features::Features;
use crate::group::GroupPath;
use crate::host::{HostError, Node, is_version_2, within};
use crate::journal::{CpusetFile, Event, Journal, Kind, Planned, Write};
use crate::step::step;

/// A group that is to be bound or unbound.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The group.
    pub group: GroupPath,
    /// Bound or unbound.
    pub kind: Kind,
    /// Its cpus; none means those of the group above it. Of a group that has a narrower set of its own only those in
    /// it are bound, if there are any.
    pub cpus: BTreeSet<u32>,
    /// Its memory nodes, where these are to change too, which migrates its pages; none in it means those of the group
    /// above it.
    pub memory_nodes: Option<BTreeSet<u32>>,
    /// The service that it is an instance of, for the journal.
    pub service: Option<String>,
    /// Its features, for the journal.
    pub features: Option<Features>,
    /// The predicted gain, for the journal.
    pub predicted: Option<f64>,
}

impl Change {
    /// Binds a group's cpus to a node. Its pages stay where they are.
    pub fn bind(group: GroupPath, node: &Node) -> Self {
        Self::new(group, Kind::Bind { node: node.node }, node.cpus.clone())
    }

    /// Lets a group that was bound to a node run on all cpus of the group above it.
    pub fn unbind(group: GroupPath, node: u32) -> Self {
        Self::new(group, Kind::Unbind { node }, BTreeSet::new())
    }

    fn new(group: GroupPath, kind: Kind, cpus: BTreeSet<u32>) -> Self {
        Self {
            group,
            kind,
            cpus,
            memory_nodes: None,
            service: None,
            features: None,
            predicted: None,
        }
    }
}

/// What a change did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Its number in the journal; `None` if nothing was to be changed, or nothing was to be written.
    pub number: Option<u64>,
    /// The files, as they were and as they are to be; none if they were so before.
    pub writes: Vec<Write>,
}

/// Writes the files of control groups below a root, if it is told to: as it is made it is dry.
#[derive(Debug)]
pub struct Actuator {
    pub(super) tree: Tree,
    pub(super) is_dry: bool,
    allowed: Option<Vec<GroupPath>>,
}

impl Actuator {
    /// One that writes nothing, for the machine below `root`.
    ///
    /// # Errors
    /// [`HostError`] if control groups there are not of version 2.
    pub fn new(root: impl AsRef<Path>) -> Result<Self, HostError> {
        let tree = Tree::new(root.as_ref());
        is_version_2(&tree)?;
        Ok(Self {
            tree,
            is_dry: true,
            allowed: None,
        })
    }

    /// Whether nothing is written, neither to groups nor to the journal.
    #[must_use]
    pub fn dry(mut self, is_dry: bool) -> Self {
        self.is_dry = is_dry;
        self
    }

    /// Only these groups and those below them may be changed. Without it all may that this process has the right to
    /// write.
    #[must_use]
    pub fn only(mut self, groups: Vec<GroupPath>) -> Self {
        self.allowed = Some(groups);
        self
    }

    /// Makes a change, noted in the journal before.
    ///
    /// ```no_run
    /// use std::time::SystemTime;
    /// use chiplet_advise::{Actuator, Change, Host, Journal, Which};
    /// let host = Host::open("/")?;
    /// let group = "/system.slice/search.service".parse()?;
    /// let change = Change::bind(group, &host.nodes()[0]);
    /// let mut journal = Journal::open("/var/lib/chiplet/journal")?;
    /// let actuator = Actuator::new("/")?.dry(false);
    /// actuator.apply(&mut journal, &change, SystemTime::now())?;
    /// // .. and all as it was.
    /// actuator.rollback(&mut journal, &Which::All, SystemTime::now())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ApplyError`]; then the group is as it was, but for [`ApplyError::HalfWritten`], and for
    /// [`ApplyError::Journal`] after the change, which a rollback undoes.
    pub fn apply(
        &self,
        journal: &mut Journal,
        change: &Change,
        at: SystemTime,
    ) -> Result<Applied, ApplyError> {
        let group = &change.group;
        self.may_change(group)?;
        let files = Files::of(&self.tree, group).ok_or_else(|| HostError::NoSuchGroup {
            group: group.clone(),
        })?;
        let writes = writes(&files, change)?;
        if self.is_dry || writes.is_empty() {
            return Ok(Applied {
                number: None,
                writes,
            });
        }
        let planned = Planned {
            group: group.clone(),
            birth: files.birth(),
            view: view(&self.tree),
            kind: change.kind,
            service: change.service.clone(),
            writes: writes.clone(),
            features: change.features,
            predicted: change.predicted.filter(|gain| gain.is_finite()),
        };
        let number = journal.plan(planned, at)?;
        for (at_write, write) in writes.iter().enumerate() {
            let Err(source) = files.write(write.file, &write.text) else {
                continue;
            };
            let path = files.path(write.file);
            // The file that was refused too: opening may have emptied it where no kernel stands behind it.
            let changed = writes[..=at_write].iter().rev();
            let changed = changed.filter(|write| !files.holds(write.file, &write.was));
            let taken_back: Result<Vec<()>, _> = changed
                .map(|write| files.write(write.file, &write.was))
                .collect();
            if taken_back.is_err() {
                return Err(ApplyError::HalfWritten { path, source });
            }
            let why = source.to_string();
            let event = Event::Failed {
                change: number,
                why,
            };
            journal.append(event, at)?;
            return Err(ApplyError::Io { path, source });
        }
        step();
        journal.append(Event::Done { change: number }, at)?;
        Ok(Applied {
            number: Some(number),
            writes,
        })
    }

    pub(super) fn may_change(&self, group: &GroupPath) -> Result<(), ApplyError> {
        if group.is_root() {
            return Err(ApplyError::RootGroup);
        }
        let Some(allowed) = &self.allowed else {
            return Ok(());
        };
        if allowed.iter().any(|allowed| group.is_within(allowed)) {
            return Ok(());
        }
        let names: Vec<String> = allowed.iter().map(GroupPath::to_string).collect();
        Err(ApplyError::NotOurs {
            group: group.clone(),
            allowed: names.join(", "),
        })
    }
}

/// What has to be written; what is so already has not.
fn writes(files: &Files<'_>, change: &Change) -> Result<Vec<Write>, ApplyError> {
    if let Kind::Bind { node } = change.kind
        && change.cpus.is_empty()
    {
        let group = change.group.clone();
        return Err(ApplyError::NoCpus { group, node });
    }
    let cpus = (CpusetFile::Cpus, &change.cpus);
    let mems = change.memory_nodes.as_ref();
    let mems = mems.map(|nodes| (CpusetFile::Mems, nodes));
    let mut writes = Vec::new();
    for (file, set) in std::iter::once(cpus).chain(mems) {
        let was = files.read(file)?;
        let own = match file {
            CpusetFile::Cpus => parse_list(&was).unwrap_or_default(),
            CpusetFile::Mems => BTreeSet::new(),
        };
        let text = match set.is_empty() {
            true => "\n".to_owned(),
            false => format!("{}\n", cpu_ranges(&within(set, &own))),
        };
        files.may_write(file)?;
        if !same(&was, &text) {
            writes.push(Write { file, was, text });
        }
    }
    Ok(writes)
}
