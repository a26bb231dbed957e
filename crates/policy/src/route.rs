//! A task's way into a queue: its table's home, another domain that has room, or back to who submitted it.

use std::time::Duration;

use chiplet_table::Class;

use crate::group::{Crossing, PublishedLoads};
use crate::queue::{Pace, Refusal};
use crate::{LeftHome, TableId, is_worth_rebalancing, overflow_domains};

/// Shorter waits are not compared with other groups': reading what they show costs a cache miss.
pub(crate) const LONG_WAIT: Duration = Duration::from_micros(200);

/// Of two homes of a table the one whose queue for `class` is shorter: the power of two choices (Mitzenmacher, IEEE
/// Transactions on Parallel and Distributed Systems 12, 2001).
#[inline(always)]
pub fn shorter(loads: &impl PublishedLoads, [first, second]: [usize; 2], class: Class) -> usize {
    let wait = |group| loads.wait(group, class, Pace::Backlogged);
    match first != second && wait(second) < wait(first) {
        true => second,
        false => first,
    }
}

/// The group that should get a task of `table` and `class` instead of its home, if any: its queue is so much shorter
/// that a cold cache is worth it. So queues stay alike. A backlogged table waits at home: others need not pay for it.
#[inline(always)]
pub fn evens_out(
    loads: &impl PublishedLoads,
    crossing: &Crossing,
    home: usize,
    (table, class, pace): (TableId, Class, Pace),
) -> Option<usize> {
    if pace == Pace::Backlogged || !crossing.is_priced() {
        return None;
    }
    let at_home = loads.wait(home, class, Pace::Within);
    match at_home < LONG_WAIT {
        true => None,
        false => much_shorter(loads, home, table, class, at_home),
    }
}

/// A group whose queue is so much shorter than that of `home`, where it is so long: all of its queue, as those who wait
/// there would wait longer.
#[cold]
fn much_shorter(
    loads: &impl PublishedLoads,
    home: usize,
    table: TableId,
    class: Class,
    at_home: Duration,
) -> Option<usize> {
    let wait = |group| loads.wait(group, class, Pace::Backlogged);
    let nearest = loads.nearest(home);
    // To another socket only where its own has no other domain.
    let among = match nearest.of_socket() {
        [] => &**nearest,
        near => near,
    };
    let mut others = overflow_domains(table, among.len()).map(|at| among[at]);
    others.find(|&other| {
        let price = loads.price(home);
        !loads.is_vacant(other) && is_worth_rebalancing(at_home, wait(other), price)
    })
}

/// The nearest other group with workers to spare, which may take tasks that `group` has no place for.
pub fn nearest_spare(
    loads: &impl PublishedLoads,
    crossing: &Crossing,
    group: usize,
) -> Option<usize> {
    if !crossing.is_priced() {
        return None;
    }
    let mut nearest = loads.nearest(group).iter().copied();
    nearest.find(|&other| loads.is_spare(other))
}

/// A load that no queue has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplaced<L> {
    /// Its home, or the group that was tried.
    pub home: usize,
    /// Why that has refused it.
    pub refusal: Refusal,
    /// Itself.
    pub load: L,
}

/// Puts `load` into one of `groups` queues: that of its `home`, unless it should be `evened` out ([`evens_out`]). If
/// the home is full, a group with workers to spare gets it, which is better than a refusal. Returns how fast the
/// table's tasks come, if it is at home.
///
/// `caller` is whose queues these are: `push` tries the first of them, and is told why that is not the home's; `again`
/// does the same with others. `home_now` says where home is by now, and `spare` which group takes what another one has
/// no place for ([`nearest_spare`]).
#[inline(always)]
pub fn choose<C, L>(
    caller: &mut C,
    groups: usize,
    (home, evened): (usize, Option<usize>),
    load: L,
    home_now: impl FnMut(&mut C) -> usize,
    spare: impl Fn(&C, usize) -> Option<usize>,
    (push, again): (
        impl FnOnce(&mut C, usize, Option<LeftHome>, L) -> Result<Pace, (Refusal, L)>,
        impl FnMut(&mut C, usize, Option<LeftHome>, L) -> Result<Pace, (Refusal, L)>,
    ),
) -> Result<Option<Pace>, Unplaced<L>> {
    let left_home = evened.map(|_| LeftHome::Rebalanced);
    match push(caller, evened.unwrap_or(home), left_home, load) {
        Ok(pace) => Ok(evened.is_none().then_some(pace)),
        Err((refusal, load)) => {
            let unplaced = Unplaced {
                home,
                refusal,
                load,
            };
            let places = (groups, evened.is_some());
            elsewhere(caller, places, unplaced, home_now, spare, again)
        }
    }
}

/// The rest of [`choose`], for a load that its home has refused, or the group that should have had it instead
/// (`evened`).
#[cold]
#[inline(never)]
fn elsewhere<C, L>(
    caller: &mut C,
    (groups, evened): (usize, bool),
    unplaced: Unplaced<L>,
    mut home_now: impl FnMut(&mut C) -> usize,
    spare: impl Fn(&C, usize) -> Option<usize>,
    mut push: impl FnMut(&mut C, usize, Option<LeftHome>, L) -> Result<Pace, (Refusal, L)>,
) -> Result<Option<Pace>, Unplaced<L>> {
    let Unplaced {
        mut home,
        mut refusal,
        mut load,
    } = unplaced;
    if evened {
        (refusal, load) = match push(caller, home, None, load) {
            Ok(pace) => return Ok(Some(pace)),
            Err(refused) => refused,
        };
    }
    // The home had its workers taken away between the look and the push: the table has another by now. Where queries
    // know no home the next group will do; so it will if homes change faster than this can follow.
    for step in 0..=groups {
        if refusal != Refusal::Vacant {
            break;
        }
        let left_home;
        (home, left_home) = match step {
            0 => (home_now(caller), None),
            _ => ((home + 1) % groups, Some(LeftHome::Overflow)),
        };
        (refusal, load) = match push(caller, home, left_home, load) {
            Ok(_) => return Ok(None),
            Err(refused) => refused,
        };
    }
    if refusal.is_for_places()
        && let Some(spare) = spare(caller, home)
    {
        load = match push(caller, spare, Some(LeftHome::Overflow), load) {
            Ok(_) => return Ok(None),
            Err((_, load)) => load,
        };
    }
    Err(Unplaced {
        home,
        refusal,
        load,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups that refuse, or take, in the order in which they are tried; and which those were.
    fn placed(
        answers: &[Result<Pace, Refusal>],
        evened: Option<usize>,
        spare: Option<usize>,
    ) -> (Vec<usize>, Result<Option<Pace>, Refusal>) {
        let (mut answers, mut tried) = (answers.iter(), Vec::new());
        let answer = std::cell::RefCell::new(&mut answers);
        let push = |tried: &mut Vec<usize>, group, _, ()| {
            tried.push(group);
            let answer = *answer.borrow_mut().next().expect("no more is tried");
            answer.map_err(|refusal| (refusal, ()))
        };
        let placed = choose(
            &mut tried,
            4,
            (0, evened),
            (),
            |tried| tried.len() % 4,
            |_, _| spare,
            (push, push),
        );
        (tried, placed.map_err(|left| left.refusal))
    }

    #[test]
    fn the_home_takes_what_nobody_else_should_have() {
        let taken = Ok(Pace::Within);
        assert_eq!(
            placed(&[taken], None, Some(3)),
            (vec![0], Ok(Some(Pace::Within)))
        );
        assert_eq!(placed(&[taken], Some(2), None), (vec![2], Ok(None)));
        // What the other group refuses goes home.
        let full = Err(Refusal::GroupFull);
        assert_eq!(
            placed(&[full, taken], Some(2), None),
            (vec![2, 0], Ok(Some(Pace::Within)))
        );
    }

    #[test]
    fn a_full_home_hands_on_to_who_has_workers_to_spare_and_else_says_why() {
        let (taken, full, table) = (
            Ok(Pace::Within),
            Err(Refusal::GroupFull),
            Err(Refusal::TableFull),
        );
        assert_eq!(
            placed(&[full, taken], None, Some(3)),
            (vec![0, 3], Ok(None))
        );
        assert_eq!(
            placed(&[table, full], None, Some(3)),
            (vec![0, 3], Err(Refusal::TableFull))
        );
        assert_eq!(
            placed(&[full], None, None),
            (vec![0], Err(Refusal::GroupFull))
        );
        // Neither a closed queue nor want of memory is a matter of places.
        let no_memory = Err(Refusal::NoMemory);
        assert_eq!(
            placed(&[no_memory], None, Some(3)),
            (vec![0], Err(Refusal::NoMemory))
        );
    }

    #[test]
    fn a_home_without_workers_is_sought_again_and_then_every_group_is_tried() {
        let vacant = Err(Refusal::Vacant);
        let mut answers = vec![vacant; 5];
        answers.push(Ok(Pace::Within));
        assert_eq!(
            placed(&answers, None, None),
            (vec![0, 1, 2, 3, 0, 1], Ok(None))
        );
        assert_eq!(placed(&[vacant; 6], None, None).1, Err(Refusal::Vacant));
    }
}
