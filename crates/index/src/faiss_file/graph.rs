//! The links of an `IndexHNSW`.
//!
//! | part | holds |
//! |---|---|
//! | probabilities | `count u64`, `f64` each: not needed |
//! | sums | `count u64`, `i32` each: room for links of all layers below the first, second, .. |
//! | levels | `count u64`, `i32` each: on how many layers a row is |
//! | offsets | `count u64`, `u64` each: where a row's links begin, and where the last one's end |
//! | links | `count u64`, `i32` each: a list of a layer ends at its room's end or at the first number below 0 |
//! | the end | `entry i32, highest layer i32, efConstruction i32, efSearch i32, unused i32` |

use super::header::list;
use crate::error::BuildError;
use crate::foreign::Source;
use crate::hnsw::Graph;

/// A graph, and the candidates that its searches keep.
pub(super) struct Links {
    pub(super) graph: Graph,
    pub(super) ef: usize,
}

pub(super) fn links(source: &mut Source<'_>, rows: u64) -> Result<Links, BuildError> {
    let probabilities = source.u64()?;
    source.skip(probabilities, 8, "probabilities of layers")?;
    let sums: Vec<i32> = list(source, "sums of links")?;
    // So each list of links takes bytes of the file.
    let rising = sums.first() == Some(&0) && sums.is_sorted_by(|a, b| a < b);
    source.expect(rising, || {
        "a layer has no room for links; it is damaged".to_owned()
    })?;
    let levels: Vec<i32> = list(source, "levels")?;
    let offsets: Vec<u64> = list(source, "offsets of links")?;
    let found: Vec<i32> = list(source, "links")?;
    let agree = levels.len() as u64 == rows && offsets.len() == levels.len() + 1;
    source.expect(agree, || {
        format!(
            "its graph has {} levels and {} offsets for {rows} rows; it is damaged",
            levels.len(),
            offsets.len()
        )
    })?;
    let entry = source.i32()?;
    let top = source.i32()?;
    let _ef_construction = source.i32()?;
    let ef = source.i32()?;
    let _unused = source.i32()?;

    let mut graph = Graph {
        entry: 0,
        links: Vec::with_capacity(levels.len()),
    };
    let mut end = 0;
    for (row, (&level, edges)) in levels.iter().zip(offsets.windows(2)).enumerate() {
        let level = usize::try_from(level).ok();
        let level = level.filter(|&level| level >= 1 && level < sums.len());
        let room = level.map(|level| sums[level] as u64);
        let place = room.and_then(|room| {
            let fits = edges[0] == end && edges[1].checked_sub(end) == Some(room);
            (fits && edges[1] <= found.len() as u64).then_some(end as usize)
        });
        let (Some(level), Some(start)) = (level, place) else {
            return Err(source.damaged(format!(
                "row {row} is on {} layers and its links are {} to {} of {}, which do not fit; it is damaged",
                levels[row],
                edges[0],
                edges[1],
                found.len()
            )));
        };
        end = edges[1];
        let layers = sums[..=level].windows(2);
        let layers = layers.map(|edges| {
            let room = &found[start + edges[0] as usize..start + edges[1] as usize];
            let links = room.iter().map_while(|&link| u32::try_from(link).ok());
            links.collect()
        });
        graph.links.push(layers.collect());
    }
    source.expect(end == found.len() as u64, || {
        format!(
            "{} links are behind those of its last row; it is damaged",
            found.len() as u64 - end
        )
    })?;
    if !graph.links.is_empty() {
        let on = |entry: usize| levels.get(entry).map(|&level| level - 1);
        let entry = usize::try_from(entry)
            .ok()
            .filter(|&entry| on(entry) == Some(top));
        let Some(entry) = entry else {
            return Err(source.damaged(format!(
                "its entry is no row whose highest layer is {top}, that of the graph; it is damaged"
            )));
        };
        // Below the number of levels, which are as many as rows.
        graph.entry = entry as u32;
    }
    source.expect(ef >= 0, || format!("its efSearch is {ef}; it is damaged"))?;
    Ok(Links {
        graph,
        ef: (ef as usize).max(1),
    })
}
