//! One stream of queries over many tables.

use super::{Cell, Machines, Seeds};

/// Parts of what can be reached; the last one is all.
const LOADS: [Option<f64>; 5] = [Some(0.3), Some(0.5), Some(0.8), Some(0.95), None];

fn told(load: Option<f64>) -> String {
    load.map_or("saturated".to_owned(), |load| {
        format!("{:.0} %", 100.0 * load)
    })
}

struct Family<'a> {
    name: &'a str,
    workload: String,
    machines: Vec<Machines>,
    loads: &'a [Option<f64>],
    flip: Option<f64>,
    /// Queries for each domain.
    queries: u64,
    /// Of as many seeds as are asked for.
    seeds: Seeds,
}

impl Family<'_> {
    fn cells(&self) -> Vec<Cell> {
        let each = |machine: Machines, load| Cell {
            name: format!(
                "{}, {} domains, {}",
                self.name,
                machine.domains(),
                told(load)
            ),
            machine,
            workload: self.workload.clone(),
            load,
            flip: self.flip,
            queries: self.queries * machine.domains() as u64,
            still: false,
            seeds: self.seeds,
        };
        let machines = self.machines.iter();
        let cells =
            machines.flat_map(|&machine| self.loads.iter().map(move |&load| each(machine, load)));
        cells.collect()
    }
}

/// Tables of tasks that read nothing: so many, of so many microseconds on average.
fn tasks(count: u32, micros: u32, more: &str) -> String {
    format!(
        "name = 'tasks'\n{more}\n[[tables]]\nkind = 'task'\ncount = {count}\nmicros = {micros}\ntimes = 'exponential'\n"
    )
}

const SKEWED: &str = "table_skew = 0.8";

/// As `arXiv 2605.10090` tells its tables, so many times as large: the simulator's `paper-hnsw` and `paper-ivf`.
fn graphs(count: u32, rows: [u64; 2]) -> String {
    let [least, most] = rows;
    format!(
        "name = 'graphs'\n{SKEWED}\nquery_skew = 0.8\n[[tables]]\nkind = 'hnsw'\ncount = {count}\n\
         rows = [{least}, {most}]\ndims = [64, 96, 128, 192, 256]\nk = [100]\nm = 32\n"
    )
}

fn lists() -> String {
    format!(
        "name = 'lists'\n{SKEWED}\nquery_skew = 0.8\n[[tables]]\nkind = 'ivf'\ncount = 15\n\
         rows = [10_000, 750_000]\ndims = [64, 96, 128, 192, 256]\n"
    )
}

pub(super) fn cells() -> Vec<Cell> {
    let uniform = |sizes: &[u32]| {
        sizes
            .iter()
            .map(|&size| Machines::Uniform(size, 8))
            .collect()
    };
    let genoa = |sizes: &[usize]| {
        sizes
            .iter()
            .map(|&size| Machines::Preset("genoa-9654", size))
            .collect()
    };
    let two_sockets = Machines::Preset("genoa-9654x2", 24);
    let bergamo = Machines::Preset("bergamo-9754", 16);
    let some = [Some(0.5), Some(0.8), None];
    let families = [
        Family {
            name: "small tables",
            workload: tasks(64, 200, SKEWED),
            machines: uniform(&[1, 2, 12, 16, 24]),
            loads: &LOADS,
            flip: None,
            queries: 3_000,
            seeds: Seeds::All,
        },
        Family {
            name: "one hot table",
            workload: tasks(16, 2_000, "hot_share = 0.5"),
            machines: uniform(&[2, 12]),
            loads: &LOADS[1..],
            flip: None,
            queries: 4_000,
            seeds: Seeds::All,
        },
        Family {
            name: "many tables",
            workload: tasks(1_000, 1_000, "table_skew = 1.0"),
            machines: uniform(&[2, 12]),
            loads: &some,
            flip: None,
            queries: 1_500,
            seeds: Seeds::Half,
        },
        Family {
            name: "the hot set moves",
            workload: tasks(32, 10_000, "table_skew = 1.0"),
            machines: uniform(&[4, 12]),
            loads: &[Some(0.33), Some(0.5), Some(0.8)],
            flip: Some(30.0),
            queries: 1,
            seeds: Seeds::Half,
        },
        Family {
            name: "graphs in cache",
            workload: graphs(60, [2_000, 20_000]),
            machines: genoa(&[1, 2, 12]),
            loads: &some,
            flip: None,
            queries: 1_000,
            seeds: Seeds::Half,
        },
        Family {
            name: "graphs beyond it",
            workload: graphs(30, [50_000, 500_000]),
            machines: genoa(&[12]),
            loads: &[Some(0.8)],
            flip: None,
            queries: 60,
            seeds: Seeds::Half,
        },
        Family {
            name: "graphs beyond it, two sockets",
            workload: graphs(30, [50_000, 500_000]),
            machines: vec![two_sockets],
            loads: &[None],
            flip: None,
            queries: 60,
            seeds: Seeds::Half,
        },
        Family {
            name: "lists",
            workload: lists(),
            machines: [genoa(&[1, 2, 12]), vec![bergamo, two_sockets]].concat(),
            loads: &LOADS[1..],
            flip: None,
            queries: 1_000,
            seeds: Seeds::Half,
        },
    ];
    families.iter().flat_map(Family::cells).collect()
}
