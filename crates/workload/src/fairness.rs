//! How evenly something is shared out.

/// Jain's fairness index `(sum x)^2 / (n sum x^2)`: 1 if all get the same, `1/n` if one gets all; 1 without
/// values, or if all are 0. (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.)
#[must_use]
pub fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    if squares > 0.0 {
        sum * sum / (values.len() as f64 * squares)
    } else {
        1.0
    }
}
