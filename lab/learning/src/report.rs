//! What is printed and written. It holds figures alone: of no model are the weights kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::family::Kind;
use crate::sample::{Feature, Sample};
use crate::study::{Config, Judged};

/// MAO's published figures of its own containers: algorithm, R2, mean absolute error. MAO, section IV.C: 2,000
/// containers, 85 % to learn from and 15 % to test on, at random.
pub const THEIRS: [(&str, f64, f64); 3] = [
    ("XGBoost", 0.92, 0.025),
    ("forest", 0.87, 0.035),
    ("linear", 0.19, 0.086),
];

/// All figures.
#[derive(Debug, PartialEq, Serialize)]
pub struct Report {
    /// Says so to whoever reads the file.
    pub modelled: bool,
    /// What was asked for.
    pub config: Config,
    /// The kinds of services.
    pub families: Vec<Kind>,
    /// MAO's figures, which are of containers of its own.
    pub theirs: [(&'static str, f64, f64); 3],
    /// Each model in each way of splitting.
    pub judged: Vec<Judged>,
    /// What the models learned from and were tested on.
    pub samples: Vec<Sample>,
}

impl Report {
    /// As text: tables that a page can take over.
    pub fn text(&self) -> String {
        let mut text = self.head();
        self.unseen(&mut text);
        let _ = writeln!(
            text,
            "\nof the law's squared error, what is each family's own mean error: {:.2} (modelled)",
            of_families(&self.samples)
        );
        let mut ways: Vec<_> = self.judged.iter().map(|judged| judged.way).collect();
        ways.dedup();
        for way in ways {
            let judged: Vec<_> = self
                .judged
                .iter()
                .filter(|judged| judged.way == way)
                .collect();
            let _ = writeln!(
                text,
                "\n| {} (modelled) | R2 | R2 of splits | mean error | 50 % | 90 % | 99 % | worst |\n\
                 | --- | --: | --: | --: | --: | --: | --: | --: |",
                way.name()
            );
            judged.iter().for_each(|judged| score(&mut text, judged));
            let _ = write!(text, "\n| {}: mean error rises by", way.name());
            for feature in Feature::TERMS {
                let _ = write!(text, " | {}", feature.name());
            }
            let _ = writeln!(text, " |\n| ---{} |", " | --:".repeat(Feature::TERMS.len()));
            judged.iter().for_each(|judged| weights(&mut text, judged));
        }
        let _ = writeln!(
            text,
            "\n| theirs: MAO's containers, random 85/15 | R2 | mean error |\n| --- | --: | --: |"
        );
        for (name, r2, mae) in self.theirs {
            let _ = writeln!(text, "| {name} | {r2:.2} | {mae:.3} |");
        }
        text
    }

    /// What the law leaves, by what no feature tells.
    fn unseen(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n| of all cases, those with (modelled) | cases | gain | law | gain less law |\n\
             | --- | --: | --: | --: | --: |"
        );
        let used = |sample: &Sample| sample.unseen.home_use - sample.unseen.away_use;
        let fewer = |sample: &Sample| sample.unseen.caches[1] < sample.unseen.caches[0];
        type Where<'a> = &'a dyn Fn(&Sample) -> bool;
        let parts: [(&str, Where<'_>); 5] = [
            ("neighbours at home less busy by 0.2 or more", &|sample| {
                used(sample) <= -0.2
            }),
            ("neighbours about as busy on both nodes", &|sample| {
                used(sample).abs() < 0.2
            }),
            ("neighbours at home busier by 0.2 or more", &|sample| {
                used(sample) >= 0.2
            }),
            ("as many L3s when bound", &|sample| !fewer(sample)),
            ("fewer L3s when bound", &fewer),
        ];
        for (name, is_one) in parts {
            let some: Vec<&Sample> = self
                .samples
                .iter()
                .filter(|sample| is_one(sample))
                .collect();
            let mean = |of: fn(&Sample) -> f64| {
                some.iter().map(|sample| of(sample)).sum::<f64>() / some.len().max(1) as f64
            };
            let (gain, law) = (mean(|sample| sample.gain), mean(Sample::law));
            let _ = writeln!(
                text,
                "| {name} | {} | {gain:.3} | {law:.3} | {:.3} |",
                some.len(),
                gain - law
            );
        }
    }

    fn head(&self) -> String {
        let mut gains: Vec<f64> = self.samples.iter().map(|sample| sample.gain).collect();
        gains.sort_by(f64::total_cmp);
        let at = |part: f64| gains[(part * (gains.len() - 1) as f64) as usize];
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        let short = self.samples.iter().filter(|sample| !sample.kept_up).count();
        let Config {
            cases,
            families,
            seed,
            ..
        } = self.config;
        format!(
            "modelled: {cases} cases of {families} families, seed {seed}; features and gains are the simulator's\n\
             gain by binding, part of processor time for each query: mean {mean:.3}, least {:.3}, 5 % {:.3}, 50 % {:.3}, \
             95 % {:.3}, most {:.3}; below 0: {} cases\n\
             bound instances that fell short of the rate of queries: {short}\n",
            at(0.0),
            at(0.05),
            at(0.5),
            at(0.95),
            at(1.0),
            gains.iter().filter(|gain| **gain < 0.0).count(),
        )
    }
}

/// Of the law's squared error over these samples, the part that is the mean error of each family: what a model gains at
/// random by telling families apart, and cannot know of one that it has not seen.
pub fn of_families(samples: &[Sample]) -> f64 {
    let mut families: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut all = 0.0;
    for sample in samples {
        let error = sample.gain - sample.law();
        all += error * error;
        let (sum, count) = families.entry(sample.family).or_default();
        *sum += error;
        *count += 1.0;
    }
    let means = families.values().map(|(sum, count)| sum * sum / count);
    means.sum::<f64>() / all
}

fn score(text: &mut String, judged: &Judged) {
    let least = judged
        .r2_of_splits
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let most = judged
        .r2_of_splits
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let score = &judged.score;
    let _ = writeln!(
        text,
        "| {} | {:.2} | {least:.2} to {most:.2} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
        judged.model, score.r2, score.mae, score.p50, score.p90, score.p99, score.worst
    );
}

fn weights(text: &mut String, judged: &Judged) {
    let _ = write!(text, "| {}", judged.model);
    for (_, rise) in &judged.importance {
        let _ = match *rise {
            0.0 => write!(text, " | 0"),
            rise => write!(text, " | {rise:.4}"),
        };
    }
    let _ = writeln!(text, " |");
}
