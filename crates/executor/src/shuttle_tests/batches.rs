//! Batches: the last part resolves the ticket, whoever runs it and whatever comes between.

use super::*;
use crate::Answers;
use crate::sync::now;
use shuttle::future::block_on;

/// How soon a deadline is that may come before, while or after a part runs.
const SOON: Duration = Duration::from_millis(1);

fn queries(count: usize) -> Vec<Query> {
    (1..=count).map(|k| Query::new([0.0]).top(k)).collect()
}

/// Each query has its own number of neighbours.
fn assert_in_order(answers: &Answers) {
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.as_ref().map(Vec::len), Ok(number + 1));
    }
}

/// Two clients, two workers, any settings: one waits for a batch, one polls.
fn batches() {
    let executor = Arc::new(any_builder(1, 2).build().unwrap());
    let table = executor.add_table("lists", Lists);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let ticket = executor.submit_batch(table, queries(3)).unwrap();
            assert_in_order(&block_on(ticket).unwrap());
        })
    };
    let answers = executor.search_batch(table, queries(2)).wait().unwrap();
    assert_in_order(&answers);
    client.join().unwrap();
    assert_complete(&executor, 5);
    assert_eq!(executor.snapshot().total.done, 5);
}

/// A deadline comes while parts wait, run and end: what the ticket tells has been counted, and is all that is counted.
fn late_batches() {
    let executor = builder(1, 2).build().unwrap();
    let table = executor.add_table("lists", Lists);
    let deadline = now() + SOON;
    let in_time = |query: Query| query.deadline(deadline);
    let late = queries(3).into_iter().map(in_time).collect();
    let ticket = executor.submit_batch(table, late).unwrap();
    let told = match shuttle::rand::Rng::r#gen(&mut shuttle::rand::thread_rng()) {
        true => ticket.wait(),
        false => block_on(ticket),
    };
    let told = told.unwrap();
    let answered = told.iter().filter(|answer| answer.is_ok()).count() as u64;
    let counted = executor.snapshot().total.done;
    assert_eq!(counted, answered, "as told, no more and no less");
    executor.shutdown(Shutdown::Drain(PATIENCE));
    assert_complete(&executor, 3);
    let total = executor.snapshot().total;
    assert_eq!((total.done, total.expired), (answered, 3 - answered));
}

/// A batch's ticket is dropped, and another one's executor shuts down, while their parts wait, run and end.
fn unwanted_batches() {
    let executor = Arc::new(any_builder(2, 1).build().unwrap());
    let table = executor.add_table("lists", Lists);
    let client = {
        let executor = Arc::clone(&executor);
        thread::spawn(move || {
            let mut accepted = 0;
            let dropped = executor.submit_batch(table, queries(2));
            let kept = executor.submit_batch(table, queries(3));
            accepted += dropped.as_ref().map_or(0, |_| 2);
            drop(dropped);
            if let Ok(kept) = kept {
                accepted += 3;
                let mut ends = kept.wait().unwrap().into_iter();
                assert!(ends.all(|end| end.is_ok() || end == Err(Error::ShutDown)));
            }
            accepted
        })
    };
    executor.shutdown(Shutdown::Abandon(PATIENCE));
    assert_complete(&executor, client.join().unwrap());
}

checks! {
    a_batch_is_answered_in_order: batches without PushAllWakes LastPartAnswers;
    a_late_batch_is_counted_as_told: late_batches without DeadlineAwaitsSettled;
    an_unwanted_batch_ends: unwanted_batches without LastPartAnswers;
}
