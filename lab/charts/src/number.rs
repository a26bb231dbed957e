//! Figures as text: thousands separators, units, and words in place of what is no number.
//!
//! Nothing here ever gives `NaN` or `inf`: a value that is not finite reads [`ABSENT`].

/// What stands where a value was not measured.
pub const ABSENT: &str = "not measured";

/// A rate or an amount: three digits, or all digits before the point; `41,236`, `98.4`, `0.052`, `0`.
pub fn quantity(value: f64) -> String {
    if !value.is_finite() {
        return ABSENT.into();
    }
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    digits(value, decimals)
}

/// A count, `1,234,567`.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A duration given in microseconds, in the unit that suits it: `850 µs`, `1.24 ms`, `3.10 s`.
pub fn duration(micros: f64) -> String {
    if !micros.is_finite() {
        return ABSENT.into();
    }
    let (value, unit) = match micros.abs() {
        size if size < 999.5 => (micros, "µs"),
        size if size < 999_500.0 => (micros / 1e3, "ms"),
        _ => (micros / 1e6, "s"),
    };
    format!("{} {unit}", quantity(value))
}

/// A ratio, `1.38×`; more digits where two would hide it.
pub fn ratio(value: f64) -> String {
    match value {
        _ if !value.is_finite() => ABSENT.into(),
        _ if value != 0.0 && value.abs() < 0.0995 => format!("{value:.3}×"),
        _ => format!("{}×", digits(value, 2)),
    }
}

/// Where the rounds lie, `1.31 to 1.44`.
pub fn spread([lowest, highest]: [f64; 2]) -> String {
    let bare = |value| ratio(value).trim_end_matches('×').to_owned();
    match lowest.is_finite() && highest.is_finite() {
        true => format!("{} to {}", bare(lowest), bare(highest)),
        false => ABSENT.into(),
    }
}

/// A share of one as a percentage, `93.2 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if !percent.is_finite() => ABSENT.into(),
        _ if percent > 0.0 && percent < 0.05 => "< 0.1 %".into(),
        _ => format!("{} %", digits(percent, 1)),
    }
}

/// A value with so many decimals, or words.
pub fn fixed(value: f64, decimals: usize) -> String {
    match value.is_finite() {
        true => digits(value, decimals),
        false => ABSENT.into(),
    }
}

/// A size in binary units, `32 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let whole = value.fract() == 0.0 || value >= 99.5;
    format!("{value:.*} {}", usize::from(!whole), UNITS[unit])
}

/// The digits of a finite value; past any real measurement, few of them and a power of ten.
fn digits(value: f64, decimals: usize) -> String {
    match value.abs() < 1e15 {
        true => grouped(&format!("{value:.decimals$}")),
        false => format!("{value:.2e}"),
    }
}

/// Puts a comma between each three digits before the point.
fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut text = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_keep_three_digits_and_group_thousands() {
        let texts = [
            1_234_567.4,
            41_236.2,
            999.96,
            98.44,
            9.999,
            1.5,
            0.0521,
            0.0,
            -1234.0,
        ]
        .map(quantity);
        assert_eq!(
            texts,
            [
                "1,234,567",
                "41,236",
                "1,000",
                "98.4",
                "10.0",
                "1.50",
                "0.052",
                "0",
                "-1,234"
            ]
        );
    }

    #[test]
    fn durations_choose_their_unit() {
        let texts = [0.4, 850.0, 999.6, 1_240.0, 999_600.0, 3_100_000.0].map(duration);
        assert_eq!(
            texts,
            [
                "0.400 µs",
                "850 µs",
                "1.00 ms",
                "1.24 ms",
                "1.00 s",
                "3.10 s"
            ]
        );
    }

    #[test]
    fn ratios_shares_and_sizes_read_as_a_person_writes_them() {
        assert_eq!(
            [1.384, 0.0521, 0.0, 1234.5].map(ratio),
            ["1.38×", "0.052×", "0.00×", "1,234.50×"]
        );
        assert_eq!(spread([1.31, 1.444]), "1.31 to 1.44");
        assert_eq!(
            [0.932, 0.0002, 0.0, 1.0].map(percent),
            ["93.2 %", "< 0.1 %", "0.0 %", "100.0 %"]
        );
        assert_eq!(
            [512, 1024, 33_554_432, 1_600_000_000].map(bytes),
            ["512 bytes", "1 KiB", "32 MiB", "1.5 GiB"]
        );
        assert_eq!(count(12_345), "12,345");
    }

    #[test]
    fn what_is_no_number_reads_as_words() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(quantity(value), ABSENT);
            assert_eq!(duration(value), ABSENT);
            assert_eq!(ratio(value), ABSENT);
            assert_eq!(percent(value), ABSENT);
            assert_eq!(fixed(value, 2), ABSENT);
            assert_eq!(spread([1.0, value]), ABSENT);
        }
    }
}
