//! The points of a collection in memory, as searches see them: an immutable [`View`], replaced by each write.
//!
//! Rows lie in blocks. The *base* blocks hold what the index was built over; the *delta* blocks hold what has been
//! written since and are searched exactly. A row is never changed: an overwritten or deleted point's row is marked
//! dead in the next view. A search holds one view from begin to end, so that it sees all of a write or nothing, however
//! many cores it is split over, and no reader waits for a writer.

use std::sync::Arc;

use chiplet::Table;
use chiplet::index::{Granted, Metric};

use super::field_index::Indexes;
use super::point::{Payload, PointId};
use super::refined::refined;

/// Vectors of one block take about this many bytes: a write copies at most one block, and scanning one costs
/// 25-50 us at the 5-10 GB/s of one core, a scan unit well worth handing over.
const BLOCK_BYTES: usize = 256 * 1024;

/// A row's number in its view: block number times the rows of a block, plus the position in it.
pub(crate) type Row = u32;

/// Consecutive rows.
#[derive(Clone)]
pub(crate) struct Block {
    /// The vectors of this and perhaps other blocks.
    vectors: Arc<Vec<f32>>,
    /// Where this block's begin.
    start: usize,
    pub(crate) ids: Vec<PointId>,
    pub(crate) payloads: Vec<Payload>,
    /// The number of the write that stored each point.
    pub(crate) versions: Vec<u64>,
    pub(crate) indexes: Indexes,
}

impl Block {
    fn empty() -> Self {
        Self {
            vectors: Arc::default(),
            start: 0,
            ids: Vec::new(),
            payloads: Vec::new(),
            versions: Vec::new(),
            indexes: Indexes::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn vector(&self, position: usize, dim: usize) -> &[f32] {
        &self.vectors[self.start + position * dim..][..dim]
    }

    /// All of its vectors, one after the other.
    pub(crate) fn vectors(&self, dim: usize) -> &[f32] {
        &self.vectors[self.start..][..self.len() * dim]
    }
}

/// A stored point, borrowed from its view.
pub(crate) struct Stored<'a> {
    pub(crate) id: PointId,
    pub(crate) vector: &'a [f32],
    pub(crate) payload: &'a Payload,
    pub(crate) version: u64,
}

/// Rows that are dead, as bits.
#[derive(Clone, Default)]
pub(crate) struct Dead {
    bits: Vec<u64>,
    count: usize,
}

impl Dead {
    pub(crate) fn contains(&self, row: Row) -> bool {
        self.bits
            .get(row as usize / 64)
            .is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Marks a row; false if it was marked.
    pub(crate) fn insert(&mut self, row: Row) -> bool {
        let word = row as usize / 64;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        let bit = 1 << (row % 64);
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.count += usize::from(new);
        new
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Rows that are dead and were not in `before`, ascending; in the time that it takes to compare the bits.
    pub(crate) fn since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = Row> + 'a {
        let before = before.bits.iter().copied().chain(std::iter::repeat(0));
        let new = self.bits.iter().zip(before).map(|(now, then)| now & !then);
        let words = (0..).zip(new).filter(|&(_, word)| word != 0);
        words.flat_map(|(number, word): (Row, u64)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| number * 64 + bit)
        })
    }
}

/// What an index was built over, and the index.
#[derive(Clone)]
pub(crate) struct Base {
    pub(crate) blocks: Arc<[Arc<Block>]>,
    pub(crate) rows: usize,
    /// `None` if it was too small to be worth an index: it is then scanned as the delta is.
    pub(crate) index: Option<Arc<dyn Table>>,
    /// Whether the index has codes of the rows. What its lists answer are candidates then, until they are merged.
    pub(crate) coded: bool,
    /// Memory of the index.
    pub(crate) index_bytes: u64,
    pub(crate) index_memory: IndexMemory,
}

/// Where an index lies, as of when it was built or loaded.
#[derive(Clone, Default)]
pub(crate) struct IndexMemory {
    /// NUMA nodes, each with how many bytes; none where the system does not say.
    pub(crate) nodes: Vec<(u32, u64)>,
    /// Bytes in huge pages, if known.
    pub(crate) huge_bytes: Option<u64>,
}

impl IndexMemory {
    pub(crate) fn of(index: &dyn Table, granted: Option<Granted>) -> Self {
        let huge = granted.and_then(|granted| granted.huge);
        Self {
            nodes: index.residence(),
            huge_bytes: huge.map(|bytes| bytes as u64),
        }
    }
}

impl Base {
    pub(crate) fn empty() -> Self {
        Self {
            blocks: Arc::new([]),
            rows: 0,
            index: None,
            coded: false,
            index_bytes: 0,
            index_memory: IndexMemory::default(),
        }
    }

    /// Cuts whole rows into blocks without copying a vector.
    pub(crate) fn cut(
        vectors: Arc<Vec<f32>>,
        dim: usize,
        ids: &[PointId],
        payloads: Vec<Payload>,
        versions: &[u64],
    ) -> Self {
        let rows = ids.len();
        let each = block_rows(dim);
        let mut payloads = payloads.into_iter();
        let blocks = (0..rows)
            .step_by(each)
            .map(|first| {
                let end = rows.min(first + each);
                Arc::new(Block {
                    vectors: Arc::clone(&vectors),
                    start: first * dim,
                    ids: ids[first..end].to_vec(),
                    payloads: payloads.by_ref().take(end - first).collect(),
                    versions: versions[first..end].to_vec(),
                    indexes: Indexes::default(),
                })
            })
            .collect();
        Self {
            blocks,
            rows,
            index: None,
            coded: false,
            index_bytes: 0,
            index_memory: IndexMemory::default(),
        }
    }

    /// Gives it an index over all of its rows; its answers are exact, also those of one that has `coded` them.
    pub(crate) fn set_index(&mut self, index: Arc<dyn Table>, coded: bool, metric: Metric) {
        self.index_bytes = index.size_bytes();
        self.coded = coded;
        self.index = Some(match self.blocks.first() {
            // The first block's vectors are those of all.
            Some(first) if coded => refined(index, Arc::clone(&first.vectors), metric),
            _ => index,
        });
    }
}

/// Everything a search may find, at one moment.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) dim: usize,
    pub(crate) metric: Metric,
    pub(crate) base: Base,
    pub(crate) delta: Vec<Arc<Block>>,
    pub(crate) dead: Arc<Dead>,
    /// Dead rows of the base.
    pub(crate) dead_in_base: usize,
    /// Points that are not dead.
    pub(crate) live: usize,
}

pub(crate) fn block_rows(dim: usize) -> usize {
    (BLOCK_BYTES / (dim * size_of::<f32>())).max(1)
}

impl View {
    pub(crate) fn new(dim: usize, metric: Metric) -> Self {
        Self {
            dim,
            metric,
            base: Base::empty(),
            delta: Vec::new(),
            dead: Arc::default(),
            dead_in_base: 0,
            live: 0,
        }
    }

    pub(crate) fn blocks(&self) -> usize {
        self.base.blocks.len() + self.delta.len()
    }

    pub(crate) fn block(&self, number: usize) -> &Block {
        match number.checked_sub(self.base.blocks.len()) {
            None => &self.base.blocks[number],
            Some(number) => &self.delta[number],
        }
    }

    /// The number of a block's first row.
    pub(crate) fn first_row(&self, block: usize) -> Row {
        // `Edit::push` refuses to go beyond.
        (block * block_rows(self.dim)) as Row
    }

    pub(crate) fn stored(&self, row: Row) -> Stored<'_> {
        let each = block_rows(self.dim) as Row;
        let (block, position) = (self.block((row / each) as usize), (row % each) as usize);
        Stored {
            id: block.ids[position],
            vector: block.vector(position, self.dim),
            payload: &block.payloads[position],
            version: block.versions[position],
        }
    }

    /// Every row that is not dead.
    pub(crate) fn live_rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.blocks())
            .flat_map(|block| {
                let first = self.first_row(block);
                first..first + self.block(block).len() as Row
            })
            .filter(|&row| !self.dead.contains(row))
    }

    /// Whether a block takes no more rows.
    pub(crate) fn is_closed(&self, block: usize) -> bool {
        block < self.base.blocks.len() || self.block(block).len() == block_rows(self.dim)
    }

    pub(crate) fn delta_rows(&self) -> usize {
        self.delta.iter().map(|block| block.len()).sum()
    }

    /// The first row number that no row of this view has.
    pub(crate) fn end(&self) -> Row {
        match self.delta.last() {
            Some(last) => self.first_row(self.blocks() - 1) + last.len() as Row,
            None => self.first_row(self.base.blocks.len()),
        }
    }

    pub(crate) fn edit(&self) -> Edit {
        Edit {
            view: self.clone(),
            tail: None,
            dead: None,
        }
    }
}

/// A view in the making. Blocks that the old view shares are copied before they grow.
pub(crate) struct Edit {
    view: View,
    /// The last delta block, taken out to grow.
    tail: Option<(Block, Vec<f32>)>,
    dead: Option<Dead>,
}

impl Edit {
    /// Appends a point and returns its row; `None` if no row number is left.
    pub(crate) fn push(
        &mut self,
        id: PointId,
        vector: &[f32],
        payload: Payload,
        version: u64,
    ) -> Option<Row> {
        let each = block_rows(self.view.dim);
        if self.tail.is_none() {
            let open = self.view.delta.last().is_some_and(|last| last.len() < each);
            self.tail = Some(match open.then(|| self.view.delta.pop()).flatten() {
                Some(last) => {
                    let vectors = last.vectors[last.start..][..last.len() * self.view.dim].to_vec();
                    (Block::clone(&last), vectors)
                }
                None => (Block::empty(), Vec::new()),
            });
        }
        let block_number = self.view.blocks();
        let (block, vectors) = self.tail.as_mut()?;
        let row = Row::try_from(block_number * each + block.len()).ok()?;
        vectors.extend_from_slice(vector);
        block.ids.push(id);
        block.payloads.push(payload);
        block.versions.push(version);
        self.view.live += 1;
        if block.len() == each {
            self.close_tail();
        }
        Some(row)
    }

    fn close_tail(&mut self) {
        if let Some((mut block, vectors)) = self.tail.take() {
            block.vectors = Arc::new(vectors);
            block.start = 0;
            self.view.delta.push(Arc::new(block));
        }
    }

    /// Marks a row dead.
    pub(crate) fn kill(&mut self, row: Row) {
        let dead = self
            .dead
            .get_or_insert_with(|| Dead::clone(&self.view.dead));
        if dead.insert(row) {
            self.view.live -= 1;
            let in_base = (row as usize) < self.view.base.blocks.len() * block_rows(self.view.dim);
            self.view.dead_in_base += usize::from(in_base);
        }
    }

    pub(crate) fn finish(mut self) -> View {
        self.close_tail();
        if let Some(dead) = self.dead {
            self.view.dead = Arc::new(dead);
        }
        self.view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(rows: u64) -> View {
        let mut edit = View::new(2, Metric::L2).edit();
        for id in 0..rows {
            let row = edit.push(PointId::Number(id), &[id as f32, 0.0], Arc::default(), id);
            assert_eq!(
                row,
                Some(id as Row),
                "the first block of the delta is block 0"
            );
        }
        edit.finish()
    }

    #[test]
    fn a_write_leaves_the_view_before_it_as_it_was() {
        let before = filled(3);
        let mut edit = before.edit();
        edit.kill(1);
        edit.kill(1);
        edit.push(PointId::Number(9), &[9.0, 0.0], Arc::default(), 9);
        let after = edit.finish();
        assert_eq!((before.live, after.live), (3, 3));
        assert_eq!(before.live_rows().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(after.live_rows().collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(after.stored(3).vector, [9.0, 0.0]);
        assert_eq!((before.end(), after.end()), (3, 4));
    }

    #[test]
    fn rows_keep_their_numbers_over_block_boundaries() {
        let rows = 2 * block_rows(2) as u64 + 5;
        let view = filled(rows);
        assert_eq!(view.delta.len(), 3);
        for row in [
            0,
            block_rows(2) as Row - 1,
            block_rows(2) as Row,
            rows as Row - 1,
        ] {
            assert_eq!(view.stored(row).id, PointId::Number(u64::from(row)));
            assert_eq!(view.stored(row).vector[0], row as f32);
        }
    }

    #[test]
    fn a_base_is_cut_without_gaps() {
        let rows = block_rows(1) + 7;
        let vectors: Vec<f32> = (0..rows).map(|x| x as f32).collect();
        let ids: Vec<PointId> = (0..rows as u64).map(PointId::Number).collect();
        let base = Base::cut(
            Arc::new(vectors),
            1,
            &ids,
            vec![Payload::default(); rows],
            &vec![0; rows],
        );
        let mut view = View::new(1, Metric::L2);
        view.base = base;
        view.live = rows;
        assert_eq!(view.live_rows().count(), rows);
        let last = view.stored(rows as Row - 1);
        assert_eq!(
            (last.id, last.vector[0]),
            (ids[rows - 1], (rows - 1) as f32)
        );
        // The delta begins at a block of its own.
        let mut edit = view.edit();
        let row = edit.push(PointId::Number(7), &[1.0], Payload::default(), 1);
        assert_eq!(row, Some(2 * block_rows(1) as Row));
        edit.kill(3);
        edit.kill(row.unwrap());
        let after = edit.finish();
        assert_eq!((after.dead_in_base, after.live), (1, rows - 1));
    }
}
