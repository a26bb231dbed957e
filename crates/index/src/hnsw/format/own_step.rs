//! Codes with a step of the row's own.

use crate::kernel::Width;

/// Steps that are tried for a row: each smaller than the one before by the eighth root of 2.
const TRIED: i32 = 12;

/// The code of `x` at this step, less [`Width::middle`].
pub(super) fn code(width: Width, x: f32, step: f32) -> f32 {
    let middle = width.middle();
    let most = f32::from(width.most());
    // Half a code where the middle lies between two.
    let between = middle.fract();
    ((x / step - between).round_ties_even() + between).clamp(-middle, most - middle)
}

/// How codes of its own step fit a row.
pub(super) struct Fit {
    pub(super) step: f32,
    /// Of the row with its codes.
    pub(super) product: f64,
    /// The row's squared length.
    pub(super) squares: f64,
    /// The share of that which is at right angles to the codes.
    pub(super) error: f64,
}

impl Fit {
    /// The best for a row, of its components less those of the middle of all rows. The first [`Width::kept`] of them
    /// have codes.
    pub(super) fn of(width: Width, apart: &[f32]) -> Self {
        let squares: f64 = apart.iter().map(|&x| f64::from(x).powi(2)).sum();
        let apart = &apart[..width.kept(apart.len())];
        let farthest = apart.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let tried = match width {
            // Only the sign counts.
            Width::One => 0,
            Width::Two | Width::Four => TRIED,
        };
        let widest = farthest / width.middle();
        let steps = (0..=tried).map(|k| widest * (-0.125 * k as f32).exp2());
        let tried = steps.filter(|step| step.is_normal()).map(|step| {
            let (mut product, mut codes) = (0.0_f32, 0.0_f32);
            for &x in apart {
                let code = code(width, x, step);
                product += x / farthest * code;
                codes += code * code;
            }
            let product = f64::from(product) * f64::from(farthest);
            let error = 1.0 - product * product / (squares * f64::from(codes));
            Self {
                step,
                product,
                squares,
                error,
            }
        });
        let best = tried.min_by(|a, b| a.error.total_cmp(&b.error));
        // A row at the middle of all, or as good as there.
        best.filter(|best| best.error.is_finite()).unwrap_or(Self {
            step: 1.0,
            product: 0.0,
            squares,
            error: 0.0,
        })
    }
}
