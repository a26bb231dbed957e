//! A linear map of rows and queries before lists and codes: what `OPQ..`, `PCA..` and `RR..` train.

use chiplet_memory::MemoryError;

use crate::kernel::{Element, Rows, Span, dot};
use crate::reserve;

/// `y = matrix x + shift`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear<'a> {
    /// Components of `x`, at least one.
    pub(super) from: usize,
    /// `[components of y][from]`.
    pub(super) matrix: &'a [f32],
    /// One for each component of `y`.
    pub(super) shift: &'a [f32],
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

    /// Maps all `rows`, `[n][from]`, on as many threads as the process may use.
    pub(super) fn map_all(self, rows: &[f32]) -> Result<Vec<f32>, MemoryError> {
        let to = self.shift.len();
        let count = rows.len() / self.from;
        let mut mapped = reserve::filled(count.saturating_mul(to), || 0.0)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let part = count.div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let parts = rows.chunks(part * self.from);
            for (rows, mapped) in parts.zip(mapped.chunks_mut(part * to)) {
                scope.spawn(move || {
                    let rows = rows.chunks_exact(self.from);
                    for (x, y) in rows.zip(mapped.chunks_exact_mut(to)) {
                        self.map(x, y);
                    }
                });
            }
        });
        Ok(mapped)
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
        let rows = [1.0, 1.0, 1.0, 2.0, 0.0, 4.0, 0.0, 0.0, 0.0];
        let mapped = map.map_all(&rows).unwrap();
        assert_eq!(mapped, [16.0, -1.5, 24.0, 1.0, 10.0, -1.0]);
    }
}
