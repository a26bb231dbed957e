//! The three stages against the same done by hand.

use chiplet_executor::Executor;
use chiplet_index::{FlatTable, KeyedRows, Metric};
use chiplet_ranking::{Network, Ranking, inputs};
use chiplet_table::{Context, Filter, Neighbor, Query, SearchError, Table};
use ndarray::Array2;

const DIM: usize = 3;
const ROWS: usize = 60;

fn vectors() -> Vec<f32> {
    (0..ROWS * DIM).map(|i| (i * 37 % 101) as f32).collect()
}

fn feature(row: usize) -> [u8; 8] {
    let [a, b] = [row as f32 * 0.1, 4.0 - row as f32].map(f32::to_le_bytes);
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

fn network() -> Network {
    Network::random(inputs(DIM, 8), 5)
}

/// Features of all rows but each seventh.
fn features() -> KeyedRows {
    let rows: Vec<usize> = (0..ROWS).filter(|row| row % 7 != 0).collect();
    let keys: Vec<u64> = rows.iter().map(|&row| row as u64).collect();
    let values: Vec<[u8; 8]> = rows.iter().map(|&row| feature(row)).collect();
    KeyedRows::build(&keys, 8, |i| &values[i]).unwrap()
}

fn table() -> FlatTable {
    FlatTable::build(vectors(), DIM, Metric::L2).unwrap()
}

fn ranking(candidates: usize) -> Ranking<FlatTable> {
    let ranking = Ranking::new(table(), features(), network()).unwrap();
    ranking.candidates(candidates)
}

fn by_hand(query: &Query, candidates: usize) -> Vec<Neighbor> {
    let asked = query.clone().top(candidates);
    let found = table().search(&asked, &mut Context::default()).unwrap();
    let mut ranked: Vec<Neighbor> = found
        .iter()
        .filter(|hit| hit.id % 7 != 0)
        .map(|hit| {
            let [a, b] = [hit.id as f32 * 0.1, 4.0 - hit.id as f32];
            let row = [query.vector(), &[hit.distance, a, b]].concat();
            let inputs = Array2::from_shape_vec((1, row.len()), row).unwrap();
            Neighbor {
                id: hit.id,
                distance: -network().scores(inputs)[0],
            }
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(query.k());
    ranked
}

fn same(one: &[Neighbor], other: &[Neighbor]) {
    let ids = |hits: &[Neighbor]| hits.iter().map(|hit| hit.id).collect::<Vec<_>>();
    assert_eq!(ids(one), ids(other));
    for (a, b) in one.iter().zip(other) {
        // A matrix of many rows is multiplied in another order than one row.
        assert!((a.distance - b.distance).abs() <= 1e-3 * a.distance.abs().max(1.0));
    }
}

#[test]
fn candidates_are_ranked_by_the_networks_score_and_those_without_features_left_out() {
    let executor = Executor::builder().build().unwrap();
    let table = executor.add_table("ranking", ranking(20));
    for row in [0, 9, 33] {
        let query = Query::new(&vectors()[row * DIM..][..DIM]).top(5);
        let answer = executor.search(table, query.clone()).wait().unwrap();
        assert_eq!(answer.len(), 5);
        same(&answer, &by_hand(&query, 20));
    }
}

#[test]
fn more_are_candidates_if_more_are_wanted_and_fewer_answers_if_there_are_no_more() {
    let query = Query::new([5.0, 5.0, 5.0]).top(30);
    let ranking = ranking(10);
    let answer = ranking.search(&query, &mut Context::default()).unwrap();
    same(&answer, &by_hand(&query, 30));
    let all = ranking
        .search(&query.top(ROWS + 9), &mut Context::default())
        .unwrap();
    assert_eq!(all.len(), (0..ROWS).filter(|row| row % 7 != 0).count());
}

#[test]
fn a_filter_is_the_searchs_and_an_empty_answer_is_one() {
    let query = Query::new([1.0, 2.0, 3.0]).top(9);
    let filtered = query.clone().filter(Filter::ids([7, 8, 14, 16]));
    let answer = ranking(20)
        .search(&filtered, &mut Context::default())
        .unwrap();
    let mut ids: Vec<u64> = answer.iter().map(|hit| hit.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [8, 16]);
    let nobody = query.filter(Filter::ids([7]));
    let answer = ranking(20).search(&nobody, &mut Context::default());
    assert_eq!(answer.unwrap(), []);
}

#[test]
fn a_copy_near_another_home_ranks_alike() {
    let ranking = ranking(20);
    let copy = ranking.copy_to(&[0], &mut |_| true).unwrap();
    let copy = copy.expect("a flat table can be copied");
    assert_eq!(copy.size_bytes(), ranking.size_bytes());
    let query = Query::new([5.0, 40.0, 3.0]).top(6);
    let answer = |table: &dyn Table| table.search(&query, &mut Context::default()).unwrap();
    let expected = answer(&ranking);
    drop(ranking);
    assert_eq!(answer(&copy), expected);
}

#[test]
fn what_does_not_fit_is_refused() {
    let odd = KeyedRows::build(&[1], 5, |_| &[0; 5]).unwrap();
    let error = Ranking::new(table(), odd, network()).unwrap_err();
    assert!(error.to_string().contains("multiple of 4"), "{error}");
    let error = Ranking::new(table(), features(), Network::random(4, 1)).unwrap_err();
    assert!(error.to_string().contains("inputs"), "{error}");
    let short = ranking(20).search(&Query::new([1.0]), &mut Context::default());
    assert!(
        matches!(short, Err(SearchError::WrongDimension { .. })),
        "{short:?}"
    );
}

#[test]
fn no_features_at_all_leave_the_search_and_the_vector() {
    let keys: Vec<u64> = (0..ROWS as u64).collect();
    let nothing = KeyedRows::build(&keys, 0, |_| &[]).unwrap();
    let network = Network::random(inputs(DIM, 0), 5);
    let ranking = Ranking::new(table(), nothing, network).unwrap();
    let answer = ranking.search(&Query::new([1.0, 2.0, 3.0]).top(4), &mut Context::default());
    assert_eq!(answer.unwrap().len(), 4);
}
