//! What arguments may be.

/// A number of things, from `least` to `most`.
pub fn counts(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("give a number from {least} to {most}")),
    }
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number from 0.01 to 600".to_owned()),
    }
}
