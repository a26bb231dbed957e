//! A caller's own graph as a table: it answers as its links lead, and what cannot be searched is refused.

use crate::common::unsplit;
use chiplet_index::hnsw::Graph;
use chiplet_index::{BuildError, FlatTable, HnswConfig, HnswTable, Metric, Pages, RowFormat};
use chiplet_table::{Context, Query, Table};

fn config(metric: Metric) -> HnswConfig {
    HnswConfig::new(metric)
}

/// Row `x` of `n` lies at `x` on a line and is linked to the rows beside it; each tenth is on layer 1 and linked to the
/// tenth on either side.
fn line(n: u32, entry: u32, express: bool) -> (Vec<f32>, Graph) {
    const DIM: usize = 16;
    let mut rows = vec![0.0; n as usize * DIM];
    for (row, x) in rows.chunks_exact_mut(DIM).zip(0..n) {
        row[0] = x as f32;
    }
    let beside = |x: u32, step: u32| {
        let mut links = Vec::new();
        links.extend(x.checked_sub(step));
        links.extend(Some(x + step).filter(|&x| x < n));
        links
    };
    let links = (0..n).map(|x| {
        let mut layers = vec![beside(x, 1)];
        if express && x % 10 == 0 {
            layers.push(beside(x, 10));
        }
        layers
    });
    let links = links.collect();
    (rows, Graph { entry, links })
}

fn at(x: f32) -> Query {
    let mut vector = vec![0.0; 16];
    vector[0] = x;
    Query::new(vector)
}

#[test]
fn work_is_the_rows_that_a_walk_compares_counted_by_hand() {
    for reorder in [false, true] {
        let (rows, graph) = line(100, 50, false);
        let config = config(Metric::L2).reorder(reorder);
        let table = HnswTable::from_graph(&rows, 16, &graph, &config).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        table.save(file.path()).unwrap();
        let loaded = HnswTable::load(file.path(), Pages::Small).unwrap();
        // The entry, to find where the walk begins. Then the walk: row 51, which the entry links to, and all from the
        // entry down to 3, which is linked to the farthest of the eight nearest on that side, 4.
        let visited = 1 + (51 - 3 + 1);
        for table in [table, loaded] {
            let mut context = Context::default();
            let hits = table.search(&at(7.2).top(3).ef(8), &mut context).unwrap();
            assert_eq!(hits.iter().map(|hit| hit.id).collect::<Vec<_>>(), [7, 8, 6]);
            // Rows of 64 bytes; two links on the ground layer, so M is 1: 3 bytes.
            assert_eq!(context.bytes(), visited * (64 + 3));
        }
    }
}

#[test]
fn higher_layers_shorten_the_way() {
    let (rows, graph) = line(1000, 990, true);
    let table = HnswTable::from_graph(&rows, 16, &graph, &config(Metric::L2)).unwrap();
    let mut context = Context::default();
    let hits = table.search(&at(123.4).top(1).ef(1), &mut context).unwrap();
    assert_eq!(hits[0].id, 123);
    // The entry; from 990 down by tens to 120, where both neighbours are farther: 88 looks at two rows each, less the
    // one beyond the end, which is not there; then the walk: 120, for each of 120..=123 the rows beside it, and row 0,
    // where a walk begins, too.
    let looks = 88 * 2 - 1;
    let walk = (119..=124).count() as u64 + 1;
    assert_eq!(context.bytes(), (1 + looks + walk) * (64 + 3 * 2));
}

#[test]
fn rows_that_no_link_leads_to_are_found_by_a_scan() {
    // Two lines with nothing between them.
    let (rows, mut graph) = line(100, 10, false);
    graph.links[49][0] = vec![48];
    graph.links[50][0] = vec![51];
    let table = HnswTable::from_graph(&rows, 16, &graph, &config(Metric::L2)).unwrap();
    let exact = FlatTable::build(rows, 16, Metric::L2).unwrap();
    let bytes = |query: &Query| {
        let mut context = Context::default();
        table.search(query, &mut context).unwrap();
        context.bytes() / (64 + 3)
    };
    // As many as the walk finds.
    let query = at(80.0).top(50).ef(100);
    assert_eq!(unsplit(&table, &query)[0].id, 49);
    assert_eq!(bytes(&query), 1 + 50);
    // One more: all rows are compared.
    let query = at(80.0).top(51).ef(100);
    assert_eq!(unsplit(&table, &query), unsplit(&exact, &query));
    assert_eq!(bytes(&query), 1 + 50 + 100);
}

#[test]
fn ids_are_those_given_however_large() {
    let (rows, graph) = line(50, 0, false);
    for base in [1000, u64::MAX - 100] {
        let ids: Vec<u64> = (0..50).map(|row| base + row).collect();
        let config = config(Metric::L2);
        let table = HnswTable::from_graph_with_ids(&rows, 16, &ids, &graph, &config).unwrap();
        let hits = unsplit(&table, &at(20.0).top(2));
        assert_eq!([hits[0].id, hits[1].id], [base + 20, base + 19]);
        let short = HnswTable::from_graph_with_ids(&rows, 16, &ids[1..], &graph, &config);
        let error = short.err().unwrap().to_string();
        assert!(error.contains("49 ids were passed for 50 rows"), "{error}");
    }
}

#[test]
fn rows_are_stored_as_the_configuration_says() {
    let (rows, graph) = line(100, 50, true);
    for format in [
        RowFormat::F16,
        RowFormat::Bf16,
        RowFormat::Sq8,
        RowFormat::Sq4,
        RowFormat::Sq2,
    ] {
        let config = config(Metric::L2).rows(format).rerank(RowFormat::F32);
        // The first layer above the ground has rows 0, 10, .. 90.
        let table = HnswTable::from_graph(&rows, 16, &graph, &config).unwrap();
        let hits = unsplit(&table, &at(33.3).top(4).ef(20));
        let exact = FlatTable::build(rows.clone(), 16, Metric::L2).unwrap();
        assert_eq!(hits, unsplit(&exact, &at(33.3).top(4)), "{format}");
    }
}

#[test]
fn cosine_rows_of_a_graph_are_scaled_to_length_one() {
    let rows = [3.0, 4.0, 0.0, 0.0, -8.0, 6.0];
    let everyone = vec![vec![vec![0, 1, 2]]; 3];
    let graph = Graph {
        entry: 1,
        links: everyone,
    };
    let table = HnswTable::from_graph(&rows, 2, &graph, &config(Metric::Cosine)).unwrap();
    let exact = FlatTable::build(rows, 2, Metric::Cosine).unwrap();
    let query = Query::new([1.0, 2.0]).top(3);
    assert_eq!(unsplit(&table, &query), unsplit(&exact, &query));
}

#[test]
fn a_graph_without_rows_is_an_empty_table() {
    let graph = Graph::default();
    let table = HnswTable::from_graph(&[], 7, &graph, &config(Metric::L2)).unwrap();
    assert_eq!((table.len(), table.dim()), (0, 7));
    assert_eq!(unsplit(&table, &Query::new([0.0; 7])), []);
}

#[test]
fn links_that_no_search_can_follow_are_refused_by_name() {
    let rows = [0.0, 1.0, 2.0];
    let refused = |entry, links: &[&[&[u32]]]| {
        let links = links
            .iter()
            .map(|layers| layers.iter().map(|list| list.to_vec()).collect());
        let graph = Graph {
            entry,
            links: links.collect(),
        };
        match HnswTable::from_graph(&rows, 1, &graph, &config(Metric::L2)).err() {
            Some(BuildError::Graph { reason }) => reason,
            other => panic!("{:?}", other.map(drop)),
        }
    };
    let ground: &[&[u32]] = &[&[0, 2]];
    let deep = vec![&[][..]; 65];
    for (fault, expected) in [
        (refused(0, &[ground, ground]), "links 2 rows, but 3"),
        (
            refused(3, &[ground, ground, ground]),
            "entry is row 3, but there are 3 rows",
        ),
        (
            refused(2, &[ground, &[&[], &[]], ground]),
            "row 1 is on 2 layers, the entry, row 2, on 1",
        ),
        (
            refused(0, &[ground, &[], ground]),
            "row 1 is on 0 layers; give each row a list of links for 1 to 64 layers",
        ),
        (
            refused(0, &[&deep, ground, ground]),
            "row 0 is on 65 layers",
        ),
        (
            refused(0, &[ground, &[&[1, 3]], ground]),
            "row 1 links on layer 0 to row 3, but there are 3 rows",
        ),
        (
            refused(0, &[ground, ground, &[&[u32::MAX]]]),
            "row 2 links on layer 0 to row 4294967295, but there are 3 rows",
        ),
        (
            refused(1, &[ground, &[&[0], &[2]], ground]),
            "row 1 links on layer 1 to row 2, which is not on that layer",
        ),
    ] {
        assert!(fault.contains(expected), "{fault}");
    }
}

#[test]
fn a_list_far_longer_than_the_others_is_refused() {
    // All rows link to row 0, and it links to all, on one layer of so many.
    let star = |n: u32, layers: usize, layer: usize| {
        let links = (0..n).map(|row| {
            let mut lists = vec![Vec::new(); layers];
            lists[layer] = if row == 0 { (1..n).collect() } else { vec![0] };
            lists
        });
        let graph = Graph {
            entry: 0,
            links: links.collect(),
        };
        let rows: Vec<f32> = (0..n).map(|x| x as f32).collect();
        HnswTable::from_graph(&rows, 1, &graph, &config(Metric::L2))
    };
    let long = |table: Result<HnswTable, BuildError>, words: &str| match table {
        Err(BuildError::Graph { reason }) => assert!(reason.contains(words), "{reason}"),
        other => panic!("{:?}", other.map(drop)),
    };
    // With as much room for each row, 40,000 links would take 1.6 GB.
    long(star(20_000, 1, 0), "row 0 has 19999 links on layer 0");
    // On 15 higher layers, 240 MB.
    long(star(2_000, 16, 1), "row 0 has 1999 links on layer 1");
    // 900 rows may be linked as anybody likes.
    let small = star(900, 1, 0).unwrap();
    assert_eq!(unsplit(&small, &Query::new([700.2]).top(2))[0].id, 700);
}

#[test]
fn rows_and_settings_are_checked_as_those_of_a_build() {
    let (mut rows, graph) = line(20, 0, false);
    let import = |rows: &[f32], dim, config: &HnswConfig| {
        HnswTable::from_graph(rows, dim, &graph, config).err()
    };
    let fine = config(Metric::L2);
    assert_eq!(import(&rows, 0, &fine), Some(BuildError::ZeroDimension));
    assert!(matches!(
        import(&rows, 3, &fine),
        Some(BuildError::RaggedRows { .. })
    ));
    assert!(matches!(
        import(&rows, 16, &fine.clone().ef(0)),
        Some(BuildError::Setting { setting: "ef", .. })
    ));
    let too_wide = vec![0.0; 20 * 70_000];
    assert!(matches!(
        import(&too_wide, 70_000, &fine.clone().rows(RowFormat::Sq8)),
        Some(BuildError::DimensionTooLarge { dim: 70_000, .. })
    ));
    rows[40] = f32::NAN;
    assert!(matches!(
        import(&rows, 16, &fine),
        Some(BuildError::NotFinite {
            row: 2,
            component: 8,
            ..
        })
    ));
}
