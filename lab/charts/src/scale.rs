//! From values to places on an axis, with ticks on round values.
//!
//! A scale bears anything: empty and equal bounds, zero, and values that are no number give a place within its
//! range and a handful of ticks.

use crate::number::fixed;

/// From values to user units.
#[derive(Clone, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    log: bool,
    ticks: Vec<f64>,
    decimals: usize,
    /// Where `from` and `to` are drawn.
    pub range: [f64; 2],
}

impl Scale {
    /// Between round values around `lowest` and `highest`.
    pub fn linear(lowest: f64, highest: f64, range: [f64; 2], most_ticks: usize) -> Scale {
        let (step, decimals) = round_step((highest - lowest) / most_ticks.max(2) as f64);
        let first = (lowest / step + 1e-9).floor();
        let last = (highest / step - 1e-9).ceil().max(first + 1.0);
        let ticks: Vec<f64> = (0..=(last - first) as usize)
            .map(|index| (first + index as f64) * step)
            .collect();
        Scale {
            from: first * step,
            to: last * step,
            log: false,
            ticks,
            decimals,
            range,
        }
    }

    /// From zero to exactly `end`, with ticks on round values.
    pub fn up_to(end: f64, range: [f64; 2], most_ticks: usize) -> Scale {
        let end = if end.is_finite() && end > 0.0 {
            end
        } else {
            1.0
        };
        let mut scale = Scale::linear(0.0, end, range, most_ticks);
        scale.to = end;
        scale.ticks.retain(|tick| *tick <= end * (1.0 + 1e-9));
        scale
    }

    /// Logarithmic, from 1, 2 or 5 times a power of ten to another. Values must be above zero.
    pub fn log(lowest: f64, highest: f64, range: [f64; 2], most_ticks: usize) -> Scale {
        let (lowest, highest) = match lowest > 0.0 && highest.is_finite() && lowest <= highest {
            true => (lowest, highest),
            false => (1.0, 10.0),
        };
        let decade = |value: f64| value.log10().floor() as i32;
        let all: Vec<f64> = (decade(lowest) - 1..=decade(highest) + 1)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
            .collect();
        let below = all
            .iter()
            .rposition(|tick| *tick <= lowest * 1.000_001)
            .unwrap_or(0);
        let above = all
            .iter()
            .position(|tick| *tick >= highest * 0.999_999)
            .unwrap_or(all.len() - 1);
        let above = above.max(below + 1).min(all.len() - 1);
        let within = &all[below..=above];
        let mut ticks = within.to_vec();
        if ticks.len() > most_ticks {
            // Too many: whole powers of ten, and of those every second, third, ...
            let powers: Vec<f64> = (below..=above)
                .filter(|index| index % 3 == 0)
                .map(|index| all[index])
                .collect();
            let every = powers.len().div_ceil(most_ticks.max(1));
            ticks = powers.into_iter().step_by(every.max(1)).collect();
        }
        Scale {
            from: within[0],
            to: within[within.len() - 1],
            log: true,
            ticks,
            decimals: 0,
            range,
        }
    }

    /// Where a value is drawn; values outside lie on the edge.
    pub fn at(&self, value: f64) -> f64 {
        let [start, end] = self.range;
        let share = match self.log {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        start + share * (end - start)
    }

    /// Values that get a line and a text.
    pub fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    /// A tick's text, with as many decimals as tell it from its neighbours.
    pub fn text(&self, tick: f64) -> String {
        let below_one = (-tick.log10().floor()).max(0.0) as usize;
        fixed(tick, if self.log { below_one } else { self.decimals })
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`, and the decimals that show it.
fn round_step(least: f64) -> (f64, usize) {
    if !least.is_finite() || least <= 1e-9 {
        return (0.1, 1);
    }
    let power = least.log10().floor() as i32;
    let (digit, power) = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|digit| digit * 10f64.powi(power) >= least * 0.999_999)
        .map_or((1.0, power + 1), |digit| (digit, power));
    (
        digit * 10f64.powi(power),
        usize::try_from(-power).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_have_round_ticks() {
        let scale = Scale::linear(0.0, 41_236.0, [0.0, 100.0], 5);
        assert_eq!(
            scale.ticks(),
            [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0, 50_000.0]
        );
        assert_eq!(scale.at(25_000.0), 50.0);
        let exact = Scale::up_to(41_236.0, [0.0, 100.0], 5);
        assert_eq!(exact.ticks(), [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]);
        assert_eq!(exact.at(41_236.0), 100.0);
        let ratios = Scale::linear(0.93, 1.08, [0.0, 100.0], 4);
        let texts: Vec<String> = ratios
            .ticks()
            .iter()
            .map(|tick| ratios.text(*tick))
            .collect();
        assert_eq!(texts, ["0.90", "0.95", "1.00", "1.05", "1.10"]);
    }

    #[test]
    fn log_scales_span_the_values_with_few_ticks() {
        let scale = Scale::log(80.0, 900.0, [0.0, 100.0], 8);
        assert_eq!(scale.ticks(), [50.0, 100.0, 200.0, 500.0, 1000.0]);
        let wide = Scale::log(0.3, 9e12, [0.0, 100.0], 5);
        assert!(
            wide.ticks().len() <= 5 && wide.ticks().len() >= 2,
            "{:?}",
            wide.ticks()
        );
    }

    #[test]
    fn scales_bear_equal_zero_and_absent_values() {
        for scale in [
            Scale::up_to(f64::NAN, [0.0, 100.0], 5),
            Scale::linear(1.0, 1.0, [0.0, 100.0], 5),
            Scale::log(7.0, 7.0, [0.0, 100.0], 5),
            Scale::log(1e-300, 1e300, [0.0, 100.0], 5),
            Scale::log(f64::INFINITY, 0.0, [0.0, 100.0], 5),
            Scale::log(0.0, f64::NAN, [0.0, 100.0], 5),
            Scale::up_to(0.0, [0.0, 100.0], 5),
        ] {
            assert!(
                !scale.ticks().is_empty() && scale.ticks().len() < 12,
                "{scale:?}"
            );
            for value in [0.0, -1.0, 1.0, 7.0, f64::NAN, f64::INFINITY] {
                assert!(
                    (0.0..=100.0).contains(&scale.at(value)),
                    "{scale:?} at {value}"
                );
            }
        }
    }
}
