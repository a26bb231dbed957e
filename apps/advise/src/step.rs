//! The steps of a change, between any two of which the process may be killed.

/// Nothing, but in the tests of this crate a place to be killed at.
#[cfg(not(all(test, target_os = "linux")))]
pub(crate) fn step() {}

#[cfg(all(test, target_os = "linux"))]
pub(crate) use crate::actuator::killed::step;
