//! What the benchmarks share: server processes, collections of words, settings, and medians.

pub(crate) mod process;
pub(crate) mod words;

/// Median, least and most.
pub(crate) fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    (values[values.len() / 2], values[0], values[last])
}

/// A median with the least and the most beside it.
pub(crate) fn shown(values: Vec<f64>, digits: usize) -> String {
    let (median, least, most) = spread(values);
    format!("{median:.digits$} ({least:.digits$}-{most:.digits$})")
}

/// An argument of the form NAME=VALUE.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "say NAME=VALUE".to_owned())
}
