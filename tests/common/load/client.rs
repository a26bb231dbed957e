//! A thread that submits in bursts and does with its tickets all that can be done with a ticket.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use chiplet::{Context, Error, Neighbor, SubmitError, Ticket};

use super::book::{Book, count};
use super::{
    COLD_BYTES, Dice, FAILS_IN_COARSE, FAILS_IN_MERGE, FAILS_IN_SCAN, HOT_BYTES, Load, Served,
    query,
};
use crate::common::HANG;

/// Most submits in a row to one table.
const BURST: u64 = 64;
/// Tickets that are waited for later, and those that are dropped later.
const KEPT: usize = 32;

/// What becomes of a ticket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Wait,
    DropNow,
    DropLater,
    Detach,
}

pub(super) struct Client<'a> {
    load: &'a Load,
    dice: Dice,
    /// Each waits for one ticket and checks what it tells.
    waits: VecDeque<Box<dyn FnOnce() + 'a>>,
    /// Dropped in time, whatever has become of their tasks by then.
    doomed: VecDeque<Box<dyn std::any::Any>>,
}

impl<'a> Client<'a> {
    pub(super) fn new(load: &'a Load, dice: Dice) -> Self {
        Self {
            load,
            dice,
            waits: VecDeque::new(),
            doomed: VecDeque::new(),
        }
    }

    pub(super) fn run(mut self) {
        while self.burst() != Err(SubmitError::ShuttingDown) {}
        self.load.over.store(true, Ordering::Relaxed);
        self.waits.into_iter().for_each(|wait| wait());
    }

    fn burst(&mut self) -> Result<(), SubmitError> {
        let turn = self.load.turn();
        let slots = self.load.slots.len() as u64;
        // Three bursts in four go to a hot table.
        let wants_hot = !self.dice.one_in(4);
        let mut slot = self.dice.throw(slots) as usize;
        for _ in 0..16 {
            if Load::is_hot(slot, turn) == wants_hot {
                break;
            }
            slot = self.dice.throw(slots) as usize;
        }
        let bytes = if Load::is_hot(slot, turn) {
            HOT_BYTES
        } else {
            COLD_BYTES
        };
        let table = self.load.served(slot);
        for _ in 0..=self.dice.throw(BURST) {
            match self.submit(&table, bytes) {
                Ok(()) => count(&table.book.accepted),
                Err(SubmitError::Overloaded { .. } | SubmitError::TableOverloaded { .. }) => {
                    count(&table.book.shed);
                    drop(table);
                    self.settle_some();
                    std::thread::yield_now();
                    return Ok(());
                }
                // It was removed after we had found it.
                Err(SubmitError::UnknownTable) => return Ok(()),
                Err(SubmitError::ShuttingDown) => return Err(SubmitError::ShuttingDown),
                Err(other) => panic!("{other}"),
            }
        }
        drop(table);
        if self.waits.len() > KEPT {
            self.settle_some();
        }
        Ok(())
    }

    fn submit(&mut self, table: &Served, bytes: u64) -> Result<(), SubmitError> {
        let deadline = match self.dice.throw(32) {
            0 => Some(Instant::now()),
            1 => Some(Instant::now() + Duration::from_micros(self.dice.throw(300))),
            _ => None,
        };
        let fails = self.dice.one_in(100);
        let fate = match self.dice.throw(64) {
            0 => Fate::Wait,
            1..=8 => Fate::DropNow,
            9..=12 => Fate::DropLater,
            _ => Fate::Detach,
        };
        if table.searchable && self.dice.one_in(4) {
            self.search(table, deadline, fails, fate)
        } else {
            self.spawn(table, deadline, fails, fate, bytes)
        }
    }

    fn spawn(
        &mut self,
        table: &Served,
        deadline: Option<Instant>,
        fails: bool,
        fate: Fate,
        bytes: u64,
    ) -> Result<(), SubmitError> {
        let ran = (fate == Fate::Wait).then(|| Arc::new(AtomicU32::new(0)));
        let (book, runs) = (Arc::clone(&table.book), ran.clone());
        // Most end at once; one in eight takes about a microsecond.
        let (rounds, number) = (if self.dice.one_in(8) { 1_000 } else { 0 }, self.dice.0);
        // One in sixteen shares its work out to whoever is free.
        let shares = self.dice.one_in(16);
        // Some wait for something else than their core.
        let blocks = self.dice.one_in(500);
        let code = move |context: &mut Context| {
            context.add_bytes(bytes);
            if let Some(runs) = runs {
                runs.fetch_add(1, Ordering::Relaxed);
            }
            for round in 0..rounds {
                black_box(round);
            }
            if blocks {
                context.block_in_place(|| std::thread::sleep(Duration::from_micros(100)));
            }
            if shares {
                let shared = Arc::clone(&book);
                let parts = context.par_map(5, move |part, _| {
                    if fails && part == 3 {
                        shared.fail();
                    }
                    part
                });
                assert!(parts.into_iter().eq(0..5));
            } else if fails {
                book.fail();
            }
            book.ran();
            number
        };
        let ticket = self
            .load
            .executor
            .submit_fn(table.id, deadline, code)
            .map_err(|refused| refused.reason)?;
        let check = move |book: &Book, outcome: Result<u64, Error>| {
            let expected = u32::from(book.told(&outcome, fails));
            let runs = ran.map_or(expected, |ran| ran.load(Ordering::Relaxed));
            // Its deadline may have come before it ran or meanwhile.
            let late = outcome == Err(Error::Expired) && runs == 1;
            assert!(runs == expected || late, "{runs} runs, {outcome:?}");
            assert!(outcome.is_err() || outcome == Ok(number), "{outcome:?}");
        };
        self.keep(table, fate, ticket, check);
        Ok(())
    }

    fn search(
        &mut self,
        table: &Served,
        deadline: Option<Instant>,
        fails: bool,
        fate: Fate,
    ) -> Result<(), SubmitError> {
        let (query, fate) = if fails {
            // Neither its deadline nor its ticket may end it while a unit panics: the book counts a panic.
            let marks = [FAILS_IN_COARSE, FAILS_IN_SCAN, FAILS_IN_MERGE];
            let fate = if fate == Fate::Wait {
                fate
            } else {
                Fate::Detach
            };
            (query().ef(marks[self.dice.throw(3) as usize]), fate)
        } else {
            let query = query();
            let query = match deadline {
                Some(at) => query.deadline(at),
                None => query,
            };
            (query, fate)
        };
        let ticket = self
            .load
            .executor
            .submit(table.id, query)
            .map_err(|refused| refused.reason)?;
        let expected = &self.load.answer;
        let check = move |book: &Book, outcome: Result<Vec<Neighbor>, Error>| {
            book.told(&outcome, fails);
            if let Ok(answer) = outcome {
                assert_eq!(&answer, expected);
            }
        };
        self.keep(table, fate, ticket, check);
        Ok(())
    }

    fn keep<T: 'static>(
        &mut self,
        table: &Served,
        fate: Fate,
        mut ticket: Ticket<T>,
        check: impl FnOnce(&Book, Result<T, Error>) + 'a,
    ) {
        match fate {
            Fate::Wait => {
                let book = Arc::clone(&table.book);
                let polled = self.dice.one_in(2);
                self.waits.push_back(Box::new(move || {
                    let outcome = if polled {
                        pollster::block_on(ticket)
                    } else {
                        ticket.wait_for(HANG).expect("a task ends")
                    };
                    check(&book, outcome);
                }));
            }
            Fate::DropNow => drop(ticket),
            Fate::DropLater => {
                self.doomed.push_back(Box::new(ticket));
                if self.doomed.len() > KEPT {
                    self.doomed.pop_front();
                }
            }
            Fate::Detach => ticket.detach(),
        }
    }

    /// Waits for the older half of the tickets that are to be waited for.
    fn settle_some(&mut self) {
        let half = self.waits.len() / 2;
        self.waits.drain(..half).for_each(|wait| wait());
    }
}
