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
//! A mapped file is not read before it is searched, so nothing in the sections is trusted: a link to a node that does
//! not exist is passed over, and any row, id or code is as good as another.

use crate::error::BuildError;
use crate::ids::{IdSection, Ids, is_wide};
use crate::image::{Draft, FileError, Image, Section};
use crate::kernel::Rows;
use crate::metric::Metric;
use crate::progress::Watch;

use super::backlinks;
use super::build::Links;
use super::config::HnswConfig;
use super::format::{Chosen, Grids, RowFormat};
use super::meta::{FewMeta, Meta};
use super::packed::{self, PackedLayer};
use super::walk::NONE;

/// What a file of this kind of table is called inside.
pub(crate) const KIND: &str = "hnsw";

/// Bytes of an entry of the lists of pairs.
const PAIR: usize = size_of::<[u32; 2]>();

/// Where the sections are.
#[derive(Clone, Copy)]
struct Sections {
    rows: Section,
    links: Section,
    upper: Section,
    ids: IdSection,
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
    ///
    /// # Errors
    /// [`BuildError::Memory`], [`BuildError::Stopped`].
    pub(super) fn new(
        links: &Links,
        rows: &[f32],
        dim: usize,
        config: &HnswConfig,
        order: &[u32],
        id: impl Fn(usize) -> u64,
        watch: &Watch<'_>,
    ) -> Result<Self, BuildError> {
        let nodes = links.rows.len();
        // The id of each new node.
        let ids: Vec<u64> = order
            .iter()
            .map(|&node| id(links.rows[node as usize] as usize))
            .collect();
        let wide = ids.iter().copied().any(is_wide);
        let backlinks = match config.metric {
            Metric::InnerProduct => backlinks::of(links, watch)?,
            Metric::L2 | Metric::Cosine => Vec::new(),
        };
        let (walked, full) = config.formats();
        let chosen = Chosen::of(rows, dim, config.metric, (walked, full), watch)?;
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
            id_bytes: if wide { 8 } else { 4 },
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
            ids: IdSection::add(&mut draft, "ids", nodes, wide),
            full: meta
                .full
                .map(|format| draft.add("full", nodes * meta.row_bytes(format))),
            low: draft.add("low", chosen.low.len() * 4),
            low4: few.map(|_| draft.add("low4", dim * 4)),
            // Most tables have none of these, and files of before neither.
            copies: pairs(&mut draft, "copies", links.copies.len()),
            backlinks: pairs(&mut draft, "backlinks", backlinks.len()),
        };
        let mut image = draft.allocate(config.memory.clone())?;
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
        let (formats, mut written) = (1 + usize::from(meta.full.is_some()), 0);
        for (section, format) in stored.into_iter().flatten() {
            let bytes = image.section_mut::<u8>(section);
            let outs = bytes.chunks_exact_mut(meta.row_bytes(format));
            for (out, &node) in outs.zip(order) {
                let row = &rows[links.rows[node as usize] as usize * dim..][..dim];
                grids.write(format, config.metric, row, out);
                written += 1;
                watch.done(written / formats)?;
            }
        }
        let in_order = ids.iter().copied();
        sections.ids.write(&mut image, 0, in_order, watch)?;
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
                watch.glance()?;
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
            ids: IdSection::find(&image, "ids", nodes, meta.id_bytes == 8)?,
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
    #[inline]
    pub(super) fn ids(&self) -> Ids<'_> {
        self.sections.ids.of(&self.image)
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
