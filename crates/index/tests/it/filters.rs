//! Filters and radii: the answers of an exact search over the allowed rows, or nearly so.

use crate::common::{clustered, mapped, unsplit};
use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, RowFormat};
use chiplet_table::{Filter, Neighbor, Query, Table};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const DIM: usize = 16;
const ROWS: usize = 4000;

fn queries(k: usize) -> Vec<Query> {
    clustered(ROWS + 60, DIM, 8)[ROWS * DIM..]
        .chunks_exact(DIM)
        .map(|vector| Query::new(vector).top(k).ef(64))
        .collect()
}

/// The `k` nearest of all rows that `allowed` lets through and within `radius`, by plain arithmetic over all rows.
fn exact(
    rows: &[f32],
    metric: Metric,
    query: &Query,
    radius: f32,
    allowed: impl Fn(u64) -> bool,
) -> Vec<Neighbor> {
    let mut hits: Vec<Neighbor> = rows
        .chunks_exact(DIM)
        .zip(0..)
        .filter(|&(_, id)| allowed(id))
        .map(|(row, id)| Neighbor {
            id,
            distance: metric.distance(query.vector(), row),
        })
        .filter(|hit| hit.distance <= radius)
        .collect();
    hits.sort();
    hits.truncate(query.k());
    hits
}

/// Filters that let about `1 / one_in` of the rows through: as a bitmap, as sparse ids, as a predicate.
fn filters(one_in: u64) -> [Filter; 3] {
    let chosen =
        move |id: u64| id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & 0xFFFF < 0x1_0000 / one_in;
    let ids = || (0..ROWS as u64).filter(move |&id| chosen(id));
    [
        Filter::ids(ids()),
        Filter::ids(ids().chain([u64::MAX])),
        Filter::matching(chosen),
    ]
}

#[test]
fn a_flat_table_answers_exactly() {
    let rows = clustered(ROWS, DIM, 8);
    let table = FlatTable::build(rows.clone(), DIM, Metric::L2).unwrap();
    for filter in [1, 2, 10, 100, 10_000].into_iter().flat_map(filters) {
        for query in queries(10).into_iter().take(10) {
            let unbounded = exact(&rows, Metric::L2, &query, f32::MAX, |id| filter.allows(id));
            let query = query.filter(filter.clone());
            assert_eq!(unsplit(&table, &query), unbounded);
            // Half of them are within the distance of the fifth.
            let radius = unbounded.get(4).map_or(1.0, |hit| hit.distance);
            let expected = exact(&rows, Metric::L2, &query, radius, |id| filter.allows(id));
            assert_eq!(unsplit(&table, &query.radius(radius)), expected);
        }
    }
}

#[test]
fn filtered_graphs_keep_their_recall_at_every_share() {
    let rows = clustered(ROWS, DIM, 8);
    for config in [
        HnswConfig::new(Metric::L2),
        HnswConfig::new(Metric::L2)
            .rows(RowFormat::Sq8)
            .rerank(RowFormat::F32),
        HnswConfig::new(Metric::L2)
            .rows(RowFormat::Sq4)
            .rerank(RowFormat::F32),
    ] {
        let table = HnswTable::build(&rows, DIM, &config).unwrap();
        for one_in in [2, 10, 100, 1_000] {
            for filter in filters(one_in) {
                let (mut found, mut wanted) = (0, 0);
                for query in queries(10) {
                    let truth = exact(&rows, Metric::L2, &query, f32::MAX, |id| filter.allows(id));
                    let hits = unsplit(&table, &query.filter(filter.clone()));
                    assert!(hits.iter().all(|hit| filter.allows(hit.id)));
                    assert_eq!(hits.len(), truth.len(), "as many as there are, up to k");
                    wanted += truth.len();
                    found += truth.iter().filter(|hit| hits.contains(hit)).count();
                }
                let recall = found as f64 / wanted as f64;
                assert!(recall >= 0.97, "one in {one_in}, {filter:?}: {recall}");
            }
        }
    }
}

/// Half, a tenth and a hundredth of the rows, the half of shorter rows, and no filter.
fn shares(rows: &[f32], dim: usize) -> [(&'static str, Filter); 5] {
    let norms: Vec<f64> = rows.chunks_exact(dim).map(norm).collect();
    let mut sorted = norms.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let median = sorted[norms.len() / 2];
    let one_in = |share: u64| {
        Filter::matching(move |id| {
            id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33 & 0xFFFF < 0x1_0000 / share
        })
    };
    [
        ("all", Filter::matching(|_| true)),
        ("half", one_in(2)),
        ("a tenth", one_in(10)),
        ("a hundredth", one_in(100)),
        (
            "the shorter half",
            Filter::matching(move |id| norms[id as usize] < median),
        ),
    ]
}

fn norm(row: &[f32]) -> f64 {
    row.iter()
        .map(|&x| f64::from(x) * f64::from(x))
        .sum::<f64>()
        .sqrt()
}

/// Normally distributed, by Box and Muller.
fn normal(random: &mut StdRng) -> f32 {
    let (u, v): (f32, f32) = (1.0 - random.random::<f32>(), random.random());
    (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
}

/// Rows that the inner product leaves without links: of clusters, and of all directions in very different lengths.
fn uneven(name: &str, rows: usize, dim: usize) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(5);
    if name == "clusters" {
        let centres: Vec<f32> = (0..100 * dim).map(|_| normal(&mut random)).collect();
        return (0..rows)
            .flat_map(|row| {
                let centre = &centres[row % 100 * dim..][..dim];
                centre
                    .iter()
                    .map(|x| x + 0.3 * normal(&mut random))
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    (0..rows)
        .flat_map(|_| {
            let length = normal(&mut random).exp();
            (0..dim)
                .map(|_| length * normal(&mut random))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_filter_costs_no_recall_of_inner_products() {
    const K: usize = 10;
    for (name, count, dim) in [("clusters", 20_000, 32), ("lengths", 8_000, 96)] {
        let all = uneven(name, count + 40, dim);
        let (rows, queries) = all.split_at(count * dim);
        let config = HnswConfig::new(Metric::InnerProduct);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let built = HnswTable::build(rows, dim, &config).unwrap();
        built.save(&path).unwrap();
        let table = mapped::hnsw(&path).unwrap();
        let truth = FlatTable::build(rows, dim, Metric::InnerProduct).unwrap();
        let mut unfiltered = 0.0;
        for (share, filter) in shares(rows, dim) {
            let mut found = 0;
            for vector in queries.chunks_exact(dim) {
                let query = Query::new(vector).top(K).ef(64).filter(filter.clone());
                let wanted = unsplit(&truth, &query);
                let hits = unsplit(&table, &query);
                found += wanted.iter().filter(|hit| hits.contains(hit)).count();
            }
            let recall = found as f64 / (K * queries.len() / dim) as f64;
            if share == "all" {
                unfiltered = recall;
            }
            assert!(
                recall >= 0.97 * unfiltered,
                "{name}, {share}: {recall}, unfiltered {unfiltered}"
            );
        }
    }
}

#[test]
fn most_of_the_rows_are_found_by_a_scan() {
    // Of these a walk does not come to all.
    const ROWS: usize = 4_000;
    let dim = 96;
    let all = uneven("lengths", ROWS + 5, dim);
    let (rows, queries) = all.split_at(ROWS * dim);
    let table = HnswTable::build(rows, dim, &HnswConfig::new(Metric::InnerProduct)).unwrap();
    let truth = FlatTable::build(rows, dim, Metric::InnerProduct).unwrap();
    for vector in queries.chunks_exact(dim) {
        let query = Query::new(vector).top(ROWS / 2);
        assert_eq!(unsplit(&table, &query), unsplit(&truth, &query));
    }
}

#[test]
fn allowed_rows_far_from_the_query_are_found() {
    // Two heaps far apart: the query is in one, all allowed rows are in the other.
    let mut rows = clustered(ROWS, DIM, 8);
    for row in rows.chunks_exact_mut(DIM).step_by(2) {
        row.iter_mut().for_each(|x| *x += 100.0);
    }
    let table = HnswTable::build(&rows, DIM, &HnswConfig::new(Metric::L2)).unwrap();
    let even = Filter::matching(|id| id % 2 == 0);
    for query in queries(10).into_iter().take(20) {
        let truth = exact(&rows, Metric::L2, &query, f32::MAX, |id| id % 2 == 0);
        let hits = unsplit(&table, &query.filter(even.clone()));
        let same = truth.iter().filter(|hit| hits.contains(hit)).count();
        assert!(same >= 8, "{same} of 10");
    }
}

#[test]
fn a_radius_leaves_out_what_is_beyond_it() {
    let rows = clustered(ROWS, DIM, 8);
    for metric in [Metric::L2, Metric::InnerProduct] {
        let table = HnswTable::build(&rows, DIM, &HnswConfig::new(metric)).unwrap();
        for query in queries(10) {
            let all = unsplit(&table, &query);
            let radius = all[4].distance;
            let near = unsplit(&table, &query.clone().radius(radius));
            assert_eq!(near, all[..near.len()]);
            assert!(near.len() >= 5 && near.iter().all(|hit| hit.distance <= radius));
            assert!(unsplit(&table, &query.radius(f32::NEG_INFINITY)).is_empty());
        }
    }
    let table = FlatTable::build(rows, DIM, Metric::L2).unwrap();
    assert_eq!(table.len(), ROWS);
}

#[test]
fn a_filter_that_searches_the_same_table_is_answered() {
    use std::sync::Arc;
    let table = Arc::new(
        HnswTable::build(&clustered(ROWS, DIM, 8), DIM, &HnswConfig::new(Metric::L2)).unwrap(),
    );
    let inner = Arc::clone(&table);
    let probe = queries(1).remove(0);
    let nearest = unsplit(&*table, &probe)[0].id;
    let again = probe.clone();
    let only_nearest =
        Filter::matching(move |id| id == unsplit(&*inner, &again.clone().top(1).ef(64))[0].id);
    let hits = unsplit(&*table, &probe.filter(only_nearest));
    assert_eq!(hits[0].id, nearest);
}

#[test]
fn what_is_said_of_a_predicate_chooses_between_walk_and_scan_and_not_what_is_found() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let rows = clustered(ROWS, DIM, 8);
    let table = HnswTable::build(&rows, DIM, &HnswConfig::new(Metric::L2)).unwrap();
    let even = |id: u64| id.is_multiple_of(2);
    for query in queries(10).into_iter().take(10) {
        // So few candidates that a walk to half of the rows is the cheaper way.
        let query = query.ef(16);
        let truth = exact(&rows, Metric::L2, &query, f32::MAX, even);
        let mut asked = Vec::new();
        // A walk comes to few of the rows, a scan asks of each.
        for about in [ROWS as u64 / 2, 3] {
            let calls = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&calls);
            let filter = Filter::matching_about(about, move |id| {
                counted.fetch_add(1, Ordering::Relaxed);
                even(id)
            });
            let hits = unsplit(&table, &query.clone().filter(filter));
            let same = truth.iter().filter(|hit| hits.contains(hit)).count();
            assert!(same >= 7, "{same} of 10");
            asked.push(calls.load(Ordering::Relaxed));
        }
        assert!(asked[0] < ROWS && asked[1] >= ROWS, "{asked:?}");
    }
}

#[test]
fn ids_of_other_tables_in_a_set_cost_nothing() {
    let rows = clustered(ROWS, DIM, 8);
    let table = HnswTable::build(&rows, DIM, &HnswConfig::new(Metric::L2)).unwrap();
    for own in [1, 40, 400] {
        let ids = || (0..own).map(|n| n * (ROWS as u64 / own));
        let foreign = ids().chain(1_000_000..1_000_000 + 4 * ROWS as u64);
        let (alone, shared) = (Filter::ids(ids()), Filter::ids(foreign));
        let (mut few, mut many) = (0, 0);
        for query in queries(10) {
            let mut contexts = [(); 2].map(|()| chiplet_table::Context::default());
            let [first, second] = &mut contexts;
            let wanted = table
                .search(&query.clone().filter(alone.clone()), first)
                .unwrap();
            let found = table.search(&query.filter(shared.clone()), second).unwrap();
            assert_eq!(found, wanted, "{own} ids");
            few += first.bytes();
            many += second.bytes();
        }
        assert!(
            many <= 2 * few,
            "{own} ids: {many} bytes are read instead of {few}"
        );
    }
}
