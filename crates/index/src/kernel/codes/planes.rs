//! Rows of 4, 2 or 1 bits a component, in half a cache line or whole ones.
//!
//! A byte holds as many codes as fit it, one of each *plane*: of 2 bits there are four planes. Plane `p` has the codes
//! from `p * part` on, `part` of them, where `part` is the dimension divided by the planes, rounded up. Byte `i` of a
//! row has code `i` of plane 0 in its lowest bits, that of plane 1 above them, and so on. So one shift and one mask
//! make a whole register of codes that lie side by side, as their weights do.
//!
//! Behind the codes is the row's [`Own`] scale. Rows of 4 bits have none where it would take another cache line; one
//! step stands for all of them.

use super::super::portable::Portable;
use super::own::{OWN, Own};
use super::sums::{Kind, Sums};

/// Bits of a code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Width {
    One,
    Two,
    #[default]
    Four,
}

impl Width {
    const fn bits(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// Codes that a byte holds.
    pub(crate) const fn planes(self) -> usize {
        8 / self.bits()
    }

    /// The largest code.
    pub(crate) const fn most(self) -> u8 {
        (1 << self.bits()) - 1
    }

    /// The code of a component that is 0, in rows with a scale of their own. Of 4 bits it is a code, so that a value
    /// that most rows share, as 0 in sparse ones, is kept as it is. Of fewer it lies between two: there is no code to
    /// spare.
    pub(crate) const fn middle(self) -> f32 {
        match self {
            Self::One => 0.5,
            Self::Two => 1.5,
            Self::Four => 7.0,
        }
    }

    /// Components of `dim` that have codes: of 4 bits all. Of fewer, which are of rotated rows, the first that fit into
    /// a cache line less, if these are all but a 16th. A row's own scale makes up for the others as it does for
    /// rounding.
    pub(crate) fn kept(self, dim: usize) -> usize {
        let most = match (self, self.size(dim)) {
            (Self::Four, _) | (_, 32) => return dim,
            (_, 64) => self.planes() * (32 - OWN),
            (_, bytes) => self.planes() * (bytes - 64 - OWN),
        };
        if most >= dim - dim / 16 { most } else { dim }
    }

    /// Codes of a plane, of so many in all.
    pub(super) fn part(self, codes: usize) -> usize {
        codes.div_ceil(self.planes())
    }

    /// Bytes of a row of `dim` components: half a cache line, or whole ones.
    pub(crate) fn row_bytes(self, dim: usize) -> usize {
        self.size(self.kept(dim))
    }

    fn size(self, codes: usize) -> usize {
        let own = match self {
            Self::One | Self::Two => OWN,
            Self::Four => 0,
        };
        match self.part(codes) + own {
            ..=32 => 32,
            bytes => bytes.next_multiple_of(64),
        }
    }

    /// Whether rows of `dim` components have a scale of their own.
    pub(crate) fn has_own(self, dim: usize) -> bool {
        self.part(self.kept(dim)) + OWN <= self.row_bytes(dim)
    }
}

/// Writes `codes` of this `width`, one for each component that is [kept](Width::kept), to `row`, which has
/// [`Width::row_bytes`], with the row's own scale, if it has one.
///
/// # Panics
/// If there is no room for that.
pub(crate) fn write_planes(width: Width, codes: &[u8], own: Option<Own>, row: &mut [u8]) {
    row.fill(0);
    for (plane, codes) in codes.chunks(width.part(codes.len()).max(1)).enumerate() {
        for (out, code) in row.iter_mut().zip(codes) {
            *out |= code << (plane * width.bits());
        }
    }
    if let Some(own) = own {
        let at = row.len() - OWN;
        assert!(width.part(codes.len()) <= at, "no room");
        row[at..].copy_from_slice(&own.to_bytes());
    }
}

/// Rows of codes of `BITS`. What is summed is, of all codes `r` with their weights `w`, `r w`, or if `SQUARED`
/// `2 r^2 - r w`.
#[derive(Clone, Copy)]
pub(super) struct Planes<const BITS: usize, const SQUARED: bool> {
    /// Bytes of a row: 32, or whole 64.
    pub(super) bytes: usize,
}

impl<const BITS: usize, const SQUARED: bool> Planes<BITS, SQUARED> {
    /// How many there are.
    pub(super) const COUNT: usize = 8 / BITS;
    /// The largest code, whose bits are all set.
    pub(super) const MOST: u8 = ((1_u16 << BITS) - 1) as u8;
}

impl<const BITS: usize, const SQUARED: bool> Kind for Planes<BITS, SQUARED> {
    fn weights(self) -> usize {
        Self::COUNT * self.bytes
    }

    fn bytes(self) -> usize {
        self.bytes
    }
}

/// SAFETY of the blocks below: by the caller.
impl<const BITS: usize, const SQUARED: bool> Sums<Portable> for Planes<BITS, SQUARED> {
    #[inline(always)]
    unsafe fn one(self, weights: *const i8, row: *const u8) -> i32 {
        let (weights, row) = unsafe {
            (
                std::slice::from_raw_parts(weights, Self::COUNT * self.bytes),
                std::slice::from_raw_parts(row, self.bytes),
            )
        };
        // 16 bits hold a register's products (x86), and let the compiler take more of them at once.
        let product = |code: u8, weight: i8| {
            let (code, weight) = (i16::from(code), i16::from(weight));
            if SQUARED {
                code * (2 * code - weight)
            } else {
                code * weight
            }
        };
        let mut sum = 0;
        for (plane, weights) in weights.chunks_exact(self.bytes).enumerate() {
            let codes = row.iter().map(|byte| byte >> (plane * BITS) & Self::MOST);
            let products = codes.zip(weights).map(|(code, &w)| product(code, w));
            sum += products.map(i32::from).sum::<i32>();
        }
        sum
    }

    #[inline(always)]
    unsafe fn four(self, weights: *const i8, rows: [*const u8; 4]) -> [i32; 4] {
        rows.map(|row| unsafe { Sums::<Portable>::one(self, weights, row) })
    }
}
