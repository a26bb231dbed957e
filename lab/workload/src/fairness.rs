//! How evenly something is shared out, as one number.

/// Jain's fairness index: `(sum x)^2 / (n * sum x^2)`. 1 says that all get the same, `1/n` that one gets
/// everything; `k/n` is what it gives if `k` of `n` share alike and the rest get nothing. It does not depend
/// on the unit.
///
/// Give it each table's answers over what was asked of that table: tables differ in traffic by design, and
/// it is not unfair to answer more of what is asked for more.
///
/// `None` if there are no values, all are 0, or one is negative, NaN or infinite.
///
/// Source: R. Jain, D. Chiu, W. Hawe, *A Quantitative Measure of Fairness and Discrimination for Resource
/// Allocation in Shared Computer Systems*, DEC-TR-301, 1984.
///
/// ```
/// use chiplet_workload::fairness::jain_index;
/// assert_eq!(jain_index([0.9, 0.9, 0.9]), Some(1.0));
/// assert_eq!(jain_index([1.0, 0.0, 0.0, 0.0]), Some(0.25));
/// ```
#[must_use]
pub fn jain_index(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<_> = values.into_iter().collect();
    if !values.iter().all(|&x| x.is_finite() && x >= 0.0) {
        return None;
    }
    let largest = values.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return None;
    }
    // Relative to the largest, so that no square leaves the range of `f64`.
    let shares = || values.iter().map(|x| x / largest);
    let sum: f64 = shares().sum();
    let squares: f64 = shares().map(|x| x * x).sum();
    Some(sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * b.abs()
    }

    #[test]
    fn published_examples_come_out() {
        // 20 dollars among 100 people: 1 to each of 20. And by hand: 6^2 / (3 * 14).
        let some = (0..100).map(|person| if person < 20 { 1.0 } else { 0.0 });
        assert!(near(jain_index(some).unwrap(), 0.2));
        assert!(near(jain_index([1.0, 2.0, 3.0]).unwrap(), 36.0 / 42.0));
    }

    #[test]
    fn what_is_no_sharing_has_no_index() {
        for values in [
            &[][..],
            &[0.0, 0.0],
            &[1.0, -1.0],
            &[1.0, f64::NAN],
            &[f64::INFINITY],
        ] {
            assert_eq!(jain_index(values.iter().copied()), None, "{values:?}");
        }
    }

    #[test]
    fn the_largest_and_the_smallest_numbers_do_not_overflow() {
        assert_eq!(jain_index([f64::MAX, f64::MAX]), Some(1.0));
        assert_eq!(jain_index([f64::MIN_POSITIVE; 4]), Some(1.0));
    }

    proptest! {
        #[test]
        fn the_index_lies_between_one_share_and_one(
            values in prop::collection::vec(0.0..1e6, 1..50), unit in 1e-3..1e3,
        ) {
            if let Some(index) = jain_index(values.iter().copied()) {
                let least = 1.0 / values.len() as f64;
                prop_assert!(index >= least * (1.0 - 1e-12) && index <= 1.0 + 1e-12);
                let scaled = jain_index(values.iter().map(|x| x * unit)).unwrap();
                prop_assert!((scaled - index).abs() < 1e-9);
            }
        }

        #[test]
        fn k_equal_shares_of_n_give_k_over_n(n in 1_usize..50, k in 1_usize..50, share in 0.1..9.0) {
            let k = k.min(n);
            let values = (0..n).map(|at| if at < k { share } else { 0.0 });
            prop_assert!(near(jain_index(values).unwrap(), k as f64 / n as f64));
        }
    }
}
