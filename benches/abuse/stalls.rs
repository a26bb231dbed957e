//! A table of 0.5 ms tasks with deadlines, two workers, another table beside it; some tasks stall.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chiplet::Context;

use super::seen::flood;
use super::{machine, start};

const TASK: Duration = Duration::from_micros(500);
const RATE: u32 = 100;
/// Before the stall, and after it.
const SECONDS: [u32; 2] = [2, 4];

pub fn run() {
    println!(
        "  answered of asked, second by second; the stall comes after the second {}",
        SECONDS[0]
    );
    let ms = Duration::from_millis;
    for (what, stalls, first, deadline, clients) in [
        ("no stall, 20 ms", vec![], TASK, ms(20), 2),
        (
            "two of 100 ms, 20 ms",
            vec![ms(100), ms(100)],
            TASK,
            ms(20),
            2,
        ),
        ("one of 500 ms, 50 ms", vec![ms(500)], TASK, ms(50), 2),
        ("first task 400 ms, 60 ms", vec![], ms(400), ms(60), 2),
        ("the same, 4 clients", vec![], ms(400), ms(60), 4),
        (
            "two of 100 ms, 4 clients",
            vec![ms(100), ms(100)],
            TASK,
            ms(20),
            4,
        ),
    ] {
        println!(
            "  {what:28} {}",
            scenario(&stalls, first, deadline, clients)
        );
    }
}

fn scenario(stalls: &[Duration], first: Duration, deadline: Duration, clients: usize) -> String {
    let executor = Arc::new(start(machine(1, 2)));
    let [victim, other] = ["victim", "other"].map(|name| executor.add_closure_table(name, 1));
    let stop = Arc::new(AtomicBool::new(false));
    flood(&executor, other, TASK, clients, &stop, &Arc::default());
    // What is known of the table when the others come.
    let known = executor.spawn(victim, move || thread::sleep(first));
    known.wait().expect("it has no deadline");
    let count = SECONDS.iter().sum::<u32>() as usize;
    let answered: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
    let (began, gap) = (Instant::now(), Duration::from_secs(1) / RATE);
    let mut stalls = stalls.iter();
    for number in 0..RATE * count as u32 {
        thread::sleep((gap * number).saturating_sub(began.elapsed()));
        let second = (number / RATE) as usize;
        let task = match number {
            number if number >= SECONDS[0] * RATE => stalls.next().copied().unwrap_or(TASK),
            _ => TASK,
        };
        let answered = Arc::clone(&answered);
        let code = move |_: &mut Context| {
            thread::sleep(task);
            answered[second].fetch_add(1, Ordering::Relaxed);
        };
        // The slow ones have no deadline: they are to run.
        let expires = (task == TASK).then(|| Instant::now() + deadline);
        if let Ok(ticket) = executor.submit_fn(victim, expires, code) {
            ticket.detach();
        }
    }
    stop.store(true, Ordering::Relaxed);
    let counts = answered
        .iter()
        .map(|count| format!("{:3}", count.load(Ordering::Relaxed)));
    format!("{} of {RATE} each", counts.collect::<Vec<_>>().join(" "))
}
