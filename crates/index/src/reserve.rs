//! The largest pieces of memory that a build takes besides its table: an error if the system has none, where a `Vec`
//! would end the process.

use chiplet_memory::{MemoryError, OsError};

/// An empty list with room for `count` values.
pub(crate) fn room<T>(count: usize) -> Result<Vec<T>, MemoryError> {
    let mut values = Vec::new();
    match values.try_reserve_exact(count) {
        Ok(()) => Ok(values),
        Err(_) => Err(MemoryError::Refused {
            bytes: count.saturating_mul(size_of::<T>()),
            source: OsError::out_of_memory(),
        }),
    }
}

/// `count` times what `value` makes.
pub(crate) fn filled<T>(count: usize, value: impl FnMut() -> T) -> Result<Vec<T>, MemoryError> {
    let mut values = room(count)?;
    values.extend(std::iter::repeat_with(value).take(count));
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_memory_for_is_refused() {
        assert_eq!(filled(3, || 7), Ok(vec![7; 3]));
        let refused = filled(usize::MAX, || 7u32).unwrap_err();
        assert!(matches!(
            refused,
            MemoryError::Refused {
                bytes: usize::MAX,
                ..
            }
        ));
    }
}
