//! Figures of several rounds.

/// The median, with the lowest and the highest.
pub fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    format!(
        "{:.2} ({:.2}-{:.2})",
        values[values.len() / 2],
        values[0],
        values[values.len() - 1]
    )
}
