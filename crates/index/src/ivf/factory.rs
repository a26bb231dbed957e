//! From a factory string to a trained index, refusing early what Faiss would take badly.
//!
//! Faiss allocates the lists before it looks at the rest, so a list count is checked against the rows
//! first. Everything else a description can get wrong comes back as Faiss' own message.

use faiss::index::{Index, IndexImpl, index_factory};
use faiss::{MetricType, error};

use crate::error::BuildError;
use crate::hnsw::RowFormat;
use crate::metric::Metric;

/// An untrained index for `rows` rows of `dim`.
pub(super) fn create(
    factory: &str,
    dim: usize,
    rows: usize,
    metric: Metric,
) -> Result<IndexImpl, BuildError> {
    let refused = |reason: String| BuildError::Factory {
        factory: factory.to_owned(),
        reason,
    };
    let lists = lists(factory).map_err(|reason| refused(reason.to_owned()))?;
    // Faiss counts dimensions in an int.
    let limit = i32::MAX as usize;
    if dim > limit {
        return Err(BuildError::DimensionTooLarge { dim, limit });
    }
    if rows < lists {
        return Err(BuildError::TooFewRows { rows, lists });
    }
    let metric = match metric {
        Metric::L2 => MetricType::L2,
        // Cosine is the inner product of rows and queries of length 1.
        Metric::Cosine | Metric::InnerProduct => MetricType::InnerProduct,
    };
    index_factory(dim as u32, factory, metric).map_err(|error| refused(message(error)))
}

/// Trains `index` on `rows`.
pub(super) fn train(index: &mut IndexImpl, rows: &[f32]) -> Result<(), BuildError> {
    index
        .train(rows)
        .map_err(|error| BuildError::Faiss(message(error)))
}

/// Adds `rows` to `index` under the next ids.
pub(super) fn add(index: &mut IndexImpl, rows: &[f32]) -> Result<(), BuildError> {
    index
        .add(rows)
        .map_err(|error| BuildError::Faiss(message(error)))
}

fn message(error: error::Error) -> String {
    match error {
        error::Error::Native(native) => native.msg().to_owned(),
        other => other.to_string(),
    }
}

/// What a description says before its refinement, and how that keeps the rows a second time, if there is one.
///
/// # Errors
/// [`BuildError::Factory`] for a refinement that is none of these.
pub(super) fn refinement(factory: &str) -> Result<(&str, Option<RowFormat>), BuildError> {
    let ends = [
        (",RFlat", RowFormat::F32),
        (",Refine(Flat)", RowFormat::F32),
        (",Refine(SQ8)", RowFormat::Sq8),
        (",Refine(SQfp16)", RowFormat::F16),
        (",Refine(SQbf16)", RowFormat::Bf16),
    ];
    let parts = |&(end, format)| Some((factory.strip_suffix(end)?, Some(format)));
    let (coarse, format) = ends.iter().find_map(parts).unwrap_or((factory, None));
    if coarse.contains("RFlat") || coarse.contains("Refine(") {
        return Err(BuildError::Factory {
            factory: factory.to_owned(),
            reason: "it refines in a way that is not supported; end it with one RFlat, Refine(Flat), Refine(SQ8), Refine(SQfp16) or Refine(SQbf16)".to_owned(),
        });
    }
    Ok((coarse, format))
}

/// The number of inverted lists a description asks for.
fn lists(factory: &str) -> Result<usize, &'static str> {
    let Some(rest) = factory.strip_prefix("IVF") else {
        return Err(match factory.split_once(",IVF") {
            Some(("IDMap" | "IDMap2", _)) => "inverted lists keep ids themselves; drop the IDMap",
            Some(_) => "transforms are not supported; apply them to rows and queries yourself",
            None => "it does not begin with IVF",
        });
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    let multiplier = match rest.as_bytes().first() {
        Some(b'k') => 1 << 10,
        Some(b'M') => 1 << 20,
        _ => 1,
    };
    let lists = number
        .parse::<usize>()
        .ok()
        .and_then(|n| n.checked_mul(multiplier));
    match lists {
        None => Err("no number of lists follows IVF"),
        Some(0) => Err("it asks for no lists"),
        Some(lists) => Ok(lists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_list_count_as_faiss_does() {
        assert_eq!(lists("IVF256,Flat"), Ok(256));
        assert_eq!(lists("IVF4k,SQ8"), Ok(4096));
        assert_eq!(lists("IVF1M_HNSW32,PQ16"), Ok(1 << 20));
        assert_eq!(lists("IVF16(IVF4,Flat),Flat"), Ok(16));
    }

    #[test]
    fn a_refinement_is_the_last_part() {
        for (factory, parts) in [
            ("IVF64,PQ16", ("IVF64,PQ16", None)),
            ("IVF64,PQ16,RFlat", ("IVF64,PQ16", Some(RowFormat::F32))),
            (
                "IVF64,SQ8,Refine(Flat)",
                ("IVF64,SQ8", Some(RowFormat::F32)),
            ),
            (
                "IVF64,PQ8x4fs,Refine(SQ8)",
                ("IVF64,PQ8x4fs", Some(RowFormat::Sq8)),
            ),
            (
                "IVF64,PQ16,Refine(SQfp16)",
                ("IVF64,PQ16", Some(RowFormat::F16)),
            ),
            (
                "IVF64,PQ16,Refine(SQbf16)",
                ("IVF64,PQ16", Some(RowFormat::Bf16)),
            ),
        ] {
            assert_eq!(refinement(factory), Ok(parts));
        }
        for factory in [
            "IVF64,PQ16,Refine(PQ32)",
            "IVF64,PQ16,Refine(SQ4)",
            "IVF64,PQ16,RFlat,RFlat",
            "IVF64,RFlat,PQ16",
            "IVF64,PQ16,Refine(Flat",
        ] {
            let refused = refinement(factory).unwrap_err().to_string();
            assert!(refused.contains("end it with"), "{factory:?}: {refused}");
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
            ("OPQ16,IVF64,PQ16", "transforms"),
            ("PCA32,IVF64,Flat", "transforms"),
            ("IDMap,IVF64,Flat", "IDMap"),
        ] {
            let refused = lists(factory).unwrap_err();
            assert!(refused.contains(reason), "{factory:?}: {refused}");
        }
    }
}
