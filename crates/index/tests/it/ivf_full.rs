//! Files of inverted lists that keep the rows beside their codes, read without Faiss: a committed table of codes, to
//! which its rows are added here. `ivf_refined.rs` builds such tables.

use std::path::Path;

use crate::common::inputs::changed;
use crate::common::{assert_stops_wherever_it_asks, assert_well_formed, mapped, split, unsplit};
use chiplet_index::{FileError, FlatTable, IvfTable, Metric, Pages, Refined};
use chiplet_table::{Context, Filter, Query, SearchError, SplitTable, Table};
use serde_json::{Value, json};

const DIM: usize = 4;
const ROWS: usize = 200;

/// The rows of the table in the seeds, as `seeds.rs` writes them.
fn rows() -> Vec<f32> {
    let value = |i: usize| ((i * 7919) % 97) as f32 / 97.0;
    (0..ROWS * DIM).map(value).collect()
}

/// The seeds' table of four lists and codes of one byte.
fn codes() -> Vec<u8> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/table_file");
    std::fs::read(seeds.join("ivf-pq2x4fs")).unwrap()
}

/// The same with the rows beside the codes.
fn with_rows(change: impl FnOnce(&mut Value, &mut Vec<(String, Vec<u8>)>)) -> Vec<u8> {
    let file = changed(&codes(), |meta, sections| {
        meta["full"] = json!({ "format": "f32", "step": 1.0 });
        let bytes = rows().iter().flat_map(|x| x.to_le_bytes()).collect();
        sections.push(("full".to_owned(), bytes));
        sections.push(("full-low".to_owned(), Vec::new()));
        change(meta, sections);
    });
    file.unwrap()
}

fn load(file: &[u8]) -> Result<IvfTable, FileError> {
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), file).unwrap();
    let mapped = mapped::ivf(path.path());
    let loaded = IvfTable::load(path.path(), Pages::Small);
    assert_eq!(mapped.is_ok(), loaded.is_ok());
    loaded
}

fn queries() -> Vec<Query> {
    let vectors = rows();
    let vectors = vectors.chunks_exact(DIM).take(40);
    let moved = |row: &[f32]| row.iter().map(|x| x + 0.03).collect::<Vec<f32>>();
    vectors
        .map(|row| Query::new(moved(row)).top(3).nprobe(2))
        .collect()
}

#[test]
fn answers_are_those_of_a_refined_table_of_the_same_codes() {
    let flat = || FlatTable::build(rows(), DIM, Metric::L2).unwrap();
    let refined = load(&with_rows(|_, _| ())).unwrap();
    let coarse = load(&codes()).unwrap();
    let apart = Refined::new(load(&codes()).unwrap(), flat()).unwrap();
    let exact = flat();
    let mut differ = 0;
    for query in queries() {
        let (mut ours, mut theirs) = (Context::default(), Context::default());
        let hits = refined.search(&query, &mut ours).unwrap();
        assert_eq!(apart.search(&query, &mut theirs).unwrap(), hits);
        assert_eq!(ours.bytes(), theirs.bytes());
        assert_well_formed(&hits, 3);
        for hit in &hits {
            let only = query.clone().filter(Filter::ids([hit.id]));
            assert_eq!(unsplit(&exact, &only), [*hit]);
        }
        differ += usize::from(unsplit(&coarse, &query) != hits);
        // Two of four lists may hold fewer rows than are asked for here; all four hold all of them.
        let all = query.clone().top(ROWS).nprobe(4);
        assert_eq!(unsplit(&refined, &all), unsplit(&exact, &all));
        for query in [
            query.clone().radius(hits[1].distance),
            query.clone().filter(Filter::matching(|id| id % 3 == 0)),
            all,
            query,
        ] {
            let whole = unsplit(&refined, &query);
            assert_eq!(whole, unsplit(&apart, &query));
            for cuts in 0..8 {
                assert_eq!(split(&refined, &query, cuts), whole);
            }
            let in_one = refined.search_whole(&query, &mut Context::default());
            assert_eq!(in_one.unwrap(), whole);
        }
    }
    assert!(differ > 0, "codes are as good as rows");
}

#[test]
fn many_queries_are_answered_as_one_by_one() {
    let refined = load(&with_rows(|_, _| ())).unwrap();
    let mut asked = queries();
    asked[7] = asked[7].clone().radius(0.01).top(50);
    let alone: Vec<_> = asked.iter().map(|query| unsplit(&refined, query)).collect();
    let many = refined.search_many(&asked, &mut Context::default());
    assert_eq!(many.unwrap(), alone);
    asked[3] = asked[3].clone().top(0);
    let mixed = refined.search_batch(&asked, &mut Context::default());
    assert_eq!(mixed[3], Err(SearchError::ZeroTop));
    for (at, found) in mixed.into_iter().enumerate().filter(|(at, _)| *at != 3) {
        assert_eq!(found.unwrap(), alone[at]);
    }
    assert!(assert_stops_wherever_it_asks(&refined, &asked[0]) > 0);
}

#[test]
fn the_rows_are_saved_with_the_codes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let refined = load(&with_rows(|_, _| ())).unwrap();
    refined.save(file.path()).unwrap();
    let back = IvfTable::load(file.path(), Pages::Small).unwrap();
    assert_eq!(back.size_bytes(), refined.size_bytes());
    assert!(back.size_bytes() >= load(&codes()).unwrap().size_bytes() + 16 * ROWS as u64);
    for query in queries() {
        assert_eq!(unsplit(&back, &query), unsplit(&refined, &query));
    }
}

#[test]
fn eight_bit_rows_are_read_as_they_are_written_elsewhere() {
    // Codes of a step of 1 from 0 on. After them each row has its sum of `code (code - 256)`, as graphs keep it.
    let whole: Vec<f32> = rows().iter().map(|x| (x * 97.0).round()).collect();
    let file = with_rows(|meta, sections| {
        meta["full"] = json!({ "format": "sq8", "step": 1.0 });
        let row = |row: &[f32]| {
            let constant: i32 = row.iter().map(|&x| x as i32 * (x as i32 - 256)).sum();
            let codes = row.iter().map(|&x| x as u8);
            codes.chain(constant.to_le_bytes()).collect::<Vec<u8>>()
        };
        let full = sections.len() - 2;
        sections[full].1 = whole.chunks_exact(DIM).flat_map(row).collect();
        sections[full + 1].1 = vec![0; 4 * DIM];
    });
    let refined = load(&file).unwrap();
    let exact = FlatTable::build(whole.clone(), DIM, Metric::L2).unwrap();
    for row in whole.chunks_exact(DIM).take(20) {
        let query = Query::new(row).top(ROWS).nprobe(4);
        assert_eq!(unsplit(&refined, &query), unsplit(&exact, &query));
    }
}

#[test]
fn files_that_cannot_be_are_refused() {
    type Change = fn(&mut Value, &mut Vec<(String, Vec<u8>)>);
    let changes: [(&str, Change); 8] = [
        ("no rows", |_, sections| {
            sections.retain(|(name, _)| name != "full");
        }),
        ("no values", |_, sections| {
            sections.retain(|(name, _)| name != "full-low");
        }),
        ("a row less", |_, sections| {
            let full = sections.iter_mut().find(|(name, _)| name == "full");
            full.unwrap().1.truncate(16 * (ROWS - 1));
        }),
        ("values without codes", |_, sections| {
            sections.last_mut().unwrap().1 = vec![0; 16];
        }),
        ("codes without values", |meta, _| {
            meta["full"]["format"] = "sq8".into();
        }),
        ("4 bits", |meta, _| meta["full"]["format"] = "sq4".into()),
        ("no step", |meta, _| meta["full"]["step"] = 0.0.into()),
        ("an unknown format", |meta, _| {
            meta["full"]["format"] = "f8".into();
        }),
    ];
    for (what, change) in changes {
        let refused = load(&with_rows(change)).err();
        assert!(
            matches!(refused, Some(FileError::Damaged { .. })),
            "{what}: {refused:?}"
        );
    }
}

#[test]
fn an_id_that_no_row_has_is_an_error_that_names_it() {
    let file = with_rows(|_, sections| {
        let ids = sections.iter_mut().find(|(name, _)| name == "ids");
        for id in ids.unwrap().1.as_chunks_mut::<4>().0 {
            *id = 777_u32.to_le_bytes();
        }
    });
    let refined = load(&file).unwrap();
    let query = &queries()[0];
    let told = refined.search(query, &mut Context::default());
    assert!(
        matches!(&told, Err(SearchError::Backend(why)) if why.contains("candidate 777 ")),
        "{told:?}"
    );
    assert_eq!(refined.search_whole(query, &mut Context::default()), told);
}
