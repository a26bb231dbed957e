//! A linear map of rows and queries before lists and codes: what `OPQ..`, `PCA..` and `RR..` train.

use crate::kernel::{Element, Rows, Span, dot};

/// `y = matrix x + shift`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear<'a> {
    /// Components of `x`, at least one.
    pub(crate) from: usize,
    /// `[components of y][from]`.
    pub(crate) matrix: &'a [f32],
    /// One for each component of `y`.
    pub(crate) shift: &'a [f32],
}

impl Linear<'_> {
    /// Maps `x` to `y`.
    ///
    /// # Panics
    /// If they have other lengths.
    pub(super) fn map(self, x: &[f32], y: &mut [f32]) {
        assert_eq!(
            (x.len(), y.len(), self.matrix.len()),
            (self.from, self.shift.len(), self.from * y.len()),
            "vectors of another map"
        );
        let matrix = Rows::new(bytemuck::cast_slice(self.matrix), size_of_val(x));
        let all = Span {
            start: 0,
            end: y.len(),
        };
        dot(Element::F32, x, matrix, all, y);
        y.iter_mut().zip(self.shift).for_each(|(y, b)| *y += b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_multiplied_and_shifted() {
        let map = Linear {
            from: 3,
            matrix: &[1.0, 2.0, 3.0, 0.0, -1.0, 0.5],
            shift: &[10.0, -1.0],
        };
        let mut mapped = [0.0; 2];
        for (row, expected) in [
            ([1.0, 1.0, 1.0], [16.0, -1.5]),
            ([2.0, 0.0, 4.0], [24.0, 1.0]),
            ([0.0, 0.0, 0.0], [10.0, -1.0]),
        ] {
            map.map(&row, &mut mapped);
            assert_eq!(mapped, expected);
        }
    }
}
