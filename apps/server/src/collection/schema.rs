//! What a collection is: its vectors' dimension and distance, and how it is indexed. Kept beside its points.

use std::collections::BTreeMap;

use chiplet::index::{Metric, RowFormat};
use serde::{Deserialize, Serialize};

/// How far apart two vectors are, by the API's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Distance {
    Cosine,
    Dot,
    Euclid,
}

impl Distance {
    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Cosine => Metric::Cosine,
            Self::Dot => Metric::InnerProduct,
            Self::Euclid => Metric::L2,
        }
    }

    /// The API's score for the executor's distance: larger is nearer for cosine and dot, smaller for Euclid.
    pub(crate) fn score(self, distance: f32) -> f32 {
        match self {
            Self::Cosine => 1.0 - distance,
            Self::Dot => 0.0 - distance,
            Self::Euclid => distance.max(0.0).sqrt(),
        }
    }

    /// Whether a score is nearer than a threshold; one that is just as near is not, as the API has it.
    pub(crate) fn passes(self, score: f32, threshold: f32) -> bool {
        match self {
            Self::Cosine | Self::Dot => score > threshold,
            Self::Euclid => score < threshold,
        }
    }
}

/// Which index a collection has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum IndexKind {
    /// A graph: links of a point on each upper layer, candidates kept while one is inserted.
    Hnsw {
        m: usize,
        ef_construct: usize,
        /// The codes of its vectors, if it has codes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        codes: Option<RowFormat>,
    },
    /// Inverted lists (Faiss): lists, the code of a vector, and how many lists a query visits.
    Ivf {
        nlist: usize,
        code: String,
        nprobe: usize,
    },
    /// None: every query is exact.
    Flat,
}

impl IndexKind {
    /// Points without which the index cannot be trained: Faiss wants as many as a code has values.
    pub(crate) fn fewest_points(&self) -> usize {
        match self {
            Self::Ivf { code, .. } if code.ends_with("x4fs") => 16,
            Self::Ivf { code, .. } if code.starts_with("PQ") => 256,
            _ => 1,
        }
    }

    /// Whether the index has codes of the rows, rather than the rows.
    pub(crate) fn is_coded(&self) -> bool {
        match self {
            Self::Hnsw { codes, .. } => codes.is_some(),
            Self::Ivf { code, .. } => code != "Flat",
            Self::Flat => false,
        }
    }

    /// Whether its queries visit inverted lists.
    pub(crate) fn has_lists(&self) -> bool {
        matches!(self, Self::Ivf { .. })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hnsw { .. } => "hnsw",
            Self::Ivf { .. } => "ivf",
            Self::Flat => "flat",
        }
    }
}

/// A quantisation that the API has: what a client asked for, to be given back. What it comes to is in the
/// [`IndexKind`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub(crate) enum Quantization {
    /// Scalar, of 8 bits. The quantile changes nothing: a graph's codes leave out wild values by a rule of their own,
    /// lists' codes none.
    Int8 { quantile: Option<f32> },
    /// TurboQuant of 4 bits.
    Turbo4,
}

impl Quantization {
    /// The codes of a graph.
    pub(crate) fn row_format(self) -> RowFormat {
        match self {
            Self::Int8 { .. } => RowFormat::Sq8,
            Self::Turbo4 => RowFormat::Sq4,
        }
    }

    /// The code of inverted lists, by Faiss' name.
    pub(crate) fn list_code(self) -> &'static str {
        match self {
            Self::Int8 { .. } => "SQ8",
            Self::Turbo4 => "SQ4",
        }
    }
}

/// A collection's settings, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) dim: usize,
    pub(crate) distance: Distance,
    pub(crate) index: IndexKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quantization: Option<Quantization>,
    /// Bytes of vectors below which no index is built.
    pub(crate) full_scan_bytes: u64,
    /// Bytes of vectors written since the index was built that call for a new one.
    pub(crate) rebuild_bytes: u64,
    /// What the client stored with the collection, as JSON.
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, serde_json::Value>,
    /// Payload fields that clients declared, with the API's number of their type.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings stored before there were codes of graphs are read, and what an index is saved by (`saved::fingerprint`)
    /// is as it was.
    #[test]
    fn settings_of_before_are_read() {
        let index = r#"{"kind":"hnsw","m":16,"ef_construct":200}"#;
        let stored = format!(
            r#"{{"dim":3,"distance":"dot","index":{index},"full_scan_bytes":1,"rebuild_bytes":2,"metadata":{{}},"fields":{{}}}}"#
        );
        let mut settings: Settings = serde_json::from_str(&stored).unwrap();
        assert!(!settings.index.is_coded() && settings.quantization.is_none());
        assert_eq!(serde_json::to_string(&settings).unwrap(), stored);
        let coded = r#"{"kind":"hnsw","m":16,"ef_construct":200,"codes":"sq4"}"#;
        settings.index = serde_json::from_str(coded).unwrap();
        settings.quantization = Some(Quantization::Turbo4);
        assert!(settings.index.is_coded());
        assert_eq!(serde_json::to_string(&settings.index).unwrap(), coded);
        let stored = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&stored).unwrap(), settings);
    }
}
