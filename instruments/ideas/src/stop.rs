//! Searches of inverted lists that stop early: what they find and read on real vectors, then modelled.
//!
//! Rules, each with one parameter that trades what is found for what is read:
//!
//! | rule | a search ends |
//! |---|---|
//! | fixed | after so many lists |
//! | distance | at the first list whose centroid is so many times as far as the nearest one |
//! | patience | after so many lists in a row that changed the answer by a twentieth or less |
//! | learned | after so many times as many lists as a regression on the first distances expects |
//! | border | never, but it passes over each list whose border is so many times as far as the k-th row found |
//! | known | when it has found so much, which no rule can know: about what there is to gain |

use chiplet_sim::Ideas;
use chiplet_table::{Context, Query, Table as _};
use chiplet_workload::dataset::VectorSet;

use super::lists::{Error, Lists, drawn, glove};
use super::runs::{Case, Counted, Try, compare};

const SEEDS: [u64; 3] = [1, 2, 3];
const QUERIES: usize = 800;
/// Lists that are visited at most.
const MOST: usize = 512;
/// Parts of what is to be found.
const GOALS: [f64; 3] = [0.9, 0.95, 0.99];
/// The rules after the first, in the order of their figures.
const RULES: [&str; 5] = ["distance", "patience", "learned", "border", "known"];

pub fn run(counted: &Counted) -> Result<(), Error> {
    println!(
        "| vectors | k | recall | lists | rule | rows compared | p99 of a query's |\n\
         | --- | --: | --: | --: | --- | --: | --: |"
    );
    let mut stops = Vec::new();
    for (name, set) in [("GloVe", glove()?), ("drawn", drawn())] {
        let seeds: Result<Vec<Figures>, Error> = SEEDS
            .map(|seed| Figures::of(&set, seed))
            .into_iter()
            .collect();
        let seeds = seeds?;
        for (k_at, k) in KS.into_iter().enumerate() {
            for goal in GOALS {
                let chosen: Vec<Chosen> = seeds.iter().map(|of| of.choose(k_at, goal)).collect();
                print_rows(name, k, goal, &chosen);
                if name == "GloVe" && k == 100 && goal == 0.95 {
                    stops = chosen[0].parts.to_vec();
                }
            }
        }
    }
    let reached = RULES
        .iter()
        .zip(stops)
        .filter(|(_, stops)| !stops.is_empty());
    let tries = reached.map(|(rule, stops)| Try {
        stops,
        ..Try::new(*rule, Ideas::default())
    });
    let cases = [
        Case::paper("paper-ivf", "paper-ivf", 1.0),
        Case::paper("ivf x 0.02", "paper-ivf", 0.02),
    ];
    println!();
    compare(&cases, &tries.collect::<Vec<_>>(), counted);
    Ok(())
}

/// Rows of an answer.
const KS: [usize; 2] = [10, 100];

/// What came of one query under one rule.
#[derive(Clone, Copy, Default)]
struct End {
    found: f64,
    rows: f64,
    lists: f64,
}

/// For each parameter of a rule, least work first, what came of each query.
type Curve = Vec<Vec<End>>;

/// For each k the curves of `fixed` and of all [`RULES`].
struct Figures(Vec<[Curve; 6]>);

/// All rules where they find as much as the fixed one.
struct Chosen {
    lists: usize,
    /// Of each rule: rows compared, and the 99th percentile of a query's, to those of the fixed one.
    ratios: [Option<(f64, f64)>; 5],
    /// Of each rule and query: lists visited, to those of the fixed one.
    parts: [Vec<f64>; 5],
}

fn mean(ends: &[End], of: impl Fn(&End) -> f64) -> f64 {
    ends.iter().map(of).sum::<f64>() / ends.len() as f64
}

fn p99(ends: &[End]) -> f64 {
    let mut rows: Vec<f64> = ends.iter().map(|end| end.rows).collect();
    rows.sort_by(f64::total_cmp);
    rows[rows.len() * 99 / 100]
}

impl Figures {
    fn of(set: &VectorSet, seed: u64) -> Result<Self, Error> {
        // Other rows are queries for each seed.
        let offset = seed as usize * 7;
        let step = set.len() / QUERIES;
        let (asked, rows): (Vec<usize>, Vec<usize>) =
            (0..set.len()).partition(|row| row % step == offset % step);
        let (asked, rows) = (set.select(&asked), set.select(&rows));
        let lists = Lists::build(&rows, seed)?;
        // The first half is what `learned` learns from; the figures are those of the other half.
        let searches: Vec<Search> = asked
            .rows()
            .map(|query| lists.search(&rows, query))
            .collect();
        let (known, fresh) = searches.split_at(searches.len() / 2);
        let of_k = |(at, k): (usize, usize)| {
            let learned = Learned::from(known, at);
            let mut curves: [Curve; 6] = Default::default();
            curves[0] = (1..=MOST)
                .map(|most| each(fresh, |search| search.prefix(at, most)))
                .collect();
            curves[1] = (0..150)
                .map(|step| 1.0 + 0.01 * step as f32)
                .map(|far| each(fresh, |search| search.prefix(at, search.nearer_than(far))))
                .collect();
            curves[2] = (1..=256)
                .map(|patience| {
                    each(fresh, |search| {
                        search.prefix(at, search.calm(at, patience, k / 20))
                    })
                })
                .collect();
            curves[3] = (1..200)
                .map(|step| 0.04 * f64::from(step))
                .map(|times| {
                    each(fresh, |search| {
                        search.prefix(at, learned.lists(search, at, times))
                    })
                })
                .collect();
            curves[4] = (0..40)
                .map(|step| 6.0 * 0.9_f32.powi(step))
                .map(|times| each(fresh, |search| search.within_border(k, times)))
                .collect();
            curves[5] = (1..=200)
                .map(|step| f64::from(step) / 200.0)
                .map(|part| each(fresh, |search| search.prefix(at, search.finding(at, part))))
                .collect();
            curves
        };
        Ok(Self(KS.into_iter().enumerate().map(of_k).collect()))
    }

    fn choose(&self, k_at: usize, goal: f64) -> Chosen {
        let [fixed, rules @ ..] = &self.0[k_at];
        let finds = |ends: &Vec<End>, goal: f64| mean(ends, |end| end.found) >= goal;
        let lists = fixed.iter().position(|ends| finds(ends, goal));
        let lists = lists.unwrap_or(fixed.len() - 1);
        let goal = mean(&fixed[lists], |end| end.found);
        let best =
            [0, 1, 2, 3, 4].map(|rule: usize| rules[rule].iter().find(|ends| finds(ends, goal)));
        let rows = |ends: &[End]| mean(ends, |end| end.rows);
        Chosen {
            lists: lists + 1,
            ratios: best.map(|ends| {
                ends.map(|ends| {
                    (
                        rows(ends) / rows(&fixed[lists]),
                        p99(ends) / p99(&fixed[lists]),
                    )
                })
            }),
            parts: best.map(|ends| {
                let parts = ends.into_iter().flatten();
                parts.map(|end| end.lists / (lists + 1) as f64).collect()
            }),
        }
    }
}

fn each(searches: &[Search], end: impl Fn(&Search) -> End) -> Vec<End> {
    searches.iter().map(end).collect()
}

fn print_rows(name: &str, k: usize, goal: f64, chosen: &[Chosen]) {
    let range = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        match values[..] {
            [least, middle, most] => format!("{middle:.2} ({least:.2}-{most:.2})"),
            _ => "not reached".to_owned(),
        }
    };
    let lists: Vec<String> = chosen
        .iter()
        .map(|chosen| chosen.lists.to_string())
        .collect();
    for (rule, rule_name) in RULES.iter().enumerate() {
        let of = |figure: fn(&(f64, f64)) -> f64| {
            let ratios = chosen
                .iter()
                .filter_map(|chosen| chosen.ratios[rule].as_ref());
            range(ratios.map(figure).collect())
        };
        println!(
            "| {name} | {k} | {goal} | {} | {rule_name} | {} | {} |",
            lists.join(", "),
            of(|ratio| ratio.0),
            of(|ratio| ratio.1)
        );
    }
}

/// Squared distance.
fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

impl Lists {
    fn search(&self, rows: &VectorSet, query: &[f32]) -> Search {
        let all = Query::new(query).top(self.centroids.len());
        let order = self.table.search(&all, &mut Context::default());
        let order = order.expect("a finite query of the right dimension is answered");
        let nearest = order[0].id as usize;
        let away = |list: usize| distance(query, self.centroids.row(list)).sqrt();
        let first = away(nearest);
        let visits: Vec<Visit> = order
            .iter()
            .map(|centroid| {
                let list = centroid.id as usize;
                let far = away(list);
                let between =
                    distance(self.centroids.row(nearest), self.centroids.row(list)).sqrt();
                let members = self.members[list].iter();
                Visit {
                    far,
                    // The plane between the two centroids: nothing of the list is nearer.
                    border: match between > 0.0 {
                        true => (far * far - first * first) / (2.0 * between),
                        false => 0.0,
                    },
                    rows: members
                        .map(|&row| distance(query, rows.row(row as usize)).sqrt())
                        .collect(),
                }
            })
            .collect();
        let mut everything: Vec<f32> = visits
            .iter()
            .flat_map(|visit| visit.rows.iter().copied())
            .collect();
        everything.sort_unstable_by(f32::total_cmp);
        let truth = KS.map(|k| everything[k - 1]);
        let steps = [0, 1].map(|at| steps(&visits, KS[at], truth[at]));
        let kept = visits.into_iter().take(MOST).collect();
        Search {
            visits: kept,
            truth,
            steps,
        }
    }
}

/// A list as one query sees it.
struct Visit {
    /// How far its centroid is, and at least how far its rows are.
    far: f32,
    border: f32,
    /// How far its rows are.
    rows: Vec<f32>,
}

/// The lists of a query, nearest centroid first.
struct Search {
    visits: Vec<Visit>,
    /// For each k how far the k-th row is.
    truth: [f32; 2],
    /// For each k what is known after each list.
    steps: [Vec<Step>; 2],
}

#[derive(Clone, Copy)]
struct Step {
    /// So far.
    end: End,
    /// Rows of the answer that came with this list, and how far its last one is.
    fresh: usize,
    kth: f32,
}

/// The nearest `k` so far, in order.
struct Best {
    k: usize,
    nearest: Vec<f32>,
}

impl Best {
    fn new(k: usize) -> Self {
        Self {
            k,
            nearest: Vec::new(),
        }
    }

    fn kth(&self) -> f32 {
        match self.nearest.len() == self.k {
            true => self.nearest[self.k - 1],
            false => f32::INFINITY,
        }
    }

    /// Adds a list's rows; returns how many of them are in the answer then.
    fn add(&mut self, rows: &[f32]) -> usize {
        let before = self.kth();
        self.nearest
            .extend(rows.iter().filter(|&&row| row < before));
        self.nearest.sort_unstable_by(f32::total_cmp);
        self.nearest.truncate(self.k);
        let kth = self.kth();
        rows.iter()
            .filter(|&&row| row < before && row <= kth)
            .count()
    }
}

fn count_found(rows: &[f32], truth: f32, k: usize) -> f64 {
    rows.iter().filter(|&&row| row <= truth).count() as f64 / k as f64
}

fn steps(visits: &[Visit], k: usize, truth: f32) -> Vec<Step> {
    let (mut best, mut end) = (Best::new(k), End::default());
    let step = |visit: &Visit| {
        let fresh = best.add(&visit.rows);
        end.found += count_found(&visit.rows, truth, k);
        end.rows += visit.rows.len() as f64;
        end.lists += 1.0;
        Step {
            end,
            fresh,
            kth: best.kth(),
        }
    };
    visits.iter().take(MOST).map(step).collect()
}

impl Search {
    fn prefix(&self, k_at: usize, lists: usize) -> End {
        let steps = &self.steps[k_at];
        steps[lists.clamp(1, steps.len()) - 1].end
    }

    fn nearer_than(&self, times: f32) -> usize {
        let limit = times * self.visits[0].far;
        self.visits
            .iter()
            .take_while(|visit| visit.far <= limit)
            .count()
    }

    fn calm(&self, k_at: usize, patience: usize, change: usize) -> usize {
        let mut calm = 0;
        for (step, lists) in self.steps[k_at].iter().zip(1..) {
            let quiet = step.fresh <= change && step.kth.is_finite();
            calm = if quiet { calm + 1 } else { 0 };
            if calm == patience {
                return lists;
            }
        }
        MOST
    }

    fn finding(&self, k_at: usize, part: f64) -> usize {
        let found = self.steps[k_at]
            .iter()
            .position(|step| step.end.found >= part);
        found.map_or(MOST, |list| list + 1)
    }

    fn within_border(&self, k: usize, times: f32) -> End {
        let k_at = usize::from(k == KS[1]);
        let (mut best, mut end) = (Best::new(k), End::default());
        for visit in &self.visits {
            if visit.border * times > best.kth() {
                continue;
            }
            best.add(&visit.rows);
            end.found += count_found(&visit.rows, self.truth[k_at], k);
            end.rows += visit.rows.len() as f64;
            end.lists += 1.0;
        }
        end
    }
}

/// Linear regression of the logarithm of the lists that a query needs, on what is known after its first lists.
struct Learned([f64; FEATURES]);

const FEATURES: usize = 6;
/// Lists that are visited before it is asked.
const FIRST: usize = 4;

fn features(search: &Search, k_at: usize) -> [f64; FEATURES] {
    let far = |list: usize| f64::from(search.visits[list.min(search.visits.len() - 1)].far);
    let near = far(0).max(1e-6);
    let kth = search.steps[k_at][..FIRST]
        .iter()
        .rev()
        .map(|step| step.kth);
    let kth = kth
        .map(f64::from)
        .find(|kth| kth.is_finite())
        .unwrap_or(2.0 * near);
    [
        1.0,
        near,
        (far(7) / near).ln(),
        (far(31) / near).ln(),
        (far(127) / near).ln(),
        (kth / near).ln(),
    ]
}

impl Learned {
    /// Least squares, by the normal equations.
    fn from(known: &[Search], k_at: usize) -> Self {
        let mut rows = [[0.0; FEATURES + 1]; FEATURES];
        for search in known {
            let needed = search.steps[k_at]
                .iter()
                .position(|step| step.end.found >= 0.95);
            let needed = (1.0 + needed.unwrap_or(MOST) as f64).ln();
            let x = features(search, k_at);
            for (row, of_row) in rows.iter_mut().zip(x) {
                for (cell, of_column) in row.iter_mut().zip(x.into_iter().chain([needed])) {
                    *cell += of_row * of_column;
                }
            }
        }
        // A little on the diagonal, should two features be alike.
        (0..FEATURES).for_each(|at| rows[at][at] += 1e-6 * known.len() as f64);
        for pivot in 0..FEATURES {
            let of_pivot = rows[pivot];
            for (at, row) in rows.iter_mut().enumerate() {
                let times = row[pivot] / of_pivot[pivot];
                if at != pivot {
                    row.iter_mut()
                        .zip(of_pivot)
                        .for_each(|(cell, value)| *cell -= times * value);
                }
            }
        }
        Self(std::array::from_fn(|at| rows[at][FEATURES] / rows[at][at]))
    }

    fn lists(&self, search: &Search, k_at: usize, times: f64) -> usize {
        let x = features(search, k_at);
        let expected: f64 = x
            .iter()
            .zip(self.0)
            .map(|(value, weight)| value * weight)
            .sum();
        ((times * expected.exp()) as usize).clamp(FIRST, MOST)
    }
}
