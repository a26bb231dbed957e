//! Distances from one query to many rows, by the widest vector instructions that the processor has.
//!
//! | file | holds |
//! |---|---|
//! | `level` | which instructions are used, chosen once |
//! | `isa`, `avx512`, `avx2`, `portable` | sixteen lanes of `f32`, by each set of instructions |
//! | `floats` | squared L2 and inner products over `f32`, `f16` and `bf16` rows |
//! | `codes` | integer distances over 8-bit and 4-bit codes |
//! | `blocks` | distances of rows stored component by component: inverted lists |
//! | `lookup` | distances of product-quantizer codes: sums of table entries |
//! | `fast_scan` | which such rows may be near enough: sums of rounded entries |
//! | `lanewise` | operations of the last three that keep lanes apart |
//! | `prefetch` | a hint that some bytes will be read |
//!
//! Each `unsafe` block of this folder cites one of two reasons:
//!
//! - **Detected.** A function compiled for some instructions is called only where [`level`] has found them.
//! - **Inside.** [`Rows`] holds `count` whole rows of `stride` bytes each, of which a kernel reads the first `stride`;
//!   [`Rows::start`] compares a row number with `count`.
//!
//! **One order of addition.** Every level sums component `i` into lane `i % 16`, then lanes `i` and `i + 8`, `i + 4`,
//! `i + 2`, `i + 1`. So a row's distance is the same to the bit, however many rows are computed at once, with AVX2 and
//! AVX-512. The portable level has no fused multiply-add.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod codes;
mod fast_scan;
mod floats;
mod isa;
mod lanewise;
mod level;
mod lookup;
mod portable;
mod prefetch;

pub(crate) use blocks::{BLOCK, Cell, Form, List, SLACK, Sink, scan};
pub(crate) use lookup::{Bits, Codebook, Entry, Tables, scan_codes};

pub(crate) use codes::{
    CodeQuery, MAX_DIM, Own, PlaneQuery, Width, row_bytes, write_planes, write_row,
};
pub(crate) use floats::{Element, dot, squared_l2};
pub(crate) use prefetch::prefetch;

/// Lanes that every level sums in.
pub(crate) const LANES: usize = 16;

/// Rows of one size, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    stride: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// `bytes.len() / stride` rows. `stride >= 1`.
    pub(crate) fn new(bytes: &'a [u8], stride: usize) -> Self {
        Self {
            bytes,
            stride,
            count: bytes.len() / stride,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// The bytes of row `row`, if there is one.
    pub(crate) fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        self.bytes.chunks_exact(self.stride).nth(row)
    }

    /// Where row `row` begins.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline(always)]
    fn start(&self, row: usize) -> *const u8 {
        assert!(row < self.count, "no such row");
        self.bytes.as_ptr().wrapping_add(row * self.stride)
    }

    /// Whether the first `bytes` of row `row` are floats of `size` bytes each that are all zero.
    ///
    /// # Panics
    /// If there is no such row.
    pub(crate) fn is_zero(&self, row: usize, bytes: usize, size: usize) -> bool {
        let floats = self.bytes[row * self.stride..][..bytes].chunks_exact(size);
        // Little-endian: the sign is the highest bit of the last byte.
        let zero = |float: &[u8]| {
            let (last, others) = float.split_last().expect("a float has bytes");
            last & 0x7f == 0 && others.iter().all(|&byte| byte == 0)
        };
        floats.into_iter().all(zero)
    }

    /// Hints that the first `count` bytes of row `row` will be read.
    #[inline(always)]
    pub(crate) fn prefetch(&self, row: usize, count: usize) {
        let at = row.wrapping_mul(self.stride);
        prefetch(self.bytes.as_ptr().wrapping_add(at), count);
    }
}

/// Which rows a kernel computes.
pub(crate) trait Positions: Copy {
    /// How many.
    fn len(&self) -> usize;
    /// The row number of the `i`-th.
    fn at(&self, i: usize) -> usize;
    /// Whether the processor's own prefetcher cannot guess the next row.
    const SCATTERED: bool;
}

impl Positions for &[u32] {
    const SCATTERED: bool = true;

    #[inline(always)]
    fn len(&self) -> usize {
        <[u32]>::len(self)
    }

    #[inline(always)]
    fn at(&self, i: usize) -> usize {
        self[i] as usize
    }
}

/// Rows here and there, of tables that may have more than four bytes count.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a>(pub(crate) &'a [u64]);

impl Positions for Numbers<'_> {
    const SCATTERED: bool = true;

    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn at(&self, i: usize) -> usize {
        self.0[i] as usize
    }
}

/// Rows `start..end`, in order.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Positions for Span {
    const SCATTERED: bool = false;

    #[inline(always)]
    fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline(always)]
    fn at(&self, i: usize) -> usize {
        self.start + i
    }
}

#[cfg(test)]
mod tests;
