//! Blocks: every row ends once and the ticket is told once, whatever the queue has room for and whatever comes between.

use super::*;
use crate::sync::now;
use crate::{Block, BlockAnswers};
use shuttle::future::block_on;

/// How soon a deadline is that may come before, while or after a part runs.
const SOON: Duration = Duration::from_millis(1);

/// More rows than the first parts take.
const ROWS: usize = 9;

fn block(rows: usize, like: Query) -> Block {
    Block::new(vec![0.0; rows], 1).like(like)
}

fn dice(sides: usize) -> usize {
    shuttle::rand::Rng::gen_range(&mut shuttle::rand::thread_rng(), 0..sides)
}

/// Every row has an answer, or has ended so.
fn assert_ended(answers: &BlockAnswers, rows: usize, otherwise: &Error) -> u64 {
    assert_eq!((answers.len(), answers.ids.len()), (rows, 2 * rows));
    let mut answered = 0;
    for row in 0..rows {
        match answers.row(row) {
            Ok((ids, _)) => {
                assert_eq!(ids, [0, 1]);
                answered += 1;
            }
            Err(error) => assert_eq!(error, otherwise),
        }
    }
    answered
}

/// As [`assert_complete`], where it is not known how many queries were reached.
fn assert_all_ended(executor: &Executor) {
    assert_complete(executor, executor.snapshot().total.accepted);
}

/// A block goes through a queue of two places, which another client keeps filling.
fn narrow() {
    let builder = any_builder(1, 2).queue_limit(2).table_queue_limit(2);
    let executor = Arc::new(builder.build().unwrap());
    let table = executor.add_table("lists", Lists);
    let other = executor.add_closure_table("other", 1);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let submit = |_| executor.submit_fn(other, None, |_| thread::yield_now());
            let accepted = (0..5).filter_map(|turn| submit(turn).ok());
            accepted.map(Ticket::detach).count() as u64
        })
    };
    let rows = match executor.submit_block(table, block(ROWS, Query::new([]).top(2))) {
        Ok(ticket) => {
            let answers = block_on(ticket).unwrap();
            assert_eq!(answers.failed, []);
            assert_ended(&answers, ROWS, &Error::Expired)
        }
        Err(refused) => {
            assert_eq!(refused.input.len(), ROWS);
            0
        }
    };
    let others = client.join().unwrap();
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, rows + others);
    assert_eq!(executor.snapshot().total.done, rows + others);
}

/// A deadline comes while parts wait, run and end: what the ticket tells has been counted, and is all that is counted.
fn late() {
    let executor = builder(1, 2).build().unwrap();
    let table = executor.add_table("lists", Lists);
    let like = Query::new([]).top(2).deadline(now() + SOON);
    let ticket = executor.submit_block(table, block(ROWS, like)).unwrap();
    let told = match dice(2) {
        0 => ticket.wait(),
        _ => block_on(ticket),
    };
    let answered = assert_ended(&told.unwrap(), ROWS, &Error::Expired);
    let counted = executor.snapshot().total.done;
    assert_eq!(counted, answered, "as told, no more and no less");
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_all_ended(&executor);
    assert_eq!(executor.snapshot().total.done, answered);
}

/// A block's ticket is dropped, and another one's executor shuts down, while their parts wait, run and end.
fn stopped() {
    let drains = dice(2) == 0;
    let builder = any_builder(2, 1).queue_limit(3).table_queue_limit(3);
    let executor = Arc::new(builder.build().unwrap());
    let table = executor.add_table("lists", Lists);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let like = Query::new([]).top(2);
            let dropped = executor.submit_block(table, block(ROWS, like.clone()));
            let kept = executor.submit_block(table, block(ROWS, like));
            drop(dropped);
            let Ok(kept) = kept else { return };
            let answered = assert_ended(&kept.wait().unwrap(), ROWS, &Error::ShutDown);
            assert!(!drains || answered == ROWS as u64, "a drain answers it");
        })
    };
    executor.shutdown(match drains {
        true => Shutdown::Drain(PATIENCE),
        false => Shutdown::Abandon(PATIENCE),
    });
    client.join().unwrap();
    assert_all_ended(&executor);
}

checks! {
    a_block_goes_through_a_narrow_queue: narrow without LastPartAnswers LastPartGoesOn;
    a_late_block_is_counted_as_told: late without DeadlineAwaitsSettled;
    a_stopped_block_ends: stopped without LastPartAnswers;
}
