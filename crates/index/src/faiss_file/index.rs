//! From bytes to what they hold: one index, with those around it.

use super::codes::described;
use super::graph::{Links, links};
use super::header::{Header, header, list};
use super::lists::{held, skip_direct_map};
use super::names;
use super::transform::{Transform, transform};
use crate::error::BuildError;
use crate::foreign::Source;
use crate::ivf::{Codes, Parts};

/// Indexes that one may hold, one in the other.
const DEEPEST: usize = 8;

/// An index that can be a table.
pub(super) struct Index {
    /// Of the outermost one.
    pub(super) header: Header,
    pub(super) body: Body,
}

pub(super) enum Body {
    Flat(Rows),
    Graph(Rows, Links),
    Lists(Box<Lists>),
}

/// Rows, `[n][dim]`.
pub(super) struct Rows {
    pub(super) values: Vec<f32>,
    /// One for each row, unless they are their numbers.
    pub(super) ids: Option<Vec<u64>>,
}

pub(super) struct Lists {
    pub(super) parts: Parts,
    pub(super) codes: Codes,
    /// Of each list, one row after the other.
    pub(super) held: Vec<Vec<u8>>,
    /// Lists visited by a search that does not say.
    pub(super) nprobe: usize,
    pub(super) transform: Transform,
    /// The rows once more.
    pub(super) full: Option<Vec<f32>>,
}

/// Reads an index inside `depth` others.
pub(super) fn index(source: &mut Source<'_>, depth: usize) -> Result<Index, BuildError> {
    source.expect(depth < DEEPEST, || {
        format!("more than {DEEPEST} indexes are in each other; it is damaged")
    })?;
    let letters: [u8; 4] = source.array()?;
    let Some(class) = names::class(letters) else {
        return Err(names::refused(letters).unwrap_or_else(|| {
            source.damaged(format!(
                "\"{}\" stands where an index begins, which no index of Faiss' does that is known here; it is another kind of \
                 file, damaged or of a newer Faiss",
                letters.escape_ascii()
            ))
        }));
    };
    let header = header(source, class)?;
    let body = match &letters {
        b"IHNf" => graph(source, &header, depth)?,
        b"IxMp" | b"IxM2" => with_ids(source, &header, depth)?,
        b"IxPT" => transformed(source, &header, depth)?,
        b"IxRF" => refined(source, &header, depth)?,
        [b'I', b'w', ..] => lists(source, letters, &header, depth)?,
        _ => Body::Flat(flat(source, &header)?),
    };
    Ok(Index { header, body })
}

fn flat(source: &mut Source<'_>, header: &Header) -> Result<Rows, BuildError> {
    // Not `finite`: what is wrong with a row is told of the row.
    let values: Vec<f32> = list(source, "components")?;
    let expected = header.rows.checked_mul(header.dim as u64);
    source.expect(expected == Some(values.len() as u64), || {
        let Header { rows, dim, .. } = header;
        format!(
            "{} components are not {rows} rows of {dim}; it is damaged",
            values.len()
        )
    })?;
    Ok(Rows { values, ids: None })
}

/// An index inside one with this `header`.
fn inner(source: &mut Source<'_>, header: &Header, depth: usize) -> Result<Index, BuildError> {
    let inner = index(source, depth + 1)?;
    let found = inner.header;
    source.expect(found.rows == header.rows, || {
        format!(
            "an {} of {} rows is in an {} of {}; it is damaged",
            found.class, found.rows, header.class, header.rows
        )
    })?;
    if found.metric != header.metric {
        return Err(names::unsupported(
            format!(
                "{} of another metric than its {}",
                header.class, found.class
            ),
            "both must have the metric of the table",
        ));
    }
    Ok(inner)
}

/// An index of rows as long as those of the one around it.
fn as_long(source: &mut Source<'_>, header: &Header, depth: usize) -> Result<Index, BuildError> {
    let inner = inner(source, header, depth)?;
    source.expect(inner.header.dim == header.dim, || {
        format!(
            "an {} of {} components is in an {} of {}; it is damaged",
            inner.header.class, inner.header.dim, header.class, header.dim
        )
    })?;
    Ok(inner)
}

fn graph(source: &mut Source<'_>, header: &Header, depth: usize) -> Result<Body, BuildError> {
    let links = links(source, header.rows)?;
    let storage = as_long(source, header, depth)?;
    match storage.body {
        Body::Flat(rows) if rows.ids.is_none() => Ok(Body::Graph(rows, links)),
        _ => Err(names::unsupported(
            format!("{} over {}", header.class, storage.header.class),
            "its rows must be in an IndexFlat; build it again as HNSW<m>,Flat",
        )),
    }
}

fn with_ids(source: &mut Source<'_>, header: &Header, depth: usize) -> Result<Body, BuildError> {
    let mut inner = as_long(source, header, depth)?;
    let found: Vec<i64> = list(source, "ids")?;
    source.expect(found.len() as u64 == header.rows, || {
        format!(
            "it has {} ids for {} rows; it is damaged",
            found.len(),
            header.rows
        )
    })?;
    let below = found.iter().position(|&id| id < 0);
    source.expect(below.is_none(), || {
        let row = below.unwrap_or(0);
        format!(
            "row {row} has the id {}; ids of a table are not below 0",
            found[row]
        )
    })?;
    match &mut inner.body {
        Body::Flat(rows) | Body::Graph(rows, _) if rows.ids.is_none() => {
            rows.ids = Some(found.iter().map(|id| id.cast_unsigned()).collect());
        }
        Body::Lists(lists) if lists.full.is_none() => {
            for id in lists.parts.ids.iter_mut().flatten() {
                let known = usize::try_from(*id).ok().and_then(|id| found.get(id));
                let Some(&known) = known else {
                    return Err(source.damaged(format!(
                        "an inverted list has the id {id}, which is the number of none of {} ids; it is damaged",
                        found.len()
                    )));
                };
                *id = known;
            }
        }
        _ => {
            return Err(names::unsupported(
                format!("{} over {}", header.class, inner.header.class),
                "ids may be given to an IndexFlat, an IndexHNSWFlat or an IndexIVF, once, and not outside an IndexRefine; add rows \
                 with their ids to the IVF index instead",
            ));
        }
    }
    Ok(inner.body)
}

fn transformed(source: &mut Source<'_>, header: &Header, depth: usize) -> Result<Body, BuildError> {
    let transform = transform(source, header.dim)?;
    let inner = inner(source, header, depth)?;
    let dim = transform
        .map
        .as_ref()
        .map_or(header.dim, |map| map.linear().shift.len());
    source.expect(inner.header.dim == dim, || {
        format!(
            "its transforms give {dim} components, and the {} in it takes {}; it is damaged",
            inner.header.class, inner.header.dim
        )
    })?;
    match inner.body {
        Body::Lists(mut lists) if lists.transform.is_none() && lists.full.is_none() => {
            lists.transform = transform;
            Ok(Body::Lists(lists))
        }
        _ => Err(names::unsupported(
            format!("{} over {}", header.class, inner.header.class),
            "transforms are read before inverted lists, once; apply them to rows and queries yourself",
        )),
    }
}

fn refined(source: &mut Source<'_>, header: &Header, depth: usize) -> Result<Body, BuildError> {
    let base = as_long(source, header, depth)?;
    let rows = as_long(source, header, depth)?;
    let _factor: [u8; 4] = source.array()?;
    let kind = format!(
        "{} of {} over {}",
        header.class, rows.header.class, base.header.class
    );
    let refused = |reason| Err(names::unsupported(kind, reason));
    let (Body::Lists(mut lists), Body::Flat(rows)) = (base.body, rows.body) else {
        return refused("inverted lists are read that an IndexFlat refines (RFlat)");
    };
    if lists.full.is_some() || rows.ids.is_some() {
        return refused("inverted lists are read that one IndexFlat refines (RFlat)");
    }
    let mut ids = lists.parts.ids.iter().flatten();
    if !ids.all(|&id| id.cast_unsigned() < header.rows) {
        return refused(
            "its rows must have their numbers as ids, for the exact rows are found by them",
        );
    }
    lists.full = Some(rows.values);
    Ok(Body::Lists(lists))
}

fn lists(
    source: &mut Source<'_>,
    letters: [u8; 4],
    header: &Header,
    depth: usize,
) -> Result<Body, BuildError> {
    let count = source.u64()?;
    let nprobe = source.u64()?;
    let quantizer = index(source, depth + 1)?;
    let found = quantizer.header;
    let (Body::Flat(centroids) | Body::Graph(centroids, _)) = quantizer.body else {
        return Err(names::unsupported(
            format!("{} with the quantizer {}", header.class, found.class),
            "centroids are read that are in an IndexFlat or an IndexHNSWFlat",
        ));
    };
    if found.metric != header.metric {
        return Err(names::unsupported(
            format!("{} whose quantizer has another metric", header.class),
            "lists must be ranked by the metric of the rows",
        ));
    }
    let lists = usize::try_from(count).ok();
    let lists = lists.filter(|&lists| lists > 0 && u32::try_from(lists).is_ok());
    let lists = lists.filter(|_| (found.rows, found.dim) == (count, header.dim));
    let Some(lists) = lists else {
        return Err(source.damaged(format!(
            "it has {} centroids of {} components for {count} lists of rows of {}; it is damaged",
            found.rows, found.dim, header.dim
        )));
    };
    let finite = centroids.values.iter().all(|x| x.is_finite());
    source.expect(finite, || {
        "its centroids are not all finite; it is damaged".to_owned()
    })?;
    skip_direct_map(source)?;
    let described = described(source, letters, header)?;
    let held = held(source, &described, lists, header.rows)?;
    Ok(Body::Lists(Box::new(Lists {
        parts: Parts {
            dim: header.dim,
            centroids: centroids.values,
            ids: held.ids,
        },
        codes: described.codes,
        held: held.codes,
        nprobe: usize::try_from(nprobe).unwrap_or(lists).clamp(1, lists),
        transform: Transform::default(),
        full: None,
    })))
}
