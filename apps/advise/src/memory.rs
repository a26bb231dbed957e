//! Where a group's memory lies: what `memory.numa_stat` of cgroup v2 tells.

use std::collections::BTreeMap;

/// Bytes of a control group's memory by NUMA node, those of all groups below it included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMemory {
    /// Anonymous memory.
    pub anon: BTreeMap<u32, u64>,
    /// Page cache, mapped or not; shared memory and tmpfs count here.
    pub file: BTreeMap<u32, u64>,
    /// Of the page cache, what processes have mapped.
    pub file_mapped: BTreeMap<u32, u64>,
}

impl GroupMemory {
    /// Reads a file `memory.numa_stat`: lines such as `anon N0=4096 N1=0`. `None` if it is damaged, or lacks a line.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let by_node = |name: &str| -> Option<BTreeMap<u32, u64>> {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let (_, figures) = lines.find(|(key, _)| *key == name)?;
            let figure = |word: &str| {
                let (node, bytes) = word.strip_prefix('N')?.split_once('=')?;
                Some((node.parse().ok()?, bytes.parse().ok()?))
            };
            figures.split_whitespace().map(figure).collect()
        };
        Some(Self {
            anon: by_node("anon")?,
            file: by_node("file")?,
            file_mapped: by_node("file_mapped")?,
        })
    }

    /// All memory that counts, in bytes.
    pub fn all(&self) -> u64 {
        sum(&self.anon).saturating_add(sum(&self.file))
    }

    /// What processes have mapped, in bytes: what they read and write themselves.
    pub fn mapped(&self) -> u64 {
        let mapped = sum(&self.anon).saturating_add(sum(&self.file_mapped));
        mapped.min(self.all())
    }

    /// Of what processes have mapped, what lies on this node, in bytes.
    pub fn mapped_on(&self, node: u32) -> u64 {
        let on = |map: &BTreeMap<u32, u64>| map.get(&node).copied().unwrap_or(0);
        on(&self.anon).saturating_add(on(&self.file_mapped))
    }

    /// The same as a share of all that is mapped; `None` if nothing is.
    pub fn share_on(&self, node: u32) -> Option<f64> {
        let mapped = sum(&self.anon) as f64 + sum(&self.file_mapped) as f64;
        (mapped > 0.0).then(|| (self.mapped_on(node) as f64 / mapped).min(1.0))
    }
}

fn sum(map: &BTreeMap<u32, u64>) -> u64 {
    map.values()
        .fold(0, |all, bytes| all.saturating_add(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "anon N0=3000 N1=1000\nfile N0=500 N1=1500\nkernel_stack N0=16 N1=0\n\
                        shmem N0=0 N1=0\nfile_mapped N0=0 N1=1000\nfile_dirty N0=0 N1=0\n";

    #[test]
    fn the_kernels_form_is_read() {
        let memory = GroupMemory::parse(FILE).unwrap();
        assert_eq!((memory.all(), memory.mapped()), (6000, 5000));
        assert_eq!((memory.mapped_on(0), memory.mapped_on(1)), (3000, 2000));
        assert_eq!(memory.share_on(1), Some(0.4));
        assert_eq!(memory.share_on(7), Some(0.0));
        assert_eq!(GroupMemory::default().share_on(0), None);
    }

    #[test]
    fn a_damaged_file_tells_nothing() {
        let damaged = [
            FILE.replace("anon N0=3000", "anon N0=three"),
            FILE.replace("anon N0=3000", "anon 3000"),
            FILE.replace("anon N0=3000", "anon N0=99999999999999999999999"),
            FILE.replace("file_mapped", "file_missed"),
            String::new(),
        ];
        for text in damaged {
            assert_eq!(GroupMemory::parse(&text), None, "{text}");
        }
    }
}
