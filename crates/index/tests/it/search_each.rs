//! Answers that are given one by one: equal to those of single searches, each once, and without an allocation.

#![allow(
    unsafe_code,
    reason = "a global allocator that counts is an unsafe trait"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use chiplet_index::{FlatTable, HnswConfig, HnswTable, Metric, Refined, RowFormat};
use chiplet_table::{Context, Filter, Query, Table};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it came; the default `realloc` and `alloc_zeroed` go
// through `alloc`, so they count too.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and the block is the system allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DIM: usize = 16;

fn rows(count: usize) -> Vec<f32> {
    let random = |i: usize| (i * 7919 % 1201) as f32 / 1201.0 - 0.5;
    (0..count * DIM).map(random).collect()
}

fn tables() -> Vec<(String, Box<dyn Table>)> {
    let rows = rows(2_000);
    let mut tables: Vec<(String, Box<dyn Table>)> = Vec::new();
    for metric in [Metric::L2, Metric::Cosine] {
        let flat = || FlatTable::build(&rows, DIM, metric).unwrap();
        let config = HnswConfig::new(metric).m(8).ef_construction(40);
        let few_bits = config.clone().rows(RowFormat::Sq8);
        let graph = |config: &HnswConfig| HnswTable::build(&rows, DIM, config).unwrap();
        let refined = Refined::new(graph(&few_bits), flat()).unwrap();
        let reranked = few_bits.clone().rerank(RowFormat::F32);
        let mut add = |name: &str, table| tables.push((format!("{name}, {metric:?}"), table));
        add("flat", Box::new(flat()));
        add("graph", Box::new(graph(&config)));
        add("graph, re-ranked", Box::new(graph(&reranked)));
        add("graph, refined", Box::new(refined));
        #[cfg(feature = "faiss")]
        for factory in ["IVF16,Flat", "IVF16,PQ4x4", "IVF16,SQ8,RFlat"] {
            let config = chiplet_index::IvfConfig::new(metric).nprobe(4);
            let lists = chiplet_index::IvfTable::build(&rows, DIM, factory, &config);
            add(factory, Box::new(lists.unwrap()));
        }
    }
    tables
}

fn queries() -> Vec<Query> {
    let even = Filter::matching(|id| id % 2 == 0);
    let query = |(number, row): (usize, &[f32])| {
        let query = Query::new(row).top(1 + number % 30);
        match number % 4 {
            1 => query.filter(even.clone()),
            2 => query.radius(0.9),
            _ => query,
        }
    };
    rows(150).chunks(DIM).enumerate().map(query).collect()
}

#[test]
fn answers_are_those_of_single_searches() {
    for (name, table) in tables() {
        let mut queries = queries();
        queries[7].set_vector(&[f32::NAN; DIM]);
        queries[99].set_vector(&[0.5; 3]);
        let (mut context, mut alone) = (Context::default(), Context::default());
        let mut answers = vec![None; queries.len()];
        table.search_each(&queries, &mut context, &mut |number, found| {
            let before = answers[number].replace(found.map(<[_]>::to_vec));
            assert!(before.is_none(), "{name}: {number} twice");
        });
        for (number, (query, answer)) in queries.iter().zip(&answers).enumerate() {
            let expected = table.search(query, &mut alone);
            assert_eq!(expected.is_err(), [7, 99].contains(&number));
            match (answer.as_ref().unwrap(), &expected) {
                (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected.to_string()),
                (answer, expected) => assert_eq!(answer, expected, "{name}: {number}"),
            }
        }
        assert_eq!(context.bytes(), alone.bytes(), "{name}");
        table.search_each(&[], &mut context, &mut |_, _| panic!("nothing was asked"));
    }
}

#[test]
fn no_query_takes_an_allocation() {
    for (name, table) in tables() {
        let queries = queries();
        let mut found = 0;
        let mut run = || {
            let before = ALLOCATIONS.get();
            table.search_each(&queries, &mut Context::default(), &mut |_, answer| {
                found += answer.unwrap().len();
            });
            ALLOCATIONS.get() - before
        };
        run();
        assert_eq!(run(), 0, "{name}");
        assert!(found > 0);
    }
}

#[test]
fn a_filter_goes_with_its_query() {
    for (name, table) in tables() {
        let seen = std::sync::Arc::new(());
        let held = std::sync::Arc::clone(&seen);
        let filter = Filter::matching(move |_| std::sync::Arc::strong_count(&held) > 0);
        let queries = vec![Query::new([0.1; DIM]).filter(filter); 3];
        table.search_each(&queries, &mut Context::default(), &mut |_, found| {
            assert!(found.is_ok());
        });
        drop(queries);
        assert_eq!(
            std::sync::Arc::strong_count(&seen),
            1,
            "{name}: no thread keeps it"
        );
    }
}
