use std::sync::atomic::{AtomicUsize, Ordering};

use chiplet::index::{HnswConfig, HnswTable, Metric};

use super::super::point::{Payload, PointId};
use super::super::rows::{Base, Row};
use super::*;

/// A graph that counts how often it is walked, and the most that it is asked for.
struct Watched {
    graph: HnswTable,
    walks: AtomicUsize,
    widest: AtomicUsize,
}

impl Table for Watched {
    fn dim(&self) -> usize {
        self.graph.dim()
    }

    fn len(&self) -> usize {
        self.graph.len()
    }

    fn size_bytes(&self) -> u64 {
        self.graph.size_bytes()
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        self.walks.fetch_add(1, Ordering::Relaxed);
        self.widest.fetch_max(query.k(), Ordering::Relaxed);
        self.graph.search(query, context)
    }
}

/// Points 0, 1, 2, .. on a line, and a graph over them.
fn on_a_line(rows: usize) -> (View, Arc<Watched>) {
    let vectors: Vec<f32> = (0..rows).map(|x| x as f32).collect();
    let ids: Vec<PointId> = (0..rows as u64).map(PointId::Number).collect();
    let graph = HnswTable::build(&vectors, 1, &HnswConfig::new(Metric::L2)).unwrap();
    let watched = Arc::new(Watched {
        graph,
        walks: AtomicUsize::new(0),
        widest: AtomicUsize::new(0),
    });
    let payloads = vec![Payload::default(); rows];
    let mut view = View::new(1, Metric::L2);
    view.base = Base::cut(Arc::new(vectors), 1, &ids, payloads, &vec![0; rows]);
    view.base.index = Some(Arc::<Watched>::clone(&watched));
    view.live = rows;
    (view, watched)
}

fn search(view: View, at: f32, k: usize) -> Vec<u64> {
    ask(view, at, k, false)
}

fn ask(view: View, at: f32, k: usize, indexed_only: bool) -> Vec<u64> {
    let ask = Ask {
        view: Arc::new(view),
        exact: false,
        indexed_only,
        spans: Spans::under(Span::none()),
    };
    let table = CollectionTable { dim: 1 };
    let query = Query::new([at]).top(k).attach(Arc::new(ask));
    let found = table.search(&query, &mut Context::default()).unwrap();
    found.iter().map(|hit| hit.id).collect()
}

#[test]
fn beside_many_dead_rows_a_graph_is_walked_only_so_far() {
    const ROWS: usize = 4_000;
    const K: usize = 10;
    let (view, graph) = on_a_line(ROWS);
    // Fewer than call for a new index, and one beside the other.
    let dead = 1_000..1_700;
    let mut edit = view.edit();
    dead.clone().for_each(|row: Row| edit.kill(row));
    let found = search(edit.finish(), 1_349.4, K);
    assert_eq!(
        found,
        [999, 1_700, 998, 1_701, 997, 1_702, 996, 1_703, 995, 1_704]
    );
    let widest = graph.widest.load(Ordering::Relaxed);
    assert!(widest <= widest_walk(ROWS, K), "{widest} asked for");
    assert!(graph.walks.load(Ordering::Relaxed) <= 5);
}

#[test]
fn beside_a_few_dead_rows_a_graph_is_enough() {
    let (view, graph) = on_a_line(1_000);
    let mut edit = view.edit();
    (500..520).for_each(|row| edit.kill(row));
    let found = search(edit.finish(), 509.6, 3);
    assert_eq!(found, [520, 499, 521]);
    // 19, then 38: without the scan of all rows that more dead ones would bring.
    assert_eq!(graph.walks.load(Ordering::Relaxed), 2);
}

#[test]
fn what_the_index_does_not_have_is_left_out_if_only_that_is_asked_for() {
    let (view, _) = on_a_line(1_000);
    let mut edit = view.edit();
    let row = edit.push(PointId::Number(5_000), &[5.5], Payload::default(), 1);
    let mut view = edit.finish();
    assert_eq!(ask(view.clone(), 5.6, 2, false), [row.unwrap().into(), 6]);
    assert_eq!(ask(view.clone(), 5.6, 2, true), [6, 5]);
    view.base.index = None;
    assert!(ask(view, 5.6, 2, true).is_empty());
}

#[test]
fn a_walk_may_be_as_wide_as_a_small_part_of_the_rows() {
    assert_eq!(widest_walk(1_000_000, 10), 31_250);
    assert_eq!(widest_walk(1_000, 10), 256);
    assert_eq!(widest_walk(1_000, 100), 1_600);
    assert_eq!(widest_walk(0, usize::MAX), usize::MAX);
}

/// 20,000 points in clumps, in 256 lists of which a query visits 16; a filter lets through what is beyond a bound of
/// the first component, so that what it lets through is in one place, and queries come from all places.
#[cfg(feature = "ivf")]
#[test]
fn a_filter_of_an_index_of_lists_is_never_short() {
    use chiplet::index::{IvfConfig, IvfTable};
    const ROWS: usize = 20_000;
    const DIM: usize = 16;
    const K: usize = 10;
    let mut state = 7_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let clumps: Vec<f32> = (0..200 * DIM).map(|_| 10.0 * random()).collect();
    let vectors: Vec<f32> = (0..ROWS * DIM)
        .map(|i| clumps[i / DIM % 200 * DIM + i % DIM] + random())
        .collect();
    let config = IvfConfig::new(Metric::L2).nprobe(16);
    let index = IvfTable::build(&vectors, DIM, "IVF256,Flat", &config).unwrap();
    let ids: Vec<PointId> = (0..ROWS as u64).map(PointId::Number).collect();
    let mut view = View::new(DIM, Metric::L2);
    let payloads = vec![Payload::default(); ROWS];
    view.base = Base::cut(Arc::new(vectors.clone()), DIM, &ids, payloads, &[0; ROWS]);
    view.base.index = Some(Arc::new(index));
    view.live = ROWS;
    let view = Arc::new(view);
    let mut by_place: Vec<u64> = (0..ROWS as u64).collect();
    by_place.sort_by(|&a, &b| vectors[a as usize * DIM].total_cmp(&vectors[b as usize * DIM]));
    for matches in [1, 4, 28, 500, 6_000, 10_000] {
        let filter = Filter::ids(by_place[..matches].iter().copied());
        let (mut right, mut all) = (0, 0);
        for query in 0..40 {
            let at = &vectors[query * 487 * DIM..][..DIM];
            let ask = |exact| {
                let ask = Ask {
                    view: Arc::clone(&view),
                    exact,
                    indexed_only: false,
                    spans: Spans::under(Span::none()),
                };
                let query = Query::new(at).top(K).filter(filter.clone());
                let query = query.attach(Arc::new(ask));
                let table = CollectionTable { dim: DIM };
                table.search(&query, &mut Context::default()).unwrap()
            };
            let (found, truth) = (ask(false), ask(true));
            assert_eq!(found.len(), matches.min(K), "of {matches}");
            all += truth.len();
            let is_found = |hit: &&Neighbor| found.iter().any(|other| other.id == hit.id);
            right += truth.iter().filter(is_found).count();
        }
        assert!(right * 100 >= all * 95, "{matches}: {right} of {all}");
    }
}

/// 2,000 rows in 16 lists of 8-bit codes, whose distances are off; 300 newer rows outside the index, and dead ones
/// among the nearest of each query.
#[cfg(feature = "ivf")]
#[test]
fn lists_of_codes_answer_exactly_however_they_are_cut() {
    use chiplet::index::{IvfConfig, IvfTable};
    const ROWS: usize = 2_000;
    const DIM: usize = 16;
    const K: usize = 10;
    let mut state = 7_u64;
    let mut vectors = |rows: usize| -> Vec<f32> {
        let random = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        (0..rows * DIM).map(random).collect()
    };
    let (base, newer, queries) = (vectors(ROWS), vectors(300), vectors(20));
    let config = IvfConfig::new(Metric::L2).nprobe(16);
    let index = IvfTable::build(&base, DIM, "IVF16,SQ8", &config).unwrap();
    let codes = index.size_bytes();
    let mut view = View::new(DIM, Metric::L2);
    let ids: Vec<PointId> = (0..ROWS as u64).map(PointId::Number).collect();
    let payloads = vec![Payload::default(); ROWS];
    view.base = Base::cut(Arc::new(base), DIM, &ids, payloads, &[0; ROWS]);
    view.base.set_index(Arc::new(index), true, Metric::L2);
    view.live = ROWS;
    // The rows are counted with the points.
    let index = view.base.index.as_ref().unwrap();
    assert_eq!([view.base.index_bytes, index.size_bytes()], [codes; 2]);
    let mut edit = view.edit();
    for (id, vector) in (ROWS as u64..).zip(newer.chunks_exact(DIM)) {
        edit.push(PointId::Number(id), vector, Payload::default(), 1)
            .unwrap();
    }
    view = edit.finish();
    let table = CollectionTable { dim: DIM };
    let query = |view: &View, at: &[f32], exact| {
        let ask = Ask {
            view: Arc::new(view.clone()),
            exact,
            indexed_only: false,
            spans: Spans::under(Span::none()),
        };
        Query::new(at).top(K).attach(Arc::new(ask))
    };
    let search = |query: &Query| table.search(query, &mut Context::default()).unwrap();
    let mut edit = view.edit();
    for at in queries.chunks_exact(DIM) {
        let near = search(&query(&view, at, true).top(200));
        near.iter()
            .step_by(2)
            .for_each(|hit| edit.kill(hit.id as Row));
    }
    let view = edit.finish();
    assert!(view.dead_in_base > 500);
    for at in queries.chunks_exact(DIM) {
        let truth = search(&query(&view, at, true));
        let query = query(&view, at, false);
        assert_eq!(search(&query), truth);
        let context = &mut Context::default();
        let probes = table.coarse(&query, context).unwrap();
        for each in [1, 3, 16, probes.len() - 1] {
            let units = (0..probes.len()).step_by(each);
            let units = units.map(|start| start..probes.len().min(start + each));
            let scan = |unit| {
                table
                    .scan(&query, &probes, unit, &mut Context::default())
                    .unwrap()
            };
            let found = table.merge(&query, units.map(scan).collect(), context);
            assert_eq!(found.unwrap(), truth, "cut to {each}");
        }
    }
}
