//! Builds a graph: rows are inserted one by one, by one thread or several (arXiv 1603.09320, algorithm 1).
//!
//! Nodes are numbered so that those of the highest layer come first: a layer is the nodes below some number, and needs
//! no list of its members. The layer of each row is drawn from its number alone, so it is the same however many threads
//! build.
//!
//! # Threads
//!
//! A node's links are atomics. Readers take no lock: in the middle of a change they see some old and some new links,
//! all of them nodes of the layer. Writers of one node's links exclude each other by the node's lock, and hold one lock
//! at a time. A node can be met on a layer only after its links on the layers below are there. With one thread the
//! graph depends on the rows and settings alone.

mod copies;
mod layer;
mod levels;
mod lost;
mod reach;
mod select;
mod team;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::BuildError;
use crate::kernel::{Element, Rows};
use crate::metric::Metric;
use crate::progress::{Stage, Watch};
use crate::reserve;

use super::config::HnswConfig;
use super::format::RowDistances;
use super::walk::{Distances as _, Layer as _, NONE, Scratch};
use layer::GrowingLayer;
use select::Selection;

/// A graph as its builder leaves it: numbers of nodes, highest layer first.
pub(crate) struct Links {
    /// The row of each node.
    pub(crate) rows: Vec<u32>,
    /// Links of a node on the ground layer and on the others.
    pub(crate) ground_stride: usize,
    pub(crate) stride: usize,
    /// `layers[0]` is the ground layer: `[nodes][stride]`, filled up with [`NONE`](super::walk::NONE).
    pub(crate) layers: Vec<Vec<u32>>,
    /// Whether a search looks at one list of links on each higher layer, and not on for as long as it gets nearer.
    pub(crate) one_look: bool,
    /// Whether a walk follows one node a step, as in the library that built the graph, so that it finds what that one
    /// would.
    pub(crate) one_by_one: bool,
    /// Nodes without links whose rows are equal to another node's: that node, and the one without links.
    pub(crate) copies: Vec<[u32; 2]>,
}

impl Links {
    /// Adds the rows that are equal to another one as nodes without links.
    fn add(&mut self, copies: &[copies::Same]) {
        let mut node_of = vec![0; self.rows.len() + copies.len()];
        for (&row, node) in self.rows.iter().zip(0..) {
            node_of[row as usize] = node;
        }
        for copy in copies {
            let node = self.rows.len() as u32;
            self.rows.push(copy.number);
            self.copies.push([node_of[copy.first as usize], node]);
        }
        if let Some(ground) = self.layers.first_mut() {
            ground.resize(self.rows.len() * self.ground_stride, NONE);
        }
    }

    pub(crate) fn stride_of(&self, level: usize) -> usize {
        if level == 0 {
            self.ground_stride
        } else {
            self.stride
        }
    }
}

/// Builds the links of `rows` (`[n][dim]`, checked and prepared for the metric), and leaves `watch` in the last stage.
pub(crate) fn build(
    rows: &[f32],
    dim: usize,
    config: &HnswConfig,
    watch: &Watch<'_>,
) -> Result<Links, BuildError> {
    watch.begin(Stage::Adding, rows.len() / dim)?;
    let (firsts, copies) = copies::apart(rows, dim, watch)?;
    let total = firsts.len();
    let plan = levels::plan(&firsts, config.m);
    // Rows in the order of nodes, each beginning with a cache line.
    let stride = (dim * size_of::<f32>()).next_multiple_of(64) / size_of::<f32>();
    let mut own = reserve::room(total * stride)?;
    for &number in &plan.rows {
        own.extend_from_slice(&rows[number as usize * dim..][..dim]);
        own.resize(own.len().next_multiple_of(stride), 0.0);
        watch.look()?;
    }
    let layers = plan
        .layers
        .iter()
        .enumerate()
        .map(|(level, &nodes)| GrowingLayer::new(nodes, config.links(level), watch))
        .collect::<Result<_, _>>()?;
    let builder = Builder {
        rows: &own,
        dim,
        stride,
        metric: config.metric,
        m: config.m,
        slack: select::slack(config.metric),
        ef: config.ef_construction.min(total.max(1)),
        layers,
    };
    let insert = |worker: &mut Worker<'_>, node| worker.insert(node as u32);
    builder.each(config, total, |done| watch.done(done), insert)?;
    watch.end()?;
    watch.begin(Stage::Finishing, rows.len() / dim)?;
    let upper = match config.metric {
        // A descent does not end at a row itself where another has a greater product with it.
        Metric::InnerProduct => 0,
        _ => builder.layers.get(1).map_or(0, GrowingLayer::nodes),
    };
    let descend = |worker: &mut Worker<'_>, node| worker.end_descent_at(node as u32);
    builder.each(config, upper, |_| watch.look(), descend)?;
    let lost = match builder.layers.first() {
        Some(ground) => lost::of(ground, config.metric, watch)?,
        None => Vec::new(),
    };
    let link = |worker: &mut Worker<'_>, at| {
        let (node, missing) = lost[at - 1];
        worker.link_to(node, missing);
    };
    builder.each(config, lost.len() + 1, |_| watch.look(), link)?;
    Worker::new(&builder).lead_to_all(watch)?;
    let mut links = Links {
        rows: plan.rows,
        ground_stride: config.links(0),
        stride: config.links(1),
        layers: builder
            .layers
            .into_iter()
            .map(GrowingLayer::into_links)
            .collect(),
        one_look: false,
        one_by_one: false,
        copies: Vec::new(),
    };
    if !copies.is_empty() {
        links.add(&copies);
    }
    Ok(links)
}

/// What all threads share.
struct Builder<'a> {
    /// `[total][stride]`.
    rows: &'a [f32],
    dim: usize,
    stride: usize,
    metric: Metric,
    m: usize,
    /// That of [`Selection::choose`] for all links but those that end a descent.
    slack: f32,
    ef: usize,
    layers: Vec<GrowingLayer>,
}

impl Builder<'_> {
    /// Has a team do the pieces from 1 to below `end`. Of nodes, 0 is the entry: it needs no links to begin with.
    fn each(
        &self,
        config: &HnswConfig,
        end: usize,
        done: impl FnMut(usize) -> Result<(), BuildError>,
        work: impl Fn(&mut Worker<'_>, usize) + Sync,
    ) -> Result<(), BuildError> {
        let next = AtomicUsize::new(1);
        let part = || Part {
            worker: Worker::new(self),
            next: &next,
            end,
            work: &work,
        };
        team::run(config, end, done, part)
    }

    fn row(&self, node: u32) -> &[f32] {
        &self.rows[node as usize * self.stride..][..self.dim]
    }

    fn distances_to(&self, node: u32) -> RowDistances<'_> {
        let rows = Rows::new(
            bytemuck::cast_slice(self.rows),
            self.stride * size_of::<f32>(),
        );
        RowDistances::floats(self.row(node), Element::F32, self.metric, rows)
    }
}

/// One thread's part.
struct Worker<'a> {
    builder: &'a Builder<'a>,
    scratch: Scratch,
    selection: Selection,
    candidates: Vec<(f32, u32)>,
    /// The links of the node that is being inserted, by layer.
    chosen: Vec<Vec<u32>>,
    links: Vec<u32>,
    distances: Vec<f32>,
}

impl<'a> Worker<'a> {
    fn new(builder: &'a Builder<'a>) -> Self {
        Self {
            builder,
            scratch: Scratch::default(),
            selection: Selection::default(),
            candidates: Vec::new(),
            chosen: vec![Vec::new(); builder.layers.len()],
            links: Vec::new(),
            distances: Vec::new(),
        }
    }
}

/// One thread's part of pieces that a team does.
struct Part<'a, F> {
    worker: Worker<'a>,
    next: &'a AtomicUsize,
    end: usize,
    work: &'a F,
}

impl<F: Fn(&mut Worker<'_>, usize)> team::Step for Part<'_, F> {
    fn step(&mut self) -> bool {
        let piece = self.next.fetch_add(1, Ordering::Relaxed);
        if piece < self.end {
            (self.work)(&mut self.worker, piece);
        }
        piece < self.end
    }
}

impl Worker<'_> {
    fn insert(&mut self, node: u32) {
        let builder = self.builder;
        let distances = builder.distances_to(node);
        let mut nearest = (f32::INFINITY, 0);
        distances.to(&[0], std::slice::from_mut(&mut nearest.0));
        for (layer, chosen) in builder.layers.iter().zip(&mut self.chosen).rev() {
            if !layer.holds(node) {
                nearest = self.scratch.descend(layer, &distances, nearest);
                continue;
            }
            self.scratch
                .walk(layer, &distances, [nearest.1], builder.ef, builder.ef);
            self.candidates.clear();
            self.candidates.extend(self.scratch.pool.iter());
            nearest = self.candidates[0];
            self.selection
                .choose(builder, &self.candidates, builder.slack, builder.m, chosen);
        }
        // From the ground up: another thread that meets the node on a layer goes on from it one layer below. If the
        // node had no links there yet, that thread's row would be linked to this one alone, and could be lost.
        for level in 0..builder.layers.len() {
            let layer = &builder.layers[level];
            if !layer.holds(node) {
                break;
            }
            let chosen = std::mem::take(&mut self.chosen[level]);
            layer.set(node, &chosen);
            for &neighbor in &chosen {
                let _lock = layer.lock(neighbor);
                self.add_link(layer, neighbor, node, builder.slack);
            }
            self.chosen[level] = chosen;
        }
    }

    /// Links to `node` from where the descent to its highest layer ends, if that is another node.
    fn end_descent_at(&mut self, node: u32) {
        let layers = &self.builder.layers;
        let on = layers.iter().take_while(|layer| layer.holds(node));
        let level = on.count() - 1;
        let higher = layers[level..].iter().rev();
        let distances = self.builder.distances_to(node);
        let end = self.scratch.enter(higher, &distances, false);
        // Rounded distances may be alike.
        if end == node {
            return;
        }
        let layer = &layers[level];
        let _lock = layer.lock(end);
        if layer.links(end).all(|link| link != node) {
            // What only the slack spares gives way: no link of `end` is nearer to `node` than `end` is.
            self.add_link(layer, end, node, 1.0);
        }
    }

    /// Links `from` to `to`, dropping the least useful link of `from` if it has too many. The caller has `from`'s lock.
    fn add_link(&mut self, layer: &GrowingLayer, from: u32, to: u32, slack: f32) {
        if layer.append(from, to) {
            return;
        }
        layer.read(from, &mut self.links);
        self.links.push(to);
        self.distances.resize(self.links.len(), 0.0);
        self.builder
            .distances_to(from)
            .to(&self.links, &mut self.distances);
        self.candidates.clear();
        let pairs = self
            .distances
            .iter()
            .copied()
            .zip(self.links.iter().copied());
        self.candidates.extend(pairs);
        self.candidates
            .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.selection.choose(
            self.builder,
            &self.candidates,
            slack,
            layer.stride(),
            &mut self.links,
        );
        layer.set(from, &self.links);
    }

    /// Links to `node` from the nearest nodes with room, `missing` of them.
    fn link_to(&mut self, node: u32, mut missing: u8) {
        let ground = &self.builder.layers[0];
        self.near(node, |entry| entry);
        for at in 0..self.candidates.len() {
            let (_, from) = self.candidates[at];
            if from == node {
                continue;
            }
            let _lock = ground.lock(from);
            if ground.links(from).all(|link| link != node) && ground.append(from, node) {
                missing -= 1;
                if missing == 0 {
                    return;
                }
            }
        }
    }

    /// The nodes that a walk over the ground towards `node` keeps, into `candidates`. `begin` says where it begins, of
    /// where the layers above lead.
    fn near(&mut self, node: u32, begin: impl Fn(u32) -> u32) {
        let builder = self.builder;
        let distances = builder.distances_to(node);
        let higher = builder.layers[1..].iter().rev();
        let entry = self.scratch.enter(higher, &distances, false);
        let ground = &builder.layers[0];
        self.scratch
            .walk(ground, &distances, [begin(entry)], builder.ef, builder.ef);
        self.candidates.clear();
        self.candidates.extend(self.scratch.pool.iter());
    }
}

#[cfg(test)]
mod tests;
