//! An hwloc XML file, written anew with nothing in it but what is understood here.
//!
//! libhwloc believes what it loads: a set that is missing or an object inside itself ends the process. So it
//! is never given the file, but objects that were checked here, with the attributes that matter for where
//! cpus, caches and memory are. Devices, distances, memory attributes and most remarks are left out; so are
//! objects without any cpu, which hwloc would remove as well.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use chiplet_topology::parse_mask;
use roxmltree::{Document, Node, ParsingOptions};

type CpuSet = BTreeSet<u32>;

/// More than any machine nests, and little enough for hwloc to walk recursively.
const MAX_DEPTH: usize = 64;
/// Objects side by side; hwloc takes the square of it.
const MAX_CHILDREN: usize = 8192;
/// Entries of one XML file, which bounds what its tree in memory takes.
const MAX_ENTRIES: u32 = 2_000_000;

/// Types that say where cpus, caches and memory are, in the words of formats 1 and 2.
const TYPES: [&str; 19] = [
    "Machine", "Package", "Socket", "Die", "Core", "PU", "Group", "NUMANode", "Node", "MemCache",
    "Cache", "L1Cache", "L2Cache", "L3Cache", "L4Cache", "L5Cache", "L1iCache", "L2iCache",
    "L3iCache",
];
/// Types of devices and remarks, which have no cpus of their own.
const LEFT_OUT: [&str; 4] = ["Bridge", "PCIDev", "OSDev", "Misc"];
/// Attributes that are numbers, and the largest that is passed on.
const NUMBERS: [(&str, u64); 5] = [
    ("os_index", u32::MAX as u64),
    ("cache_size", u64::MAX),
    ("depth", 5),
    ("cache_type", 2),
    ("local_memory", u64::MAX),
];
const REMARKS: [&str; 4] = ["CPUVendor", "CPUFamilyNumber", "CPUModelNumber", "Type"];

/// The file with only what can be loaded safely; errors in words for the user.
pub(crate) fn sound(text: &str) -> Result<String, String> {
    let options = ParsingOptions {
        // The files name hwloc's DTD; what is declared inside the file is bounded by the parser.
        allow_dtd: true,
        nodes_limit: MAX_ENTRIES,
        ..ParsingOptions::default()
    };
    let document =
        Document::parse_with_options(text, options).map_err(|error| error.to_string())?;
    let topology = document.root_element();
    if !topology.has_tag_name("topology") {
        return Err("it holds no topology".to_owned());
    }
    let mut written = String::with_capacity(text.len());
    written.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    written.push_str("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology");
    let version = topology.attribute("version");
    match version {
        Some(version) if version.starts_with("2.") => written.push_str(" version=\"2.0\""),
        Some(other) => return Err(format!("its format is {other:.20?}; known are 1 and 2")),
        None => {}
    }
    written.push_str(">\n");
    let mut objects = topology.children().filter(|n| n.has_tag_name("object"));
    let machine = match (objects.next(), objects.next()) {
        (Some(machine), None) if machine.attribute("type") == Some("Machine") => machine,
        _ => return Err("it does not hold one machine".to_owned()),
    };
    let mut writer = Writer {
        written,
        format_2: version.is_some(),
        counts_nodes: machine.attribute("nodeset").is_some(),
        cpus: CpuSet::new(),
        nodes: CpuSet::new(),
    };
    writer.object(machine, &[])?;
    if writer.cpus.is_empty() {
        return Err("it describes a machine without any cpu".to_owned());
    }
    writer.written.push_str("</topology>\n");
    Ok(writer.written)
}

/// An object whose children are being written.
struct Open<'input> {
    kind: &'input str,
    cpus: CpuSet,
}

struct Writer {
    written: String,
    format_2: bool,
    /// Whether the machine has a set of nodes, to which hwloc adds each that it reads.
    counts_nodes: bool,
    /// Those of all cpus and nodes so far.
    cpus: CpuSet,
    nodes: CpuSet,
}

impl Writer {
    /// Writes an object with all in it, and returns its cpus: none if it was left out.
    fn object(&mut self, node: Node, outside: &[&Open]) -> Result<CpuSet, String> {
        let kind = node.attribute("type").unwrap_or_default();
        if LEFT_OUT.contains(&kind) {
            return Ok(CpuSet::new());
        }
        if !TYPES.contains(&kind) {
            return Err(format!(
                "an object's type is {kind:.20?}, which is not known"
            ));
        }
        let nests = matches!(kind, "Group" | "Cache");
        if outside.len() > MAX_DEPTH || !nests && outside.iter().any(|open| open.kind == kind) {
            return Err(format!("a {kind} lies inside another"));
        }
        let Some(Set::Of(cpus)) = set(node, "cpuset")? else {
            return Err(format!("a {kind} has no cpuset"));
        };
        if cpus.is_empty() {
            return Ok(cpus);
        }
        if outside
            .last()
            .is_some_and(|parent| !cpus.is_subset(&parent.cpus))
        {
            return Err(format!("a {kind} has cpus that what holds it has not"));
        }
        let os_index = node.attribute("os_index").and_then(|i| i.parse().ok());
        match kind {
            "PU" => self.one_of_a_kind(kind, os_index, &cpus)?,
            "NUMANode" | "Node" if !self.counts_nodes => {
                return Err(format!("a {kind} lies in a machine without a nodeset"));
            }
            "NUMANode" | "Node" => {
                let Some(Set::Of(nodes)) = set(node, "nodeset")? else {
                    return Err(format!("a {kind} has no nodeset"));
                };
                self.one_of_a_kind("NUMANode", os_index, &nodes)?;
            }
            _ => {}
        }
        self.open(node, kind, &cpus, outside.is_empty())?;
        if kind != "PU" {
            let open = Open {
                kind,
                cpus: cpus.clone(),
            };
            self.children(node, &[outside, &[&open]].concat())?;
        }
        self.written.push_str("</object>\n");
        Ok(cpus)
    }

    /// Errs unless the set is the number of this cpu or node alone, and no other has it.
    fn one_of_a_kind(
        &mut self,
        kind: &str,
        os_index: Option<u32>,
        set: &CpuSet,
    ) -> Result<(), String> {
        let all = if kind == "PU" {
            &mut self.cpus
        } else {
            &mut self.nodes
        };
        let number = os_index.filter(|number| set.len() == 1 && set.contains(number));
        let number = number.ok_or(format!("a {kind} is not the only one in its own set"))?;
        if all.insert(number) {
            Ok(())
        } else {
            Err(format!("{kind} {number} is there twice"))
        }
    }

    /// Writes an object up to its children.
    fn open(&mut self, node: Node, kind: &str, cpus: &CpuSet, is_root: bool) -> Result<(), String> {
        let _ = write!(self.written, "<object type=\"{kind}\"");
        self.attribute("cpuset", &mask(cpus));
        let complete = match set(node, "complete_cpuset")? {
            Some(Set::Of(complete)) => mask(&complete.union(cpus).copied().collect()),
            Some(Set::All) => ALL.to_owned(),
            None => mask(cpus),
        };
        self.attribute("complete_cpuset", &complete);
        let nodes = set(node, "nodeset")?;
        if self.format_2 && nodes.is_none() {
            return Err(format!("a {kind} has no nodeset"));
        }
        let complete = set(node, "complete_nodeset")?.or(nodes.clone());
        let root = |name| if is_root { set(node, name) } else { Ok(None) };
        for (name, set) in [
            ("nodeset", nodes),
            ("complete_nodeset", complete),
            ("allowed_cpuset", root("allowed_cpuset")?),
            ("allowed_nodeset", root("allowed_nodeset")?),
        ] {
            match set {
                Some(Set::Of(set)) => self.attribute(name, &mask(&set)),
                Some(Set::All) => self.attribute(name, ALL),
                None => {}
            }
        }
        for (name, most) in NUMBERS {
            let number = node
                .attribute(name)
                .and_then(|text| text.parse::<u64>().ok());
            if let Some(number) = number.filter(|&number| number <= most) {
                self.attribute(name, &number.to_string());
            }
        }
        if let Some(subtype) = node.attribute("subtype").filter(|text| is_plain(text)) {
            self.attribute("subtype", subtype);
        }
        self.written.push_str(">\n");
        for info in node.children().filter(|n| n.has_tag_name("info")) {
            if let (Some(name), Some(value)) = (info.attribute("name"), info.attribute("value"))
                && REMARKS.contains(&name)
                && is_plain(value)
            {
                let _ = writeln!(self.written, "<info name=\"{name}\" value=\"{value}\"/>");
            }
        }
        Ok(())
    }

    fn attribute(&mut self, name: &str, value: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.written, " {name}=\"{value}\"");
    }

    fn children(&mut self, node: Node, outside: &[&Open]) -> Result<(), String> {
        let mut taken = CpuSet::new();
        let objects = node.children().filter(|n| n.has_tag_name("object"));
        for (count, object) in objects.enumerate() {
            if count == MAX_CHILDREN {
                return Err(format!("more than {MAX_CHILDREN} objects are side by side"));
            }
            let cpus = self.object(object, outside)?;
            // In format 2 memory lies beside what has the same cpus.
            let kind = object.attribute("type");
            let memory = self.format_2 && matches!(kind, Some("NUMANode" | "MemCache"));
            if !memory && cpus.into_iter().any(|cpu| !taken.insert(cpu)) {
                return Err("objects side by side have a cpu in common".to_owned());
            }
        }
        Ok(())
    }
}

/// A set as hwloc writes it.
#[derive(Clone)]
enum Set {
    Of(CpuSet),
    /// Without end; what is left out of it is not told.
    All,
}

const ALL: &str = "0xf...f";

fn set(node: Node, name: &str) -> Result<Option<Set>, String> {
    let Some(text) = node.attribute(name) else {
        return Ok(None);
    };
    if text.starts_with(ALL) {
        return Ok(Some(Set::All));
    }
    let set = parse_mask(text).map_err(|problem| format!("{name}: {problem}"))?;
    Ok(Some(Set::Of(set)))
}

fn mask(set: &CpuSet) -> String {
    let mut words = vec![0_u32; set.last().map_or(1, |&last| last as usize / 32 + 1)];
    for &number in set {
        words[number as usize / 32] |= 1 << (number % 32);
    }
    let words: Vec<String> = words
        .iter()
        .rev()
        .map(|word| format!("0x{word:08x}"))
        .collect();
    words.join(",")
}

/// Whether a text means itself in an attribute.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _.,()@+-/".contains(c);
    (1..256).contains(&text.len()) && text.chars().all(plain)
}
