//! Load that moves from one half of the tables to the other, and back.

use super::{Cell, Machines, Seeds};

/// Seconds of a turn.
const TURNS: [u32; 4] = [60, 180, 300, 600];

/// Tasks of so many seconds.
const TASK: f64 = 0.02;

/// Tables of one half.
const HALF: u32 = 3;

const MACHINE: Machines = Machines::Uniform(4, 4);
const CORES: f64 = 16.0;

/// The half whose turn it is asks for 75 % of the machine, the other one for 6 %.
fn half(name: &str, first: bool, turn: u32, turns: u32) -> String {
    let rate = |part: f64| part * CORES / TASK / f64::from(HALF);
    let asks = (0..turns).map(|at| {
        let busy = (at % 2 == 0) == first;
        let rate = rate(if busy { 0.75 } else { 0.06 });
        let (from, until) = (at * turn, (at + 1) * turn);
        format!("[[tables.asks]]\nrate = {rate:?}\nfrom = {from}.0\nuntil = {until}.0\n")
    });
    let micros = 1e6 * TASK;
    format!(
        "[[tables]]\nname = '{name}'\nkind = 'task'\ncount = {HALF}\nmicros = {micros:?}\n{}",
        asks.collect::<String>()
    )
}

pub(super) fn cells() -> Vec<Cell> {
    let turns = TURNS.into_iter().flat_map(|turn| {
        // Two turns of each half at least, and as long as windows and brakes take.
        let turns = (1_200 / turn).max(6);
        let halves = [
            half("first", true, turn, turns),
            half("second", false, turn, turns),
        ];
        let (warm, seconds) = (2 * turn, (turns - 2) * turn);
        let workload = format!(
            "name = 'turns'\nwarm = {warm}\nseconds = {seconds}\n{}",
            halves.concat()
        );
        [false, true].map(|still| Cell {
            name: format!(
                "turns of {turn} s{}",
                if still { ", nothing moves" } else { "" }
            ),
            machine: MACHINE,
            workload: workload.clone(),
            load: None,
            flip: None,
            queries: 0,
            seeds: Seeds::Half,
            still,
        })
    });
    turns.collect()
}
