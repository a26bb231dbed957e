//! How far predictions are from what was measured.

use serde::Serialize;

/// Of some predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// 1 less squared errors over squared distances from the mean of what was measured; below 0 if that mean would have
    /// been a better prediction.
    pub r2: f64,
    /// Mean absolute error, in parts of processor time as all below.
    pub mae: f64,
    /// Half of the absolute errors are at most this.
    pub p50: f64,
    /// 90 % are.
    pub p90: f64,
    /// 99 % are.
    pub p99: f64,
    /// All are.
    pub worst: f64,
}

impl Score {
    /// Of predictions and what was measured, in pairs.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        assert!(!pairs.is_empty(), "something was predicted");
        let count = pairs.len() as f64;
        let mean = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
        let squared = |of: fn(f64, (f64, f64)) -> f64| {
            let errors = pairs.iter().map(|&pair| of(mean, pair).powi(2));
            errors.sum::<f64>()
        };
        let left = squared(|_, (predicted, measured)| predicted - measured);
        let all = squared(|mean, (_, measured)| measured - mean);
        let mut errors: Vec<f64> = pairs.iter().map(|pair| (pair.0 - pair.1).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let at = |part: f64| errors[((part * count).ceil() as usize).clamp(1, errors.len()) - 1];
        Self {
            r2: match all > 0.0 {
                true => 1.0 - left / all,
                false => f64::NAN,
            },
            mae: errors.iter().sum::<f64>() / count,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            worst: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_predictions_have_r2_1_and_their_mean_0() {
        let exact: Vec<_> = (0..10).map(|at| (f64::from(at), f64::from(at))).collect();
        let score = Score::of(&exact);
        assert_eq!((score.r2, score.mae, score.worst), (1.0, 0.0, 0.0));
        let mean: Vec<_> = (0..10).map(|at| (4.5, f64::from(at))).collect();
        assert!(Score::of(&mean).r2.abs() < 1e-12);
        assert_eq!(Score::of(&mean).mae, 2.5);
    }

    #[test]
    fn percentiles_are_of_the_errors_size() {
        // Errors 1 to 100, above and below.
        let pairs: Vec<_> = (1..=100)
            .map(|at| (0.0, f64::from(at) * if at % 2 == 0 { 1.0 } else { -1.0 }))
            .collect();
        let score = Score::of(&pairs);
        assert_eq!(
            [score.p50, score.p90, score.p99, score.worst],
            [50.0, 90.0, 99.0, 100.0]
        );
    }
}
