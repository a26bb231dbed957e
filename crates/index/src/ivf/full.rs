//! The rows once more beside their codes, for tables that refine their answers (`..,RFlat`).

use serde::{Deserialize, Serialize};

use crate::hnsw::RowFormat;

/// How the rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Full {
    pub(super) format: RowFormat,
    /// The step of 8-bit codes; 1 for other rows.
    pub(super) step: f32,
    /// Whether the rows have other ids than their numbers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) ids: bool,
}

impl Full {
    /// Bytes from one row of `dim` to the next: rows of 8 bits have constants.
    pub(super) fn stride(self, dim: usize) -> usize {
        self.format.stride_with(dim, true)
    }

    /// Bytes of `rows` rows of `dim`, if there are not too many.
    pub(super) fn bytes(self, rows: usize, dim: usize) -> Option<usize> {
        rows.checked_mul(self.stride(dim))
    }

    /// Values that say what 8-bit codes stand for.
    pub(super) fn values(self, dim: usize) -> usize {
        if self.format == RowFormat::Sq8 {
            dim
        } else {
            0
        }
    }

    /// Why no table of rows of `dim` has these.
    pub(super) fn check(self, dim: usize) -> Result<(), &'static str> {
        if self.format.few_bits().is_some() {
            return Err("its full rows have codes of few bits");
        }
        if dim > self.format.most_components() {
            return Err("its full rows have too many components");
        }
        if !(self.step > 0.0 && (1.0 / self.step).is_finite()) {
            return Err("the step of its full rows is no number above 0");
        }
        Ok(())
    }
}
