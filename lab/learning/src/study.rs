//! The whole of it: simulates cases, fits every model in both ways of splitting, and scores them on what they have not
//! seen.

use anyhow::ensure;
use rayon::prelude::*;
use serde::Serialize;

use crate::case::Case;
use crate::draw::seeded;
use crate::family::{Family, Kind, Size};
use crate::importance::importance;
use crate::model::{Model, Setting};
use crate::sample::{Feature, Sample};
use crate::score::Score;
use crate::split::{Split, Way};

/// Splits of each way. Of 20 families, four are tested on in each.
const SPLITS: usize = 5;

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Config {
    /// Instances of services, of all families together.
    pub cases: usize,
    /// Kinds of services.
    pub families: usize,
    /// Same seed, same figures.
    pub seed: u64,
    /// Of each run.
    pub size: Size,
}

/// What a model is worth in one way of splitting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// How samples were split.
    pub way: Way,
    /// The model.
    pub model: &'static str,
    /// Of the predictions of all splits together.
    pub score: Score,
    /// R2 of each split alone.
    pub r2_of_splits: Vec<f64>,
    /// Mean absolute error of each split alone.
    pub mae_of_splits: Vec<f64>,
    /// How much the mean absolute error rises when a feature is shuffled: the mean over the splits.
    pub importance: Vec<(Feature, f64)>,
    /// The settings that each split chose.
    pub settings: Vec<Setting>,
}

/// Simulates all cases. `done` is told of each one, from several threads.
///
/// # Errors
/// If there are fewer than two cases of each family, or fewer than two families.
pub fn simulate(
    config: &Config,
    done: &(dyn Fn() + Sync),
) -> anyhow::Result<(Vec<Kind>, Vec<Sample>)> {
    let Config {
        cases,
        families,
        seed,
        size,
    } = *config;
    ensure!(
        families >= 2,
        "--families {families}: give at least 2, one to learn from and one to test on"
    );
    ensure!(
        cases >= 2 * families,
        "--cases {cases}: give at least {}, two of each family",
        2 * families
    );
    let numbers = 0..families;
    let of: Vec<Family> = numbers
        .into_par_iter()
        .map(|number| Family::new(Kind::draw(seed, number), seed, number, &size))
        .collect::<anyhow::Result<_>>()?;
    let samples = (0..cases)
        .into_par_iter()
        .map(|number| {
            let family = number % families;
            let sample = Case::draw(seed, number, family, &of[family]).measure(&of[family], &size);
            done();
            sample
        })
        .collect();
    Ok((of.into_iter().map(|family| family.kind).collect(), samples))
}

/// What a model made of one split.
struct Tried {
    /// Predicted, and measured.
    pairs: Vec<(f64, f64)>,
    importance: Vec<f64>,
    setting: Setting,
}

/// Judges models in one way of splitting. `done` is told of each model in each split.
///
/// # Errors
/// If the library refuses the samples.
pub fn judge(
    samples: &[Sample],
    way: Way,
    models: &[Model],
    seed: u64,
    done: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<Judged>> {
    let families: Vec<usize> = samples.iter().map(|sample| sample.family).collect();
    let splits = way.splits(&families, SPLITS, seeded(&[seed, 5]));
    let each: Vec<(&Model, &Split)> = models
        .iter()
        .flat_map(|model| splits.iter().map(move |split| (model, split)))
        .collect();
    let tried = each
        .into_par_iter()
        .map(|(model, split)| {
            let tried = one(samples, way, model, split, seeded(&[seed, 6]));
            done();
            tried
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let of_models = models.iter().zip(tried.chunks(splits.len()));
    Ok(of_models
        .map(|(model, tried)| together(way, model, tried))
        .collect())
}

/// How often `done` is told by [`judge`].
pub fn steps(models: &[Model], families: usize, way: Way) -> usize {
    let splits = match way {
        Way::Random => SPLITS,
        Way::Families => SPLITS.min(families),
    };
    models.len() * splits
}

fn one(
    samples: &[Sample],
    way: Way,
    model: &Model,
    split: &Split,
    seed: u64,
) -> anyhow::Result<Tried> {
    let part = |side: &[usize]| side.iter().map(|&at| samples[at]).collect::<Vec<_>>();
    let (train, test) = (part(&split.train), part(&split.test));
    let fitted = model.fit(&train, way, seed)?;
    let predicted = fitted.predict(&test)?;
    let measured = test.iter().map(|sample| sample.gain);
    Ok(Tried {
        pairs: predicted.into_iter().zip(measured).collect(),
        importance: importance(&fitted, &test, seed)?,
        setting: fitted.setting,
    })
}

fn together(way: Way, model: &Model, tried: &[Tried]) -> Judged {
    let pairs: Vec<_> = tried
        .iter()
        .flat_map(|one| one.pairs.iter().copied())
        .collect();
    let scores: Vec<Score> = tried.iter().map(|one| Score::of(&one.pairs)).collect();
    let count = tried.len() as f64;
    let mean = |at: usize| tried.iter().map(|one| one.importance[at]).sum::<f64>() / count;
    let features = Feature::TERMS.iter().copied();
    Judged {
        way,
        model: model.name,
        score: Score::of(&pairs),
        r2_of_splits: scores.iter().map(|score| score.r2).collect(),
        mae_of_splits: scores.iter().map(|score| score.mae).collect(),
        importance: features
            .enumerate()
            .map(|(at, feature)| (feature, mean(at)))
            .collect(),
        settings: tried.iter().map(|one| one.setting).collect(),
    }
}
