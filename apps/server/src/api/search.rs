//! Queries: from a message to the executor and back.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet::index::{MAX_NORM, normalized};
use chiplet::{Error, Filter, Neighbor, Query};
use qdrant_client::qdrant::query::Variant;
use qdrant_client::qdrant::vector_input::Variant as Input;
use qdrant_client::qdrant::{
    self, IdfParams, LookupLocation, QueryPoints, ReadConsistency, SearchParams, SearchPoints,
    SparseIndices, read_consistency,
};
use tonic::Status;

use super::Api;
use super::admission::Call;
use super::message::{Page, Parts, Points, point_id};
use super::quantization;
use super::refusal::{self, invalid, says, unless_absent, unless_sharded, unsupported};
use crate::collection::Collection;
use crate::collection::filter::Rows;
use crate::collection::point::PointId;
use crate::collection::rows::View;
use crate::collection::schema::Distance;
use crate::collection::table::{Ask, Spans};

/// Results when a query does not say how many, as the API has it.
const DEFAULT_LIMIT: u64 = 10;

/// How many times as many points the next search for a page asks for.
const WIDER: usize = 4;

/// A query, whichever call it came by.
pub(crate) struct Wanted {
    collection: String,
    near: Near,
    limit: u64,
    offset: u64,
    threshold: Option<f32>,
    params: SearchParams,
    filter: Option<qdrant::Filter>,
    parts: Arc<Parts>,
    timeout: Option<u64>,
}

/// What the results are to be near to.
enum Near {
    Vector(Vec<f32>),
    /// A stored point, which itself is no result.
    Point(PointId),
}

/// A query that has been handed to the scheduler.
struct Running<F> {
    answer: F,
    /// Asks for the nearest of them, as many as come first.
    query: Option<Query>,
    nearest: usize,
    collection: Arc<Collection>,
    deadline: Instant,
    view: Arc<View>,
    distance: Distance,
    wanted: Wanted,
    submitted: Instant,
}

impl Wanted {
    pub(crate) fn from_search(message: SearchPoints) -> Result<Self, Status> {
        unless_sharded(&message.shard_key_selector)?;
        unless_absent(&[
            (
                says(&message.sparse_indices, &SparseIndices::default()),
                "sparse vectors",
            ),
            (
                message.vector_name.is_some_and(|name| !name.is_empty()),
                "named vectors",
            ),
        ])?;
        consistency(message.read_consistency)?;
        Ok(Self {
            collection: message.collection_name,
            near: Near::Vector(message.vector),
            limit: message.limit,
            offset: message.offset.unwrap_or(0),
            threshold: threshold(message.score_threshold)?,
            params: parameters(message.params)?,
            filter: message.filter,
            parts: Arc::new(Parts::read(message.with_payload, message.with_vectors)?),
            timeout: message.timeout,
        })
    }

    pub(crate) fn from_query(message: QueryPoints) -> Result<Self, Status> {
        unless_sharded(&message.shard_key_selector)?;
        unless_absent(&[
            (!message.prefetch.is_empty(), "prefetch"),
            (
                message.using.is_some_and(|name| !name.is_empty()),
                "named vectors",
            ),
            (
                says(&message.lookup_from, &LookupLocation::default()),
                "lookup_from: vectors of another collection",
            ),
        ])?;
        consistency(message.read_consistency)?;
        Ok(Self {
            collection: message.collection_name,
            near: near(message.query)?,
            limit: message.limit.unwrap_or(DEFAULT_LIMIT),
            offset: message.offset.unwrap_or(0),
            threshold: threshold(message.score_threshold)?,
            params: parameters(message.params)?,
            filter: message.filter,
            parts: Arc::new(Parts::read(message.with_payload, message.with_vectors)?),
            timeout: message.timeout,
        })
    }

    pub(crate) fn collection(&self) -> &str {
        &self.collection
    }

    pub(crate) fn set_collection(&mut self, name: &str) {
        self.collection = name.to_owned();
    }
}

fn near(query: Option<qdrant::Query>) -> Result<Near, Status> {
    let Some(variant) = query.and_then(|query| query.variant) else {
        return Err(unsupported(
            "queries without a vector or id; scroll instead",
        ));
    };
    let input = match variant {
        Variant::Nearest(input) => input.variant,
        Variant::Recommend(_) => return Err(unsupported("recommendation queries")),
        Variant::Discover(_) => return Err(unsupported("discovery queries")),
        Variant::Context(_) => return Err(unsupported("context queries")),
        Variant::OrderBy(_) => return Err(unsupported("ordering by payload")),
        Variant::Fusion(_) | Variant::Rrf(_) => return Err(unsupported("fusion")),
        Variant::Sample(_) => return Err(unsupported("sampling")),
        Variant::Formula(_) => return Err(unsupported("score formulas")),
        Variant::NearestWithMmr(_) => return Err(unsupported("MMR")),
        Variant::RelevanceFeedback(_) => return Err(unsupported("relevance feedback")),
        Variant::Text(_) => return Err(unsupported("text queries")),
    };
    match input {
        Some(Input::Dense(dense)) => Ok(Near::Vector(dense.data)),
        Some(Input::Id(id)) => point_id(Some(id)).map(Near::Point),
        Some(Input::Sparse(_)) => Err(unsupported("sparse vectors")),
        Some(Input::MultiDense(_)) => Err(unsupported("multi-vectors")),
        Some(Input::Document(_) | Input::Image(_) | Input::Object(_)) => Err(unsupported(
            "inference (documents, images, objects); send the vector",
        )),
        None => Err(invalid("the query holds neither a vector nor an id")),
    }
}

/// Checks what a search says of how it is to be done; what it does not say is not so.
fn parameters(params: Option<SearchParams>) -> Result<SearchParams, Status> {
    let params = params.unwrap_or_default();
    let acorn = params.acorn.and_then(|acorn| acorn.enable);
    unless_absent(&[
        (acorn == Some(true), "ACORN (it is for filters)"),
        (says(&params.idf, &IdfParams::default()), "IDF"),
    ])?;
    if params.hnsw_ef == Some(0) {
        return Err(invalid("hnsw_ef is 0; give at least 1, or leave it out"));
    }
    Ok(params)
}

fn threshold(score: Option<f32>) -> Result<Option<f32>, Status> {
    match score {
        Some(score) if score.is_nan() => Err(invalid("score_threshold is NaN; leave it out")),
        score => Ok(score),
    }
}

/// There is one copy of everything, so every consistency holds that one copy can give.
pub(crate) fn consistency(read: Option<ReadConsistency>) -> Result<(), Status> {
    match read.and_then(|read| read.value) {
        Some(read_consistency::Value::Factor(copies)) if copies > 1 => {
            Err(unsupported("reading from several replicas"))
        }
        _ => Ok(()),
    }
}

impl Api {
    pub(crate) async fn search(&self, call: &Call, wanted: Wanted) -> Result<Points, Status> {
        let points = Points::new(self, call);
        self.submit(call, wanted, None)
            .await?
            .finish(self, points)
            .await
    }

    /// Runs a batch; it fails as a whole.
    pub(crate) async fn search_batch(
        &self,
        call: &Call,
        batch: Vec<Wanted>,
        timeout: Option<u64>,
    ) -> Result<Points, Status> {
        if batch.len() > self.limits.batch {
            return Err(refusal::too_many_queries(self.limits.batch));
        }
        // A few at a time, so that a batch does not fill the queue that it shares with others.
        let most = self.scheduler.batch_window();
        let mut waiting = batch.into_iter();
        let mut running = VecDeque::new();
        let mut answers = Vec::with_capacity(waiting.len());
        let mut points = Points::new(self, call);
        loop {
            while running.len() < most
                && let Some(wanted) = waiting.next()
            {
                running.push_back(self.submit(call, wanted, timeout).await?);
            }
            match running.pop_front() {
                Some(first) => {
                    points = first.finish(self, points).await?;
                    answers.push(points.next());
                }
                None => return Ok(points.batch(answers)),
            }
        }
    }

    async fn submit(
        &self,
        call: &Call,
        mut wanted: Wanted,
        timeout: Option<u64>,
    ) -> Result<Running<impl Future<Output = Result<Vec<Neighbor>, Error>> + Send + use<>>, Status>
    {
        let collection = self.find(&wanted.collection)?;
        let (distance, has_lists, coded) = collection.with_settings(|settings| {
            let index = &settings.index;
            (settings.distance, index.has_lists(), index.is_coded())
        });
        let results = self.results(&wanted)?;
        let exact = wanted.params.exact == Some(true);
        quantization::check_search(wanted.params.quantization, coded && !exact, results)?;
        let seconds = [wanted.timeout, timeout].into_iter().flatten().min();
        let deadline = self.deadline(call, seconds);
        let matching = match wanted.filter.take() {
            None => None,
            Some(filter) => Some(self.matching(&collection, filter, deadline).await?),
        };
        let (view, vector, own) = locate(&collection, &mut wanted.near, distance, &matching)?;
        // A page is in `results`, so it fits.
        let nearest = wanted.limit as usize + usize::from(own);
        let mut query = Query::new(vector).top(nearest);
        if let Some(ef) = wanted.params.hnsw_ef {
            query = query.ef(self.ef(ef, has_lists)?);
        }
        if let Some(nprobe) = call.nprobe {
            if !has_lists {
                return Err(invalid(
                    "chiplet-nprobe is for inverted lists, and this collection has none; leave it out",
                ));
            }
            query = query.nprobe(nprobe);
        }
        if let Some((_, rows)) = matching {
            query = query.filter(Filter::bitmap(rows.into_words()));
        }
        let indexed_only = wanted.params.indexed_only == Some(true);
        let ask = Ask {
            view: Arc::clone(&view),
            exact,
            indexed_only: indexed_only && collection.is_index_due(&view),
            spans: Spans::under(call.span.clone()),
        };
        let query = query.attach(Arc::new(ask));
        Ok(Running {
            query: (wanted.offset > 0).then(|| query.clone()),
            nearest,
            answer: self.scheduler.search(&collection.slot, query, deadline),
            collection,
            deadline,
            view,
            distance,
            wanted,
            submitted: Instant::now(),
        })
    }

    fn results(&self, wanted: &Wanted) -> Result<usize, Status> {
        if wanted.limit == 0 {
            return Err(invalid("limit is 0; ask for at least one result"));
        }
        let most = self.limits.results;
        wanted
            .limit
            .checked_add(wanted.offset)
            .and_then(|sum| usize::try_from(sum).ok())
            .filter(|&sum| sum <= most)
            .ok_or_else(|| {
                invalid(format!(
                    "limit {} and offset {} make more than {most} results (limits.results)",
                    wanted.limit, wanted.offset
                ))
            })
    }

    fn ef(&self, ef: u64, has_lists: bool) -> Result<usize, Status> {
        if has_lists {
            return Err(invalid(
                "hnsw_ef is for graphs and this collection has inverted lists; send the header chiplet-nprobe instead",
            ));
        }
        usize::try_from(ef)
            .ok()
            .filter(|&ef| ef <= self.limits.hnsw_ef)
            .ok_or_else(|| {
                let most = self.limits.hnsw_ef;
                invalid(format!("hnsw_ef is {ef}; at most {most} (limits.hnsw_ef)"))
            })
    }

    /// The earliest of the client's deadline, the message's timeout and the server's own.
    pub(crate) fn deadline(&self, call: &Call, seconds: Option<u64>) -> Instant {
        let most = self.limits.query_seconds;
        let seconds = seconds.map_or(most, |seconds| seconds.min(most));
        let own = call.received + Duration::from_secs(seconds);
        call.deadline.map_or(own, |deadline| deadline.min(own))
    }
}

/// The view to search and the vector to search it for, and whether that is a stored point's. The rows of a filter are
/// those of one view.
fn locate(
    collection: &Collection,
    near: &mut Near,
    distance: Distance,
    matching: &Option<(Arc<View>, Rows)>,
) -> Result<(Arc<View>, Vec<f32>, bool), Status> {
    let filtered = matching.as_ref().map(|(view, _)| Arc::clone(view));
    match near {
        Near::Vector(vector) => {
            let view = filtered.unwrap_or_else(|| collection.view());
            let vector = prepared(std::mem::take(vector), view.dim, distance)?;
            Ok((view, vector, false))
        }
        Near::Point(id) => {
            let (view, rows) = collection.find(&[*id]);
            let row = rows.first().ok_or_else(|| {
                Status::not_found(format!("there is no point {id} in the collection"))
            })?;
            let vector = view.stored(*row).vector.to_vec();
            Ok((filtered.unwrap_or(view), vector, true))
        }
    }
}

/// Checks a vector from outside and brings it into the form in which the collection compares.
pub(crate) fn prepared(
    vector: Vec<f32>,
    dim: usize,
    distance: Distance,
) -> Result<Vec<f32>, Status> {
    if vector.len() != dim {
        return Err(invalid(format!(
            "a vector of {} components; the collection's have {dim}",
            vector.len()
        )));
    }
    if let Some(position) = vector.iter().position(|x| !x.is_finite()) {
        return Err(invalid(format!(
            "component {position} of a vector is {}; every component must be finite",
            vector[position]
        )));
    }
    match distance {
        Distance::Cosine => Ok(normalized(&vector)),
        Distance::Dot | Distance::Euclid => {
            let squares = vector.iter().map(|&x| f64::from(x) * f64::from(x));
            let norm = squares.sum::<f64>().sqrt();
            if norm > MAX_NORM {
                return Err(invalid(format!(
                    "a vector's norm is {norm:e}; over {MAX_NORM:e} its distances overflow, scale it down"
                )));
            }
            Ok(vector)
        }
    }
}

impl<F: Future<Output = Result<Vec<Neighbor>, Error>> + Send> Running<F> {
    /// The points that were found, behind those that are there already.
    ///
    /// A wider search may find what a narrower one did not, at any place. So the pages of a query are cut from one
    /// list, which does not depend on the page: the nearest of a search for one page, behind them what a search for
    /// [`WIDER`] times as many finds besides, and so on. A page that is not the first costs all searches up to its own.
    async fn finish(self, api: &Api, points: Points) -> Result<Points, Status> {
        let (wanted, view) = (&self.wanted, &self.view);
        let own = match wanted.near {
            Near::Point(id) => Some(id),
            Near::Vector(_) => None,
        };
        let (offset, limit) = (wanted.offset as usize, wanted.limit as usize);
        let passes = |score| {
            let threshold = wanted.threshold;
            threshold.is_none_or(|threshold| self.distance.passes(score, threshold))
        };
        let mut hits = self.answer.await.map_err(|error| api.ended(error))?;
        let (mut rows, mut listed, mut nearest) = (Vec::new(), HashSet::new(), self.nearest);
        loop {
            // Rows are numbered in 32 bits.
            let scored = hits
                .iter()
                .map(|hit| (hit.id as u32, self.distance.score(hit.distance)));
            let ended = hits.len() < nearest || scored.clone().any(|(_, score)| !passes(score));
            rows.extend(scored.filter(|&(row, score)| {
                let is_own = own.is_some_and(|own| own == view.stored(row).id);
                !is_own && passes(score) && (offset == 0 || listed.insert(row))
            }));
            let most = api.limits.results + usize::from(own.is_some());
            let Some(query) = &self.query else { break };
            if ended || rows.len() >= offset + limit || nearest >= most {
                break;
            }
            nearest = nearest.saturating_mul(WIDER).min(most);
            let wider = query.clone().top(nearest);
            let slot = &self.collection.slot;
            let answer = api.scheduler.search(slot, wider, self.deadline);
            hits = answer.await.map_err(|error| api.ended(error))?;
        }
        api.pace.answered(self.submitted.elapsed());
        let page = Page {
            rows: rows.into_iter().skip(offset).take(limit).collect(),
            parts: Arc::clone(&wanted.parts),
            view: self.view,
        };
        api.copy(&self.collection, self.deadline, page, points, Parts::scored)
            .await
    }
}
