//! A row's own scale, and what else of it a distance needs, in the last four bytes of the row.
//!
//! With a scale `f` of its own a row of codes `r` about their middle `m` stands for `f (r - m)`. Its product with a
//! query `q` and the squared distance to it are
//!
//! ```text
//! f sum q (r - m)        sum q^2 + l - 2 f sum q (r - m)
//! ```
//!
//! `f` is what makes the product of the row before it was coded with its codes the row's squared length. So the product
//! with a query is right on average over all rotations (Gao and Long, "RaBitQ", 2024, theorem 3.2).
//!
//! For products the four bytes are `f`. For squared distances they are `f`, of 6 significant bits, and `l`, of 12. `l`
//! is chosen so that the distance from the row itself is 0 whatever `f` was rounded to. So what rounding does to a
//! distance is little where the query is near.

/// Bytes of a row's own scale and length.
pub(super) const OWN: usize = 4;

/// A row's own scale, and its squared length where that is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own(u32);

/// Bits of a float that are cut off: of a scale beside a squared length, and of the length. Neither has a sign.
const SCALE_CUT: u32 = 18;
const LENGTH_CUT: u32 = 12;

impl Own {
    /// For products: the scale that makes of `product`, of the row with its codes about their middle, the row's squared
    /// length.
    pub(crate) fn for_products(product: f64, squares: f64) -> Self {
        Self(scale(product, squares).to_bits())
    }

    /// For squared distances, of the same.
    pub(crate) fn for_distances(product: f64, squares: f64) -> Self {
        let rounded = cut(scale(product, squares), SCALE_CUT);
        let scale = f64::from(f32::from_bits(rounded << SCALE_CUT));
        let length = (2.0 * scale * product - squares).max(0.0) as f32;
        Self(rounded << (31 - LENGTH_CUT) | cut(length, LENGTH_CUT))
    }

    pub(super) fn from_bytes(bytes: [u8; OWN]) -> Self {
        Self(u32::from_le_bytes(bytes))
    }

    pub(super) fn to_bytes(self) -> [u8; OWN] {
        self.0.to_le_bytes()
    }

    pub(super) fn scale(self) -> f32 {
        f32::from_bits(self.0)
    }

    pub(super) fn scale_and_length(self) -> (f32, f32) {
        let length = self.0 & ((1 << (31 - LENGTH_CUT)) - 1);
        (
            f32::from_bits(self.0 >> (31 - LENGTH_CUT) << SCALE_CUT),
            f32::from_bits(length << LENGTH_CUT),
        )
    }
}

fn scale(product: f64, squares: f64) -> f32 {
    if product > 0.0 {
        (squares / product) as f32
    } else {
        0.0
    }
}

/// The bits of a float of 0 and more, rounded to those above the lowest `bits`.
fn cut(x: f32, bits: u32) -> u32 {
    (x.to_bits() + (1 << (bits - 1))).min(f32::MAX.to_bits()) >> bits
}
