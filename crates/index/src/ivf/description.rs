//! What a factory string asks for, as Faiss writes it, and which parts of it this crate does itself.
//!
//! Faiss allocates the lists before it looks at the rest, so a list count is checked against the rows first.
//!
//! `OPQ8_32,IVF4096(IVF64,Flat),PQ8x4fs,RFlat` in parts:
//!
//! | part | is | done by |
//! | --- | --- | --- |
//! | `OPQ8_32` | a linear map of rows and queries; optional | Faiss trains it, `linear` applies it |
//! | `IVF4096` | the lists | Faiss |
//! | `(IVF64,Flat)` | groups that lists are found through; optional | `groups` |
//! | `PQ8x4fs` | the code | Faiss trains and encodes |
//! | `RFlat` | the rows a second time; optional | `full` |

use std::borrow::Cow;

use crate::error::BuildError;
use crate::hnsw::RowFormat;

/// The parts of a factory string.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Description<'a> {
    /// A map of rows and queries.
    pub(super) linear: Option<&'a str>,
    pub(super) lists: usize,
    /// Groups of lists, if lists are found through them.
    pub(super) groups: Option<usize>,
    /// Lists and code, for Faiss.
    pub(super) coded: Cow<'a, str>,
    /// How the rows are kept a second time.
    pub(super) refined_by: Option<RowFormat>,
}

const REFINEMENTS: [(&str, RowFormat); 5] = [
    (",RFlat", RowFormat::F32),
    (",Refine(Flat)", RowFormat::F32),
    (",Refine(SQ8)", RowFormat::Sq8),
    (",Refine(SQfp16)", RowFormat::F16),
    (",Refine(SQbf16)", RowFormat::Bf16),
];

impl<'a> Description<'a> {
    /// The parts of `factory`, for rows of `dim`.
    ///
    /// # Errors
    /// [`BuildError::Factory`] for what this crate cannot do, and for numbers with which Faiss would allocate before it
    /// looks.
    pub(super) fn parse(factory: &'a str, dim: usize) -> Result<Self, BuildError> {
        let refused = |reason: &str| BuildError::Factory {
            factory: factory.to_owned(),
            reason: reason.to_owned(),
        };
        let (rest, refined_by) = refinement(factory).map_err(refused)?;
        let (linear, rest) = linear(rest, dim).map_err(refused)?;
        let lists = lists(rest).map_err(refused)?;
        let (coded, groups) = groups(rest, lists).map_err(refused)?;
        Ok(Self {
            linear,
            lists,
            groups,
            coded: without_polysemy(coded),
            refined_by,
        })
    }

    /// # Errors
    /// [`BuildError::TooFewRows`] for lists of nothing.
    pub(super) fn check_lists(&self, rows: usize) -> Result<(), BuildError> {
        let lists = self.lists;
        match rows < lists {
            true => Err(BuildError::TooFewRows { rows, lists }),
            false => Ok(()),
        }
    }
}

/// What comes before the refinement, and how that keeps the rows, if there is one.
fn refinement(factory: &str) -> Result<(&str, Option<RowFormat>), &'static str> {
    let parts = |&(end, format)| Some((factory.strip_suffix(end)?, Some(format)));
    let (coded, format) = REFINEMENTS
        .iter()
        .find_map(parts)
        .unwrap_or((factory, None));
    if coded.contains("RFlat") || coded.contains("Refine(") {
        return Err(
            "it refines in a way that is not supported; end it with one RFlat, Refine(Flat), Refine(SQ8), Refine(SQfp16) or Refine(SQbf16)",
        );
    }
    Ok((coded, format))
}

/// The map at the beginning, if there is one, and the rest.
fn linear(factory: &str, dim: usize) -> Result<(Option<&str>, &str), &'static str> {
    let Some((map, _)) = factory.split_once(",IVF") else {
        return Ok((None, factory));
    };
    for part in map.split(',') {
        let kind = part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        match kind {
            "OPQ" | "PCA" | "PCAR" | "PCAW" | "PCAWR" | "RR" => {}
            "IDMap" => return Err("inverted lists keep ids themselves; drop the IDMap"),
            "L2norm" => {
                return Err("rows of length 1 are what Metric::Cosine makes; drop the L2norm");
            }
            _ => {
                return Err(
                    "before the lists may stand OPQ<m>, OPQ<m>_<d>, PCA<d>, PCAR<d>, PCAW<d> or RR<d>; apply other transforms to \
                     rows and queries yourself",
                );
            }
        }
        // Faiss allocates what it will have to fill.
        let components = part[kind.len()..].rsplit('_').next().unwrap_or_default();
        if kind != "OPQ" || part.contains('_') {
            let within = |components: usize| (1..=2 * dim).contains(&components);
            if !components.is_empty() && !components.parse().is_ok_and(within) {
                return Err(
                    "its transform must leave between 1 and twice as many components as rows have",
                );
            }
        }
    }
    Ok((Some(map), &factory[map.len() + 1..]))
}

/// The number of inverted lists that a description, or a part of one, asks for.
fn lists(factory: &str) -> Result<usize, &'static str> {
    let Some((number, _)) = number_of_lists(factory) else {
        return Err("it does not begin with IVF");
    };
    match number {
        None => Err("no number of lists follows IVF"),
        Some(0) => Err("it asks for no lists"),
        Some(lists) => Ok(lists),
    }
}

/// The number behind `IVF`, `None` if there is none that fits, and what follows it.
fn number_of_lists(factory: &str) -> Option<(Option<usize>, &str)> {
    let rest = factory.strip_prefix("IVF")?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    let (multiplier, rest) = match rest.as_bytes().first() {
        Some(b'k') => (1 << 10, &rest[1..]),
        Some(b'M') => (1 << 20, &rest[1..]),
        _ => (1, rest),
    };
    let number = number.parse::<usize>().ok();
    Some((number.and_then(|n| n.checked_mul(multiplier)), rest))
}

/// `factory` without groups of its `lists`, and their number, if there are any.
fn groups(factory: &str, lists: usize) -> Result<(Cow<'_, str>, Option<usize>), &'static str> {
    let nested = |factory: &str| -> Option<(Option<usize>, usize, usize)> {
        let open = factory.find("(IVF")?;
        let (number, rest) = number_of_lists(&factory[open + 1..])?;
        let rest = rest.strip_prefix(",Flat)")?;
        Some((number, open, factory.len() - rest.len()))
    };
    let Some((number, open, close)) = nested(factory) else {
        return Ok((Cow::Borrowed(factory), None));
    };
    match number {
        Some(groups) if (2..=lists).contains(&groups) => {
            let coded = format!("{}{}", &factory[..open], &factory[close..]);
            Ok((Cow::Owned(coded), Some(groups)))
        }
        _ => Err(
            "the lists in brackets group those before them: at least 2, and no more than there are",
        ),
    }
}

/// `coded` so that Faiss leaves a product quantizer's centroids in the order of their training. Otherwise it sorts them
/// for comparisons of codes by Hamming distance, which takes seconds, and no search here compares so.
fn without_polysemy(coded: Cow<'_, str>) -> Cow<'_, str> {
    let code = coded
        .rsplit(',')
        .next()
        .and_then(|code| code.strip_prefix("PQ"));
    match code {
        Some(code) if code.split('x').all(|number| number.parse::<u32>().is_ok()) => {
            Cow::Owned(format!("{coded}np"))
        }
        _ => coded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(factory: &str) -> Result<Description<'_>, String> {
        Description::parse(factory, 64).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_the_list_count_as_faiss_does() {
        let lists = |factory| parse(factory).map(|parts| parts.lists);
        assert_eq!(lists("IVF256,Flat"), Ok(256));
        assert_eq!(lists("IVF4k,SQ8"), Ok(4096));
        assert_eq!(lists("IVF1M_HNSW32,PQ16"), Ok(1 << 20));
        assert_eq!(lists("IVF16(IVF4,Flat),Flat"), Ok(16));
        assert_eq!(lists("OPQ8,IVF16,PQ8"), Ok(16));
    }

    #[test]
    fn each_part_is_found() {
        let description = parse("PCA40,OPQ8_32,IVF4k(IVF64,Flat),PQ8x4fs,Refine(SQ8)").unwrap();
        let expected = Description {
            linear: Some("PCA40,OPQ8_32"),
            lists: 4096,
            groups: Some(64),
            coded: Cow::Borrowed("IVF4k,PQ8x4fs"),
            refined_by: Some(RowFormat::Sq8),
        };
        assert_eq!(description, expected);
        let description = parse("IVF64_HNSW32,PQ16").unwrap();
        let expected = Description {
            linear: None,
            lists: 64,
            groups: None,
            coded: Cow::Borrowed("IVF64_HNSW32,PQ16np"),
            refined_by: None,
        };
        assert_eq!(description, expected);
        assert_eq!(parse("IVF64,PQ8x4").unwrap().coded, "IVF64,PQ8x4np");
        for code in ["PQ16np", "PQ8x4fs", "PQ4+4", "SQ8"] {
            let factory = format!("IVF64,{code}");
            assert_eq!(parse(&factory).unwrap().coded, factory);
        }
        for (end, format) in REFINEMENTS {
            let factory = format!("IVF64,PQ16{end}");
            assert_eq!(
                parse(&factory).unwrap().refined_by,
                Some(format),
                "{factory}"
            );
        }
    }

    #[test]
    fn refuses_descriptions_with_a_reason() {
        for (factory, reason) in [
            ("", "begin"),
            ("HNSW32", "begin"),
            ("IVF,Flat", "number"),
            ("IVF0,Flat", "no lists"),
            ("IVF99999999999999999999,Flat", "number"),
            ("ITQ32,IVF64,PQ16", "before the lists may stand"),
            ("L2norm,IVF64,Flat", "Cosine"),
            ("PCA32,L2norm,IVF64,Flat", "Cosine"),
            ("IDMap,IVF64,Flat", "IDMap"),
            ("PCA1000000000,IVF64,Flat", "twice as many"),
            ("PCA0,IVF64,Flat", "twice as many"),
            ("OPQ8_99999999999999999999,IVF64,PQ8", "twice as many"),
            ("IVF64(IVF65,Flat),Flat", "group"),
            ("IVF64(IVF1,Flat),Flat", "group"),
            ("IVF64,PQ16,Refine(PQ32)", "end it with"),
            ("IVF64,PQ16,Refine(SQ4)", "end it with"),
            ("IVF64,PQ16,RFlat,RFlat", "end it with"),
            ("IVF64,RFlat,PQ16", "end it with"),
            ("IVF64,PQ16,Refine(Flat", "end it with"),
        ] {
            let refused = parse(factory).unwrap_err();
            assert!(refused.contains(reason), "{factory:?}: {refused}");
        }
    }
}
