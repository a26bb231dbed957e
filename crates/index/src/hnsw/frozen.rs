//! A graph as it is searched: read-only, in one piece of memory, which is also its file.
//!
//! | section | holds |
//! |---|---|
//! | `rows` | the rows that a walk compares, `[n]` at a fixed stride, in the table's [`RowFormat`] |
//! | `links` | ground links, `[n][ground_stride]`, in the bytes that [`packed`] gives them |
//! | `upper` | links of the higher layers, lowest first, `[nodes of the layer][stride]` |
//! | `ids` | the id of each node, `u32` or, if one needs it, `u64` |
//! | `full` | the rows once more, for re-ranking, if that was asked for |
//! | `low` | the smallest value of each component, for 8-bit codes |
//! | `low4` | the same for codes of 4 bits and fewer, of the rotated rows if they are rotated |
//! | `copies` | pairs of nodes with equal rows, if there are any: one with links, and one without |
//! | `backlinks` | pairs of nodes: further links for filtered searches under the inner product |
//!
//! Nodes of a higher layer come first, so that layer `l` is the nodes below `layers[l]`; node 0 is the entry.
//!
//! A mapped file is not read before it is searched, so nothing in the sections is trusted: a link to a node that does not
//! exist is passed over, and any row, id or code is as good as another.

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::image::{Draft, FileError, Image, Section};
use crate::kernel::{self, Rows};
use crate::metric::Metric;

use super::backlinks;
use super::build::Links;
use super::config::HnswConfig;
use super::format::{Chosen, FewBits, Grid, Grids, RowFormat};
use super::packed::{self, PackedLayer};
use super::walk::{FOLLOWED_A_STEP, MAX_NODES, NONE};

/// What the sections mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Meta {
    pub(super) metric: Metric,
    pub(super) dim: usize,
    pub(super) rows: RowFormat,
    pub(super) full: Option<RowFormat>,
    /// Nodes of each layer, the ground layer first.
    pub(super) layers: Vec<usize>,
    pub(super) ground_stride: usize,
    pub(super) stride: usize,
    /// Bytes of a link: 3 or 4.
    #[serde(default = "unpacked")]
    pub(super) link_bytes: usize,
    /// Bytes of an id: 4 or 8.
    pub(super) id_bytes: usize,
    /// The step of 8-bit codes.
    pub(super) step: f32,
    /// Whether 8-bit rows have a constant.
    #[serde(default = "with_constants")]
    pub(super) constants: bool,
    /// What codes of 4 bits and fewer stand for, if there are any. (Files have its name from when there were no fewer.)
    #[serde(default, rename = "nibbles", skip_serializing_if = "Option::is_none")]
    pub(super) few: Option<FewMeta>,
    /// Candidates kept by a query that does not say how many.
    pub(super) ef: usize,
    /// Whether a search looks at one list of links on each higher layer, and not on for as long as it gets nearer.
    #[serde(default)]
    pub(super) one_look: bool,
    /// Whether a walk follows one node a step, as in the library that built the graph.
    #[serde(default)]
    pub(super) one_by_one: bool,
}

fn unpacked() -> usize {
    packed::UNPACKED
}

fn with_constants() -> bool {
    true
}

/// What codes of 4 bits and fewer stand for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FewMeta {
    /// Their step.
    pub(super) step: f32,
    /// Whether rows are rotated first.
    pub(super) rotated: bool,
}

impl Meta {
    fn nodes(&self) -> usize {
        self.layers.first().copied().unwrap_or(0)
    }

    /// Nodes that a walk follows in one step.
    pub(super) fn followed_a_step(&self) -> usize {
        if self.one_by_one { 1 } else { FOLLOWED_A_STEP }
    }

    /// Whether rows are kept in `format`, for the walk or for re-ranking.
    fn has(&self, format: RowFormat) -> bool {
        [Some(self.rows), self.full].contains(&Some(format))
    }

    fn grids<'a>(&self, low: &'a [f32], low4: &'a [f32]) -> Grids<'a> {
        let FewMeta { step, rotated } = self.few.unwrap_or(FewMeta {
            step: 1.0,
            rotated: false,
        });
        Grids {
            bytes: Grid {
                low,
                step: self.step,
            },
            constants: self.constants,
            few: FewBits {
                width: self.rows.few_bits().unwrap_or_default(),
                grid: Grid { low: low4, step },
                rotated,
            },
        }
    }

    /// Bytes from one row in `format` to the next.
    fn row_bytes(&self, format: RowFormat) -> usize {
        format.stride_with(self.dim, self.constants)
    }

    /// Links of the ground, and of all other layers.
    fn links(&self) -> [usize; 2] {
        let upper: usize = self.layers.iter().skip(1).sum();
        [self.nodes() * self.ground_stride, upper * self.stride]
    }

    /// Checks what a file says, so that no size computed of it overflows and no search reads beyond a section.
    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: usize, range: std::ops::RangeInclusive<usize>| {
            if range.contains(&value) {
                return Ok(());
            }
            let (least, most) = range.into_inner();
            Err(format!(
                "{name} is {value}, which must be {least} to {most}"
            ))
        };
        for format in [Some(self.rows), self.full].into_iter().flatten() {
            within("dim", self.dim, 1..=format.most_components())?;
        }
        within("ground_stride", self.ground_stride, 1..=MAX_STRIDE)?;
        within("stride", self.stride, 1..=MAX_STRIDE)?;
        within("ef", self.ef, 1..=usize::MAX)?;
        within("link_bytes", self.link_bytes, 3..=packed::UNPACKED)?;
        within("the number of layers", self.layers.len(), 1..=MAX_LAYERS)?;
        within("the number of rows", self.nodes(), 0..=MAX_NODES)?;
        // A search begins at the first node of the highest layer, so each has one.
        for (&below, &nodes) in self.layers.iter().zip(&self.layers[1..]) {
            within("a higher layer's number of nodes", nodes, 1..=below)?;
        }
        if !matches!(self.id_bytes, 4 | 8) {
            return Err(format!(
                "ids have {} bytes, which must be 4 or 8",
                self.id_bytes
            ));
        }
        if !self.step.is_finite() {
            return Err("the step of 8-bit codes is no finite number".to_owned());
        }
        if self.few.is_some() != self.rows.few_bits().is_some() {
            return Err("rows of few bits without a step, or a step without such rows".to_owned());
        }
        let usable = |step: f32| step > 0.0 && step.is_finite() && (1.0 / step).is_finite();
        if self.few.is_some_and(|few| !usable(few.step)) {
            return Err("the step of rows of few bits is no number above 0".to_owned());
        }
        let always = self.rows.few_bits().is_some_and(FewBits::always_rotated);
        if always && self.few.is_some_and(|few| !few.rotated || few.step != 1.0) {
            return Err(format!(
                "rows of {} are not rotated, or have a step",
                self.rows
            ));
        }
        if !self.rows.can_be_alone(self.full)
            && let Err((value, accepted)) = self.rows.check_rerank(self.full)
        {
            return Err(format!("full is {value}, which must be {accepted}"));
        }
        Ok(())
    }
}

/// What a file of this kind of table is called inside.
const KIND: &str = "hnsw";

/// Links that a node of a file may have.
pub(super) const MAX_STRIDE: usize = 1 << 16;

/// Layers that a file may have: at least two nodes less each makes no more than this in practice.
const MAX_LAYERS: usize = 64;

/// Bytes of an entry of the lists of pairs.
const PAIR: usize = size_of::<[u32; 2]>();

/// Where the sections are.
#[derive(Clone, Copy)]
struct Sections {
    rows: Section,
    links: Section,
    upper: Section,
    ids: Section,
    full: Option<Section>,
    low: Section,
    low4: Option<Section>,
    /// Pairs of nodes with equal rows: one with links, in ascending order, and one without, by id.
    copies: Option<Section>,
    /// Pairs of a node and one that it links to, ascending.
    backlinks: Option<Section>,
}

/// A graph in memory of its own.
pub(super) struct Frozen {
    image: Image,
    sections: Sections,
    pub(super) meta: Meta,
    /// Where each higher layer begins among the links of `upper`.
    upper_starts: Vec<usize>,
}

impl Frozen {
    /// Copies `links` over `rows` (`[n][dim]`, prepared for the metric), whose ids are `id(row number)`.
    pub(super) fn new(
        links: &Links,
        rows: &[f32],
        dim: usize,
        config: &HnswConfig,
        order: &[u32],
        id: impl Fn(usize) -> u64,
    ) -> Result<Self, BuildError> {
        let nodes = links.rows.len();
        // The id of each new node.
        let ids: Vec<u64> = order
            .iter()
            .map(|&node| id(links.rows[node as usize] as usize))
            .collect();
        let narrow = ids.iter().all(|&id| id <= u64::from(u32::MAX));
        let backlinks = match config.metric {
            Metric::InnerProduct => backlinks::of(links),
            Metric::L2 | Metric::Cosine => Vec::new(),
        };
        let (walked, full) = config.formats();
        let chosen = Chosen::of(rows, dim, config.metric, (walked, full));
        let few = chosen.few.as_ref();
        let meta = Meta {
            metric: config.metric,
            dim,
            rows: walked,
            full,
            layers: links
                .layers
                .iter()
                .zip(0..)
                .map(|(layer, level)| layer.len() / links.stride_of(level))
                .collect(),
            ground_stride: links.ground_stride,
            stride: links.stride,
            link_bytes: packed::link_bytes(nodes),
            id_bytes: if narrow { 4 } else { 8 },
            step: chosen.step,
            constants: chosen.constants,
            few: few.map(|chosen| FewMeta {
                step: chosen.step,
                rotated: chosen.rotated,
            }),
            ef: config.ef,
            one_look: links.one_look,
            one_by_one: links.one_by_one,
        };
        let mut draft = Draft::new();
        let link_bytes = meta.link_bytes;
        let [ground_bytes, upper_bytes] = meta
            .links()
            .map(|links| packed::section_bytes(links, link_bytes));
        let sections = Sections {
            rows: draft.add("rows", nodes * meta.row_bytes(meta.rows)),
            links: draft.add("links", ground_bytes),
            upper: draft.add("upper", upper_bytes),
            ids: draft.add("ids", nodes * meta.id_bytes),
            full: meta
                .full
                .map(|format| draft.add("full", nodes * meta.row_bytes(format))),
            low: draft.add("low", chosen.low.len() * 4),
            low4: few.map(|_| draft.add("low4", dim * 4)),
            // Most tables have none of these, and files of before neither.
            copies: pairs(&mut draft, "copies", links.copies.len()),
            backlinks: pairs(&mut draft, "backlinks", backlinks.len()),
        };
        let mut image = draft.allocate(config.place.clone())?;
        image
            .section_mut::<f32>(sections.low)
            .copy_from_slice(&chosen.low);
        if let Some((section, few)) = sections.low4.zip(few) {
            let out = image.section_mut::<f32>(section);
            out.copy_from_slice(&few.low);
        }
        let grids = chosen.grids();
        let stored = [
            Some((sections.rows, meta.rows)),
            sections.full.zip(meta.full),
        ];
        for (section, format) in stored.into_iter().flatten() {
            let bytes = image.section_mut::<u8>(section);
            for (out, &node) in bytes.chunks_exact_mut(meta.row_bytes(format)).zip(order) {
                let row = &rows[links.rows[node as usize] as usize * dim..][..dim];
                grids.write(format, config.metric, row, out);
            }
        }
        if narrow {
            let narrowed = ids.iter().map(|&id| id as u32);
            image
                .section_mut::<u32>(sections.ids)
                .iter_mut()
                .zip(narrowed)
                .for_each(|(out, id)| *out = id);
        } else {
            image.section_mut::<u64>(sections.ids).copy_from_slice(&ids);
        }
        let mut place = vec![0; nodes];
        for (new, &old) in order.iter().enumerate() {
            place[old as usize] = new as u32;
        }
        let moved = |pair: &[u32; 2]| pair.map(|old| place[old as usize]);
        let mut copies: Vec<[u32; 2]> = links.copies.iter().map(moved).collect();
        copies.sort_unstable_by_key(|&[first, copy]| (first, ids[copy as usize]));
        let mut backlinks: Vec<[u32; 2]> = backlinks.iter().map(moved).collect();
        backlinks.sort_unstable();
        for (section, pairs) in [(sections.copies, copies), (sections.backlinks, backlinks)] {
            if let Some(section) = section {
                let out = image.section_mut::<u32>(section);
                out.copy_from_slice(pairs.as_flattened());
            }
        }
        let mut start = 0;
        for (level, layer) in links.layers.iter().enumerate() {
            let stride = links.stride_of(level);
            let section = if level == 0 {
                sections.links
            } else {
                sections.upper
            };
            let out = &mut image.section_mut::<u8>(section)[start..];
            let list_bytes = stride * link_bytes;
            for (out, &old) in out
                .chunks_exact_mut(list_bytes)
                .zip(&order[..layer.len() / stride])
            {
                let list = &layer[old as usize * stride..][..stride];
                let moved = list.iter().map(|&link| match link {
                    NONE => NONE,
                    link => place[link as usize],
                });
                packed::write(moved, link_bytes, out);
            }
            if level > 0 {
                start += layer.len() * link_bytes;
            }
        }
        let frozen = image.freeze(KIND, &meta);
        let image = frozen.expect("numbers and names can be written as JSON");
        Ok(Self::of(image, sections, meta))
    }

    /// A graph out of a file.
    pub(super) fn open(image: Image) -> Result<Self, FileError> {
        image.expect_kind(KIND)?;
        let meta: Meta = image.meta()?;
        meta.check().map_err(|reason| image.damaged(reason))?;
        let nodes = meta.nodes();
        let [ground_bytes, upper_bytes] = meta
            .links()
            .map(|links| packed::section_bytes(links, meta.link_bytes));
        let sections = Sections {
            rows: image.find_values::<u8>("rows", nodes * meta.row_bytes(meta.rows))?,
            links: image.find_values::<u8>("links", ground_bytes)?,
            upper: image.find_values::<u8>("upper", upper_bytes)?,
            ids: image.find_values::<u8>("ids", nodes * meta.id_bytes)?,
            full: match meta.full {
                Some(format) => {
                    Some(image.find_values::<u8>("full", nodes * meta.row_bytes(format))?)
                }
                None => None,
            },
            low: {
                let values = if meta.has(RowFormat::Sq8) {
                    meta.dim
                } else {
                    0
                };
                image.find_values::<f32>("low", values)?
            },
            low4: match meta.few {
                Some(_) => Some(image.find_values::<f32>("low4", meta.dim)?),
                None => None,
            },
            copies: image.find("copies").ok(),
            backlinks: image.find("backlinks").ok(),
        };
        // No more than a build makes.
        for (section, each) in [
            (sections.copies, 1),
            (sections.backlinks, backlinks::LEAD_TO),
        ] {
            let bytes = section.map_or(0, |section| image.section::<u8>(section).len());
            if !bytes.is_multiple_of(PAIR) || bytes / PAIR > nodes * each {
                return Err(image.damaged(format!("a list of {bytes} bytes about {nodes} rows")));
            }
        }
        Ok(Self::of(image, sections, meta))
    }

    fn of(image: Image, sections: Sections, meta: Meta) -> Self {
        let mut upper_starts = Vec::new();
        let mut start = 0;
        for nodes in meta.layers.iter().skip(1) {
            upper_starts.push(start);
            start += nodes * meta.stride;
        }
        Self {
            image,
            sections,
            meta,
            upper_starts,
        }
    }

    /// Sets how many candidates a query keeps that does not say, also for the file that is saved next.
    pub(super) fn set_ef(&mut self, ef: usize) {
        self.meta.ef = ef;
        let described = self.image.describe(&self.meta);
        described.expect("numbers and names can be written as JSON");
    }

    pub(super) fn nodes(&self) -> usize {
        self.meta.nodes()
    }

    /// Whether some rows are equal, so that not all nodes have links.
    pub(super) fn has_copies(&self) -> bool {
        self.sections.copies.is_some()
    }

    /// The nodes without links whose rows are equal to that of `node`, which has some; by id.
    pub(super) fn copies(&self, node: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        self.paired(self.sections.copies, node)
    }

    /// The nodes that `node` links to besides, for a walk through a filter.
    pub(super) fn backlinks(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.paired(self.sections.backlinks, node)
    }

    /// The nodes that the pairs of `section` have for `node`.
    fn paired(
        &self,
        section: Option<Section>,
        node: u32,
    ) -> impl Iterator<Item = u32> + Clone + '_ {
        let pairs: &[u32] = section.map_or(&[], |section| self.image.section(section));
        let (pairs, _) = pairs.as_chunks::<2>();
        let first = pairs.partition_point(|pair| pair[0] < node);
        let same = pairs[first..]
            .iter()
            .take_while(move |pair| pair[0] == node);
        // What a file says is not believed.
        let nodes = self.nodes() as u32;
        same.map(|pair| pair[1]).filter(move |&other| other < nodes)
    }

    /// The memory that holds all of it.
    pub(super) fn image(&self) -> &Image {
        &self.image
    }

    /// The rows that a walk compares.
    pub(super) fn rows(&self) -> Rows<'_> {
        let bytes = self.image.section(self.sections.rows);
        Rows::new(bytes, self.meta.row_bytes(self.meta.rows))
    }

    /// The rows for re-ranking, and their format.
    pub(super) fn full(&self) -> Option<(RowFormat, Rows<'_>)> {
        let (section, format) = self.sections.full.zip(self.meta.full)?;
        let bytes = self.image.section(section);
        Some((format, Rows::new(bytes, self.meta.row_bytes(format))))
    }

    /// Which values codes stand for.
    pub(super) fn grids(&self) -> Grids<'_> {
        let low4 = self.sections.low4;
        let low4 = low4.map_or(&[][..], |section| self.image.section(section));
        self.meta.grids(self.image.section(self.sections.low), low4)
    }

    /// The ids of all nodes.
    pub(super) fn ids(&self) -> Ids<'_> {
        if self.meta.id_bytes == 4 {
            Ids::Narrow(self.image.section(self.sections.ids))
        } else {
            Ids::Wide(self.image.section(self.sections.ids))
        }
    }

    pub(super) fn ground(&self) -> PackedLayer<'_> {
        let section = self.image.section(self.sections.links);
        let Meta {
            link_bytes,
            ground_stride,
            ..
        } = self.meta;
        let layer = PackedLayer::new(section, link_bytes, 0, ground_stride, self.nodes());
        layer.with_step(self.meta.followed_a_step())
    }

    /// The layers above the ground, highest first.
    pub(super) fn upper(&self) -> impl Iterator<Item = PackedLayer<'_>> {
        let section = self.image.section(self.sections.upper);
        let Meta {
            link_bytes, stride, ..
        } = self.meta;
        let layers = self.meta.layers.iter().skip(1).zip(&self.upper_starts);
        layers.rev().map(move |(&nodes, &start)| {
            PackedLayer::new(section, link_bytes, start, stride, nodes)
        })
    }

    /// Where those layers begin in their section, in bytes.
    pub(super) fn upper_offsets(&self) -> impl Iterator<Item = u64> {
        let starts = self.upper_starts.iter().rev();
        starts.map(|&start| (self.meta.link_bytes * start) as u64)
    }
}

/// Room for `count` pairs, if there are any.
fn pairs(draft: &mut Draft, name: &'static str, count: usize) -> Option<Section> {
    (count > 0).then(|| draft.add(name, count * PAIR))
}

/// The ids of nodes, in as few bytes as they need.
#[derive(Clone, Copy)]
pub(super) enum Ids<'a> {
    Narrow(&'a [u32]),
    Wide(&'a [u64]),
}

impl Ids<'_> {
    #[inline]
    pub(super) fn of(&self, node: u32) -> u64 {
        match self {
            Self::Narrow(ids) => u64::from(ids[node as usize]),
            Self::Wide(ids) => ids[node as usize],
        }
    }

    /// Hints that the id of `node`, which exists, will be read.
    pub(super) fn prefetch(&self, node: u32) {
        match self {
            Self::Narrow(ids) => kernel::prefetch(&ids[node as usize], size_of::<u32>()),
            Self::Wide(ids) => kernel::prefetch(&ids[node as usize], size_of::<u64>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_of_few_bits_is_checked() {
        let few = Some(FewMeta {
            step: 1.0,
            rotated: true,
        });
        let meta = |rows, few| Meta {
            metric: Metric::L2,
            dim: 24,
            rows,
            full: Some(RowFormat::F16),
            layers: vec![3],
            ground_stride: 8,
            stride: 4,
            link_bytes: 3,
            id_bytes: 4,
            step: 1.0,
            constants: true,
            few,
            ef: 10,
            one_look: false,
            one_by_one: false,
        };
        let with = |step, rotated| Some(FewMeta { step, rotated });
        for rows in [RowFormat::Sq4, RowFormat::Sq2, RowFormat::Sq1] {
            assert_eq!(meta(rows, few).check(), Ok(()));
            assert!(meta(rows, None).check().is_err());
            for step in [0.0, -1.0, 1e-40, f32::NAN, f32::INFINITY] {
                assert!(meta(rows, with(step, true)).check().is_err(), "{step}");
            }
            let alone = Meta {
                full: None,
                ..meta(rows, few)
            };
            // As `HnswConfig::inside_refined` lets it be.
            let refined = rows == RowFormat::Sq4;
            assert_eq!(alone.check().is_ok(), refined, "without a second copy");
            let twice = Meta {
                full: Some(rows),
                ..meta(rows, few)
            };
            assert!(twice.check().is_err(), "a second copy of as few bits");
        }
        assert_eq!(meta(RowFormat::Sq4, with(0.25, false)).check(), Ok(()));
        for rows in [RowFormat::Sq2, RowFormat::Sq1] {
            assert!(meta(rows, with(1.0, false)).check().is_err());
            assert!(meta(rows, with(0.25, true)).check().is_err());
        }
        assert!(meta(RowFormat::Sq8, few).check().is_err(), "no such rows");
    }
}
