//! What a core that cannot do everything should not begin.

use std::time::Duration;

/// Whether a task that has `waited` this long and has this much time `left` before its deadline is not worth beginning
/// while others wait, if tasks of its table usually take `service` until they are answered.
///
/// Under lasting overload a queue served in order of arrival hands out each task just before its deadline: it takes a
/// core's time and is answered too late, and so is the next. So a task is passed over if it has less than the usual
/// time left; and if it has less than twice that and has waited longer than that, because it then is one of many
/// that come too late, and one that can still be answered is better served. A deadline that is tight from the beginning
/// is no reason.
///
/// ```
/// use std::time::Duration;
/// use chiplet_policy::is_too_late;
///
/// let ms = Duration::from_millis;
/// // Tasks take 5 ms, deadlines are 60 ms after the submit.
/// assert!(is_too_late(ms(56), ms(4), ms(5)));
/// assert!(is_too_late(ms(52), ms(8), ms(5)));
/// assert!(!is_too_late(ms(48), ms(12), ms(5)));
/// // Deadlines are 8 ms after the submit.
/// assert!(!is_too_late(ms(1), ms(7), ms(5)));
/// ```
pub fn is_too_late(waited: Duration, left: Duration, service: Duration) -> bool {
    left < service || (left < 2 * service && left < waited)
}
