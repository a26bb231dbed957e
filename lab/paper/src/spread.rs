//! A figure of several seeds: its median, and how far the others are from it.

use std::fmt;

/// The median of some figures, the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
    single: bool,
}

impl Spread {
    /// Of these figures; `None` of none.
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() {
            0 => return None,
            count if count % 2 == 0 => f64::midpoint(figures[middle - 1], figures[middle]),
            _ => figures[middle],
        };
        Some(Self {
            median,
            least: figures[0],
            most: figures[figures.len() - 1],
            single: figures.len() == 1,
        })
    }

    /// As it is written: the median, and the least and the most where there are several figures.
    pub fn text<T: fmt::Display>(&self, figure: impl Fn(f64) -> T) -> String {
        match self.single {
            true => figure(self.median).to_string(),
            false => format!(
                "{} ({} to {})",
                figure(self.median),
                figure(self.least),
                figure(self.most)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one_is_told_with_the_least_and_the_most() {
        let text =
            |figures: &[f64]| Spread::of(figures.to_vec()).map(|spread| spread.text(|of| of));
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[2.0]).unwrap(), "2");
        assert_eq!(text(&[3.0, 1.0, 2.0]).unwrap(), "2 (1 to 3)");
        assert_eq!(text(&[4.0, 1.0]).unwrap(), "2.5 (1 to 4)");
    }
}
