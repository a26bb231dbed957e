//! Blocks: answers as one by one, in flat arrays, of any length through a queue of any size.

mod common;

use std::sync::Arc;

use chiplet::index::{FlatTable, HnswConfig, HnswTable, Metric};
use chiplet::{
    Block, BlockAnswers, Context, Error, Executor, Filter, Neighbor, Query, SearchError,
    SubmitError, Table, TableId,
};
use common::{builder, executor};

const DIM: usize = 4;

fn rows(count: usize) -> Vec<f32> {
    (0..count * DIM).map(|i| (i * 7919 % 1201) as f32).collect()
}

/// The block's answers as single queries get them.
fn one_by_one(executor: &Executor, table: TableId, rows: &[f32], like: &Query) -> BlockAnswers {
    let mut expected = BlockAnswers::default();
    expected.k = like.k();
    for row in rows.chunks(DIM) {
        let mut query = like.clone();
        query.set_vector(row);
        let mut hits = executor.search(table, query).wait().unwrap();
        expected.found.push(hits.len() as u32);
        hits.resize(
            like.k(),
            Neighbor {
                id: u64::MAX,
                distance: f32::INFINITY,
            },
        );
        expected.ids.extend(hits.iter().map(|hit| hit.id));
        expected
            .distances
            .extend(hits.iter().map(|hit| hit.distance));
    }
    expected
}

#[test]
fn answers_are_those_of_single_queries() {
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(20);
    let even = Filter::matching(|id| id % 2 == 0);
    for (domains, cores) in [(1, 1), (1, 3), (2, 2)] {
        let executor = executor(domains, cores);
        let tables = [
            executor.add_table("hnsw", HnswTable::build(&rows(600), DIM, &config).unwrap()),
            executor.add_table("flat", FlatTable::build(rows(7), DIM, Metric::L2).unwrap()),
        ];
        for table in tables {
            for like in [
                Query::new([]),
                Query::new([])
                    .top(9)
                    .ef(30)
                    .filter(even.clone())
                    .radius(1e5),
            ] {
                for count in [1, 2, 63, 64, 65, 500] {
                    let asked = rows(count);
                    let expected = one_by_one(&executor, table, &asked, &like);
                    let block = Block::new(asked, DIM).like(like.clone());
                    let answers = executor.search_block(table, block).wait().unwrap();
                    assert_eq!(answers, expected, "{count} rows");
                }
            }
        }
        let total = executor.snapshot().total;
        assert_eq!(total.accepted, total.done);
    }
}
