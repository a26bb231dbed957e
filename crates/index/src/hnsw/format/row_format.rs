//! The formats in which a graph can keep its rows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::kernel::{self, Element};
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
    /// 1 byte: 256 equal steps between the smallest and the largest value, the same step for all components. Under L2 and
    /// cosine, at most one row in a thousand that has a component at more than twice the distance from its component's
    /// median that the other rows keep is left out of this range, so that it does not coarsen all others. Such a row is
    /// kept at the range's edge, with its distance from there added to all its distances: it is found as a far row, but
    /// not as the nearest of a query beside it. Queries may lie outside the range; they take two to three times the
    /// arithmetic. Under inner product the range is that of all rows, as the longest are the answers.
    Sq8,
    /// Half a byte: 16 equal steps about each component's median, in 32 bytes or whole cache lines. It needs
    /// [`HnswConfig::rerank`](crate::HnswConfig::rerank): the walk finds candidates, and the second copy of the rows decides
    /// among them.
    ///
    /// Where the codes leave four bytes, as with 50 or 100 components, each row has a step of its own. Else, as with 64, 128, 256 or
    /// 384, all rows have the same step, the one that changes a sample of them least; under L2 and cosine the hundredth that
    /// it changes most does not count. Rows are rotated first, by a fixed random rotation, where that changes them by a quarter
    /// less. Rows much nearer to each other than to their median, as in tight clusters, lose recall: take [`RowFormat::Sq8`].
    Sq4,
}

impl RowFormat {
    /// Components that a row may have.
    pub(crate) fn most_components(self) -> usize {
        match self {
            Self::Sq8 | Self::Sq4 => kernel::MAX_DIM,
            Self::F32 | Self::F16 | Self::Bf16 => rows::MAX_DIM,
        }
    }

    pub(crate) fn element(self) -> Option<Element> {
        match self {
            Self::F32 => Some(Element::F32),
            Self::F16 => Some(Element::F16),
            Self::Bf16 => Some(Element::Bf16),
            Self::Sq8 | Self::Sq4 => None,
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
        }
    }

    /// Bytes from one row of `dim` components to the next in a table: whole cache lines of 64 bytes where that adds at
    /// most a fifth and at most 24 bytes, else whole 4 bytes. A padded short row touches one line where it would often
    /// touch two; a long row gains nothing (`docs/performance.md`). 4-bit rows have half a line or whole ones.
    ///
    /// ```
    /// use chiplet_index::RowFormat;
    /// assert_eq!(RowFormat::Sq8.stride(50), 64);
    /// assert_eq!(RowFormat::F32.stride(50), 200);
    /// assert_eq!([RowFormat::Sq4.stride(50), RowFormat::Sq4.stride(384)], [32, 192]);
    /// ```
    pub fn stride(self, dim: usize) -> usize {
        let bytes = match self {
            Self::Sq4 => return kernel::nibble_bytes(dim),
            Self::Sq8 => kernel::row_bytes(dim),
            Self::F32 | Self::F16 | Self::Bf16 => self.bytes(dim).next_multiple_of(4),
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
    /// Whether a graph can keep its rows so beside a second copy in `rerank`. If not, what that must be.
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
        match (self, rerank) {
            (_, Some(Self::Sq4)) => Err(("sq4".to_owned(), "f32, f16, bf16 or sq8")),
            (Self::Sq4, None) => Err((
                "none".to_owned(),
                "f32, f16, bf16 or sq8 beside rows of sq4",
            )),
            _ => Ok(()),
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
            other => Err(format!(
                "{other:?} is no row format; give f32, f16, bf16, sq8 or sq4"
            )),
        }
    }
}
