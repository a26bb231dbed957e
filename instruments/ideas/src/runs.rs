//! Runs beside the present default, and tables of them.

use chiplet_baselines::Strategy;
use chiplet_index::RowFormat;
use chiplet_sim::{Ideas, Load, Machine, Outcome, Prepared, Recipe, Sampling, Scenario};

const SEEDS: [u64; 3] = [1, 2, 3];

/// Loads in percent of the default's saturation.
const LOADS: [f64; 2] = [50.0, 80.0];

/// Tables and traffic on a machine.
#[derive(Clone)]
pub struct Case {
    pub name: &'static str,
    pub recipe: Recipe,
    pub machine: Machine,
    /// Different recorded queries.
    pub recorded: usize,
}

impl Case {
    /// One of the paper's workloads at `size` times its rows, on a Genoa.
    pub fn paper(name: &'static str, workload: &str, size: f64) -> Self {
        let recipe = Recipe::built_in(workload).expect("it is built in");
        Self::new(name, recipe.resized(size))
    }

    /// A recipe on a Genoa.
    pub fn new(name: &'static str, recipe: Recipe) -> Self {
        let machine = Machine::preset("genoa-9654").expect("it is built in");
        Self {
            name,
            recipe,
            machine,
            recorded: Sampling::default().queries,
        }
    }

    /// The same with rows kept as asked for; none if these tables cannot keep them so.
    fn kept(&self, counted: &Counted) -> Option<Self> {
        let recipe = self.recipe.clone();
        let recipe = recipe.kept(counted.rows_as, counted.rerank).ok()?;
        Some(Self {
            recipe,
            ..self.clone()
        })
    }

    /// The same with this part of all queries going to one table.
    pub fn hot(mut self, share: f64) -> Self {
        self.recipe = self.recipe.hot(share);
        self
    }
}

/// What is run.
pub struct Counted {
    /// Queries that are counted in each run.
    pub queries: u64,
    /// What names of cases contain.
    pub case: String,
    /// How rows are kept, and once more for re-ranking, instead of as the cases say.
    pub rows_as: Option<RowFormat>,
    pub rerank: Option<RowFormat>,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            queries: 12_000,
            case: String::new(),
            rows_as: None,
            rerank: None,
        }
    }
}

/// What is tried.
pub struct Try {
    pub name: String,
    pub ideas: Ideas,
    /// Searches of lists make one of these parts of their probes.
    pub stops: Vec<f64>,
}

impl Try {
    pub fn new(name: impl Into<String>, ideas: Ideas) -> Self {
        Self {
            name: name.into(),
            ideas,
            stops: vec![1.0],
        }
    }
}

/// Saturated, then at each load: one strategy, one seed.
type Runs = Vec<Outcome>;

/// Runs each case with each seed: the default, then all that is tried, and prints ratios to the default.
pub fn compare(cases: &[Case], tries: &[Try], counted: &Counted) {
    println!(
        "| case | | queries/s | bytes/query | 50 %: p99 | 80 %: p50 | p99 | p999 |\n\
         | --- | --- | --: | --: | --: | --: | --: | --: |"
    );
    let queries = counted.queries;
    for case in cases
        .iter()
        .filter(|case| case.name.contains(&counted.case))
        .filter_map(|case| case.kept(counted))
    {
        let of_seeds: Vec<Vec<Runs>> = std::thread::scope(|scope| {
            let case = &case;
            let run = |seed| scope.spawn(move || job(case, tries, seed, queries));
            let threads = SEEDS.map(run);
            let ended = threads.map(|thread| thread.join().expect("no run panics"));
            ended.into()
        });
        print_row(case.name, "default", &of_seeds, None);
        for (at, tried) in tries.iter().enumerate() {
            print_row("", &tried.name, &of_seeds, Some(at + 1));
        }
    }
}

fn job(case: &Case, tries: &[Try], seed: u64, queries: u64) -> Vec<Runs> {
    let sampling = Sampling {
        seed,
        queries: case.recorded,
        ..Sampling::default()
    };
    let mut prepared = Prepared::new(case.recipe.workload(seed), sampling, |_| ());
    let mut rates: Vec<f64> = Vec::new();
    let default = Try::new("default", Ideas::default());
    let mut all = Vec::new();
    for tried in std::iter::once(&default).chain(tries) {
        prepared = prepared.stopping(&tried.stops);
        let run = |load| {
            let mut scenario = Scenario::new(&case.machine, &prepared, Strategy::CCD_AWARE);
            (scenario.seed, scenario.load) = (seed, load);
            (scenario.warmup, scenario.measured) = (queries / 3, queries);
            scenario.settings.ideas = tried.ideas;
            // A load beyond saturation is none: enough to see that.
            scenario.longest = 60.0;
            scenario.run(&mut |_| ())
        };
        let mut runs = vec![run(Load::default())];
        if rates.is_empty() {
            rates = LOADS.map(|load| runs[0].qps * load / 100.0).to_vec();
        }
        runs.extend(rates.iter().map(|&rate| run(Load::Open { rate })));
        all.push(runs);
    }
    all
}

/// One row: what was tried to the default, or the default itself.
fn print_row(case: &str, name: &str, of_case: &[Vec<Runs>], tried: Option<usize>) {
    let figures = |runs: &Runs| {
        let [half, most] = [&runs[1].latency_us, &runs[2].latency_us];
        let saturated = &runs[0];
        let bytes = saturated.memory_bytes_per_query / 1e6;
        [
            saturated.qps / 1e3,
            bytes,
            half.p99,
            most.p50,
            most.p99,
            most.p999,
        ]
    };
    let each: Vec<[f64; 6]> = of_case
        .iter()
        .map(|seed| {
            let default = figures(&seed[0]);
            match tried {
                None => default,
                Some(at) => {
                    let tried = figures(&seed[at]);
                    std::array::from_fn(|column| tried[column] / default[column])
                }
            }
        })
        .collect();
    let units = ["k", " MB", "", "", "", ""];
    let mut row = format!("| {case} | {name}");
    for (column, unit) in units.iter().enumerate() {
        let mut of_seeds: Vec<f64> = each.iter().map(|figures| figures[column]).collect();
        of_seeds.sort_by(f64::total_cmp);
        let [least, .., most] = of_seeds[..] else {
            unreachable!("there are several seeds")
        };
        let middle = of_seeds[of_seeds.len() / 2];
        row += &match tried {
            Some(_) => format!(" | {middle:.2} ({least:.2}-{most:.2})"),
            None if middle >= 10.0 => format!(" | {middle:.0}{unit} ({least:.0}-{most:.0})"),
            None => format!(" | {middle:.2}{unit} ({least:.2}-{most:.2})"),
        };
    }
    println!("{row} |");
}
