//! The formats in which a graph can keep its rows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::kernel::{self, Element, Width};
use crate::rows;

/// How a table stores the rows that a search reads. Fewer bytes let a cache hold more rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RowFormat {
    /// 4 bytes a component, as they came.
    #[default]
    F32,
    /// 2 bytes: IEEE 754 half precision, 11 bits of a number, up to 65,504 in size and down to 6e-5; below it bits are
    /// lost, and rows that would lose too many are refused.
    F16,
    /// 2 bytes: bfloat16, 8 bits of a number, the range of `f32`.
    Bf16,
    /// 1 byte: 256 equal steps between the smallest and the largest value, the same step for all components. Under L2
    /// and cosine, at most one row in a thousand that has a component at more than twice the distance from its
    /// component's median that the other rows keep is left out of this range, so that it does not coarsen all others.
    /// Such a row is kept at the range's edge, with its distance from there added to all its distances: it is found as
    /// a far row, but not as the nearest of a query beside it. Queries may lie outside the range; they take two to
    /// three times the arithmetic. Under inner product the range is that of all rows, as the longest are the answers.
    Sq8,
    /// Half a byte: 16 equal steps about each component's median, in 32 bytes or whole cache lines. It needs
    /// [`HnswConfig::rerank`](crate::HnswConfig::rerank): the walk finds candidates, and the second copy of the rows
    /// decides among them.
    ///
    /// Where the codes leave four bytes, as with 50 or 100 components, each row has a step of its own. Else, as with
    /// 64, 128, 256 or 384, all rows have the same step, the one that changes a sample of them least; under L2 and
    /// cosine the hundredth that it changes most does not count. Rows are rotated first, by a fixed random rotation,
    /// where that changes them by a quarter less. Rows much nearer to each other than to their median, as in tight
    /// clusters, lose recall: take [`RowFormat::Sq8`].
    Sq4,
    /// A quarter of a byte: 4 equal steps about the middle of all rows, in 32 bytes or whole cache lines. As
    /// [`RowFormat::Sq4`], but rows are always rotated, and each has a step of its own. So rows of very different
    /// lengths are no worse than others. Where leaving out up to a 16th of the rotated components saves a cache line,
    /// they are left out.
    ///
    /// It finds less at the same `ef`, and for few rows more at the same bytes; a walk should keep twice as many
    /// candidates as rows are asked for. For more than 128 components: of fewer, [`RowFormat::Sq4`] takes hardly more
    /// bytes.
    Sq2,
    /// An eighth of a byte: on which side of the middle of all rows each component lies. Otherwise as
    /// [`RowFormat::Sq2`], with four times as many candidates as rows are asked for. For 384 components and more.
    Sq1,
}

impl RowFormat {
    /// Components that a row may have.
    pub(crate) fn most_components(self) -> usize {
        match self {
            Self::Sq8 | Self::Sq4 | Self::Sq2 | Self::Sq1 => kernel::MAX_DIM,
            Self::F32 | Self::F16 | Self::Bf16 => rows::MAX_DIM,
        }
    }

    pub(crate) fn element(self) -> Option<Element> {
        match self {
            Self::F32 => Some(Element::F32),
            Self::F16 => Some(Element::F16),
            Self::Bf16 => Some(Element::Bf16),
            Self::Sq8 | Self::Sq4 | Self::Sq2 | Self::Sq1 => None,
        }
    }

    /// Bits of a code, of rows that have so few that they must be re-ranked.
    pub(crate) fn few_bits(self) -> Option<Width> {
        match self {
            Self::Sq4 => Some(Width::Four),
            Self::Sq2 => Some(Width::Two),
            Self::Sq1 => Some(Width::One),
            Self::F32 | Self::F16 | Self::Bf16 | Self::Sq8 => None,
        }
    }

    /// Bytes of `dim` components and nothing else. A row of an inverted list has no more, a row of a graph see
    /// [`RowFormat::stride`].
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert_eq!(RowFormat::Bf16.bytes(3), 6);
    /// assert_eq!(RowFormat::Sq4.bytes(3), 2);
    /// ```
    #[doc(hidden)]
    pub fn bytes(self, dim: usize) -> usize {
        match self {
            Self::F32 => 4 * dim,
            Self::F16 | Self::Bf16 => 2 * dim,
            Self::Sq8 => dim,
            Self::Sq4 => dim.div_ceil(2),
            Self::Sq2 => dim.div_ceil(4),
            Self::Sq1 => dim.div_ceil(8),
        }
    }

    /// Bytes from one row of `dim` components to the next in a table: whole cache lines of 64 bytes where that adds at
    /// most a fifth and at most 24 bytes, else whole 4 bytes. A padded short row touches one line where it would often
    /// touch two; a long row gains nothing (`results/lab/2026-11/performance.md`). Rows of 4 bits and fewer
    /// have half a line or whole ones. Rows of 64, 128, 192, .. components in 8 bits have 4 bytes more in a table where
    /// one is out of the codes' range.
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert_eq!(RowFormat::Sq8.stride(50), 64);
    /// assert_eq!(RowFormat::Sq8.stride(128), 128);
    /// assert_eq!(RowFormat::F32.stride(50), 200);
    /// assert_eq!([RowFormat::Sq4.stride(50), RowFormat::Sq4.stride(384)], [32, 192]);
    /// assert_eq!([RowFormat::Sq2.stride(384), RowFormat::Sq1.stride(384)], [128, 64]);
    /// ```
    pub fn stride(self, dim: usize) -> usize {
        self.stride_with(dim, !Self::constant_costs_a_line(dim))
    }

    /// Whether a constant behind 8-bit codes has the row begin another cache line.
    pub(super) fn constant_costs_a_line(dim: usize) -> bool {
        dim.is_multiple_of(64)
    }

    /// [`RowFormat::stride`] of rows with constants, if they are of 8 bits, or without.
    pub(crate) fn stride_with(self, dim: usize, constants: bool) -> usize {
        if let Some(width) = self.few_bits() {
            return width.row_bytes(dim);
        }
        let bytes = match self {
            Self::Sq8 => kernel::row_bytes(dim, constants),
            _ => self.bytes(dim).next_multiple_of(4),
        };
        let padding = bytes.next_multiple_of(64) - bytes;
        if padding <= bytes / 5 && padding <= 24 {
            bytes + padding
        } else {
            bytes
        }
    }
}

impl RowFormat {
    /// Whether a graph can keep rows of this format with a second copy in `rerank`. If not, the error says which
    /// formats it can have.
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert!(RowFormat::Sq4.check_rerank(Some(RowFormat::F16)).is_ok());
    /// assert!(RowFormat::Sq4.check_rerank(None).is_err());
    /// ```
    ///
    /// # Errors
    /// The value refused, and the values accepted.
    #[doc(hidden)]
    pub fn check_rerank(self, rerank: Option<Self>) -> Result<(), (String, &'static str)> {
        match rerank {
            Some(rerank) if rerank.few_bits().is_some() => {
                Err((rerank.to_string(), "f32, f16, bf16 or sq8"))
            }
            None if self.few_bits().is_some() => Err((
                "none".to_owned(),
                "f32, f16, bf16 or sq8 beside rows of sq4, sq2 and sq1",
            )),
            _ => Ok(()),
        }
    }

    /// Whether a graph of such rows without a second copy can serve inside [`Refined`](crate::Refined), which asks for
    /// as many candidates as rows of 4 bits need.
    pub(crate) fn can_be_alone(self, rerank: Option<Self>) -> bool {
        self == Self::Sq4 && rerank.is_none()
    }

    /// Candidates that a walk for `k` rows keeps to be compared once more: those that it follows, or half as many again
    /// as are wanted. Where `ef` is `k`, the `k` nearest by codes are not the `k` nearest: rows of 4 bits found 0.93 of
    /// the nearest 100 where whole rows found 0.97 (MiniLM, 20,000 x 384, `ef` 100).
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert_eq!([RowFormat::kept(10, 40), RowFormat::kept(100, 100)], [40, 150]);
    /// ```
    #[doc(hidden)]
    pub fn kept(k: usize, ef: usize) -> usize {
        ef.max(k.saturating_add(k / 2))
    }

    /// Candidates that a search for `k` rows compares once more if a walk over rows of this format re-ranks: the `k`,
    /// and those that the coarser rows may have put behind them by mistake. A search that keeps fewer candidates
    /// ([`RowFormat::kept`]) compares all of them. Other tables that compare candidates once more go by the rule of 4
    /// bits and more.
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert_eq!(RowFormat::Sq8.reranked(10), 31);
    /// ```
    #[doc(hidden)]
    pub fn reranked(self, k: usize) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::Sq8 | Self::Sq4 => {
                k.saturating_add(k / 2).saturating_add(16)
            }
            // More candidates find less for their bytes than a longer walk (`results/lab/2026-11/row-formats.md`).
            Self::Sq2 => k.saturating_mul(3).saturating_add(18),
            Self::Sq1 => k.saturating_mul(4).saturating_add(60),
        }
    }

    /// Candidates that a search for `k` rows keeps at least if it does not say how many: of 2 bits and fewer those that
    /// are compared once more, as the nearest `k` of such a walk are not the nearest rows.
    pub(crate) fn least_ef(self, k: usize) -> usize {
        match self {
            Self::Sq2 | Self::Sq1 => self.reranked(k),
            Self::F32 | Self::F16 | Self::Bf16 | Self::Sq8 | Self::Sq4 => k,
        }
    }
}

impl fmt::Display for RowFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Sq8 => "sq8",
            Self::Sq4 => "sq4",
            Self::Sq2 => "sq2",
            Self::Sq1 => "sq1",
        })
    }
}

impl FromStr for RowFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            "sq8" => Ok(Self::Sq8),
            "sq4" => Ok(Self::Sq4),
            "sq2" => Ok(Self::Sq2),
            "sq1" => Ok(Self::Sq1),
            other => Err(format!(
                "{other:?} is no row format; give f32, f16, bf16, sq8, sq4, sq2 or sq1"
            )),
        }
    }
}
