//! A ranking model as one [`Table`]: what a recommendation service does with a request, in one task at the table's
//! home.
//!
//! | stage | does | bound by |
//! |---|---|---|
//! | 1 | asks a search for candidates, 500 of them | memory |
//! | 2 | copies their features from [`KeyedRows`] | memory |
//! | 3 | scores them all by a [`Network`] of three layers | arithmetic |
//!
//! The three stages are those of NetEase's online estimation system: feature query, feature extraction, inference.
//! Stages of one request on three thread pools would carry its candidates from cache to cache; in one task they stay
//! where the search left them.

mod network;

use std::sync::Arc;

use chiplet_index::{BuildError, KeyedRows};
use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
use ndarray::{Array2, s};

pub use network::{Network, WIDTHS};

/// Candidates of a request, unless told otherwise.
pub const CANDIDATES: usize = 500;

/// A table that answers with the best of another one's candidates, by a network's score.
///
/// Ids are those of the inner table. [`Neighbor::distance`] is the score with its sign turned, so that the best is
/// first. A filter, a radius, `ef` and `nprobe` are the inner table's. Candidates without features are left out.
///
/// ```
/// use chiplet_index::{FlatTable, KeyedRows, Metric};
/// use chiplet_ranking::{Network, Ranking};
/// use chiplet_table::{Context, Query, Table};
///
/// let songs = FlatTable::build(&[0.0, 0.0, 1.0, 0.0, 9.0, 9.0], 2, Metric::L2)?;
/// let plays = [3.0_f32, 8.0, 1.0].map(f32::to_le_bytes);
/// let features = KeyedRows::build(&[0, 1, 2], 4, |i| &plays[i])?;
/// // The vector's two components, the distance, and one feature.
/// let network = Network::random(4, 7);
/// let ranking = Ranking::new(songs, features, network)?.candidates(2);
/// let best = ranking.search(&Query::new([0.0, 0.0]).top(1), &mut Context::default())?;
/// assert!(best[0].id < 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ranking<T> {
    inner: T,
    features: Arc<KeyedRows>,
    network: Arc<Network>,
    candidates: usize,
}

impl<T: Table> Ranking<T> {
    /// Ranks what `inner` finds. A value of `features` is so many little-endian `f32`s, under the id of its row. The
    /// network's inputs are the query's vector, the candidate's distance, and its features.
    ///
    /// # Errors
    /// [`BuildError::Setting`] if a value is not made of `f32`s, or the network takes another number of inputs.
    pub fn new(inner: T, features: KeyedRows, network: Network) -> Result<Self, BuildError> {
        let bytes = features.value_bytes();
        if !bytes.is_multiple_of(size_of::<f32>()) {
            return Err(BuildError::Setting {
                setting: "the length of a value of the features, in bytes",
                value: bytes.to_string(),
                accepted: "a multiple of 4",
            });
        }
        if network.inputs() != inputs(inner.dim(), bytes) {
            return Err(BuildError::Setting {
                setting: "the inputs of the network",
                value: network.inputs().to_string(),
                accepted: "the components of a vector, 1 for the distance, and the features",
            });
        }
        Ok(Self {
            inner,
            features: Arc::new(features),
            network: Arc::new(network),
            candidates: CANDIDATES,
        })
    }

    /// So many candidates are scored instead of 500; at least as many as are wanted.
    #[must_use]
    pub fn candidates(mut self, count: usize) -> Self {
        self.candidates = count;
        self
    }

    fn asked(&self, query: &Query) -> Query {
        let count = self.candidates.max(query.k());
        let ef = query.requested_ef().unwrap_or(count).max(count);
        query.clone().top(count).ef(ef)
    }

    /// A row for each candidate that has features, and the candidates of those rows.
    fn inputs(&self, query: &Query, found: &[Neighbor]) -> (Array2<f32>, Vec<u64>) {
        let keys: Vec<u64> = found.iter().map(|hit| hit.id).collect();
        let mut values = vec![0; keys.len() * self.features.value_bytes()];
        let mut has = vec![false; keys.len()];
        let count = self.features.get_many(&keys, &mut values, &mut has);
        let dim = query.vector().len();
        let mut inputs = Array2::zeros((count, self.network.inputs()));
        inputs
            .slice_mut(s![.., ..dim])
            .assign(&ndarray::aview1(query.vector()));
        let values = values.chunks_exact(self.features.value_bytes().max(1));
        let values = values.map(Some).chain(std::iter::repeat(None));
        let present = found.iter().zip(values).zip(has).filter(|(_, has)| *has);
        let mut ids = Vec::with_capacity(count);
        for (mut row, ((hit, value), _)) in inputs.rows_mut().into_iter().zip(present) {
            row[dim] = hit.distance;
            let (floats, _) = value.unwrap_or_default().as_chunks();
            for (input, bytes) in row.iter_mut().skip(dim + 1).zip(floats) {
                *input = f32::from_le_bytes(*bytes);
            }
            ids.push(hit.id);
        }
        (inputs, ids)
    }
}

/// Inputs of a network for vectors of `dim` components and values of so many bytes.
#[must_use]
pub fn inputs(dim: usize, value_bytes: usize) -> usize {
    dim + 1 + value_bytes / size_of::<f32>()
}

impl<T: Table> Table for Ranking<T> {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    /// The inner table and the features.
    fn size_bytes(&self) -> u64 {
        self.inner
            .size_bytes()
            .saturating_add(self.features.size_bytes())
    }

    /// The inner table's.
    fn residence(&self) -> Vec<(u32, u64)> {
        self.inner.residence()
    }

    /// Of the inner table. The features stay where they are: a request reads little of them.
    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        let copy = self.inner.copy_to(nodes, pace)?;
        Ok(copy.map(|inner| {
            Box::new(Ranking {
                inner,
                features: Arc::clone(&self.features),
                network: Arc::clone(&self.network),
                candidates: self.candidates,
            }) as Box<dyn Table>
        }))
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        let found = self.inner.search(&self.asked(query), context)?;
        context.check()?;
        let (inputs, ids) = self.inputs(query, &found);
        context.add_bytes((ids.len() * self.features.value_bytes()) as u64);
        context.check()?;
        let scores = self.network.scores(inputs);
        let mut ranked: Vec<Neighbor> = ids
            .into_iter()
            .zip(scores)
            .map(|(id, score)| Neighbor {
                id,
                distance: -score,
            })
            .collect();
        ranked.sort_unstable();
        ranked.truncate(query.k());
        Ok(ranked)
    }
}
