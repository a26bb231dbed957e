//! What predicts a gain: the law, which learns nothing, and what is fitted to samples.
//!
//! Forests, boosted trees and linear regression are `smartcore`'s. Its boosted trees are XGBoost's second-order ones
//! with exact splits. Of a few settings each takes the one with the least absolute error in a cross validation inside
//! the training part: over samples where the split is at random, over whole families where it is by family.

use serde::Serialize;
use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::linalg::basic::matrix::DenseMatrix;
use smartcore::linear::linear_regression::{LinearRegression, LinearRegressionParameters};
use smartcore::xgboost::{XGRegressor, XGRegressorParameters};

use crate::sample::{Feature, Sample};
use crate::split::Way;

/// Folds of the cross validation.
const FOLDS: usize = 3;

/// A way to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// As it is called in tables.
    pub name: &'static str,
    /// How it learns.
    pub learns: Learns,
    /// What it sees.
    pub sees: &'static [Feature],
    /// Trees are fitted to what the law leaves, and its prediction is added to theirs.
    pub beside_law: bool,
}

/// How a model learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learns {
    /// The mean of what it has seen: what a model has to be better than.
    Mean,
    /// Nothing: the law, with latencies at rest.
    Law,
    /// Nothing: the law, with the run's own latencies.
    LawLoaded,
    /// Linear regression.
    Linear,
    /// A random forest.
    Forest,
    /// Gradient boosted trees.
    Boosted,
}

/// All that are compared.
pub const MODELS: [Model; 13] = [
    Model::new("mean of the training part", Learns::Mean, &[]),
    Model::new("law", Learns::Law, Feature::LAW),
    Model::new("law, latencies under load", Learns::LawLoaded, Feature::LAW),
    Model::new("linear, MAO's four", Learns::Linear, Feature::MAO),
    Model::new("forest, MAO's four", Learns::Forest, Feature::MAO),
    Model::new("boosted, MAO's four", Learns::Boosted, Feature::MAO),
    Model::new("linear, + q, lambda", Learns::Linear, Feature::TERMS),
    Model::new("forest, + q, lambda", Learns::Forest, Feature::TERMS),
    Model::new("boosted, + q, lambda", Learns::Boosted, Feature::TERMS),
    Model::new("linear, + q, lambda, law", Learns::Linear, Feature::ALL),
    Model::new("forest, + q, lambda, law", Learns::Forest, Feature::ALL),
    Model::new("boosted, + q, lambda, law", Learns::Boosted, Feature::ALL),
    Model {
        beside_law: true,
        ..Model::new("law + boosted on the rest", Learns::Boosted, Feature::TERMS)
    },
];

impl Model {
    const fn new(name: &'static str, learns: Learns, sees: &'static [Feature]) -> Self {
        Self {
            name,
            learns,
            sees,
            beside_law: false,
        }
    }

    /// Fits it, with the best of its settings.
    ///
    /// # Errors
    /// If the library refuses the samples.
    pub fn fit(&self, train: &[Sample], way: Way, seed: u64) -> anyhow::Result<Fitted> {
        let settings = self.settings();
        let best = match settings.len() {
            1 => 0,
            _ => self.choose(&settings, train, way, seed)?,
        };
        self.fit_with(settings[best], train, seed)
    }

    /// Which of the settings has the least absolute error in a cross validation.
    fn choose(
        &self,
        settings: &[Setting],
        train: &[Sample],
        way: Way,
        seed: u64,
    ) -> anyhow::Result<usize> {
        let families: Vec<usize> = train.iter().map(|sample| sample.family).collect();
        let mut errors = vec![0.0; settings.len()];
        for split in way.inner(&families, FOLDS, seed) {
            let part = |side: &[usize]| side.iter().map(|&at| train[at]).collect::<Vec<_>>();
            let (seen, held) = (part(&split.train), part(&split.test));
            for (error, &setting) in errors.iter_mut().zip(settings) {
                let predicted = self.fit_with(setting, &seen, seed)?.predict(&held)?;
                let pairs = predicted.iter().zip(&held);
                *error += pairs
                    .map(|(p, sample)| (p - sample.gain).abs())
                    .sum::<f64>();
            }
        }
        let best = (0..errors.len()).min_by(|&a, &b| errors[a].total_cmp(&errors[b]));
        Ok(best.expect("there are settings"))
    }

    fn settings(&self) -> Vec<Setting> {
        let tried: &[(u16, usize, usize)] = match self.learns {
            Learns::Mean | Learns::Law | Learns::LawLoaded | Learns::Linear => &[(0, 0, 0)],
            Learns::Forest => &[(0, 100, 2), (0, 100, 5), (0, 100, 15)],
            Learns::Boosted => &[(2, 250, 5), (4, 150, 5), (6, 80, 5)],
        };
        let tried = tried.iter();
        tried
            .map(|&(depth, trees, least)| Setting {
                depth,
                trees,
                least,
            })
            .collect()
    }

    fn fit_with(&self, setting: Setting, train: &[Sample], seed: u64) -> anyhow::Result<Fitted> {
        let target: Vec<f64> = train
            .iter()
            .map(|sample| sample.gain - self.base(sample))
            .collect();
        let rows = || matrix(self.sees, train);
        let mean = target.iter().sum::<f64>() / target.len() as f64;
        let inner = match self.learns {
            Learns::Mean => Inner::Constant(mean),
            Learns::Law => Inner::Law,
            Learns::LawLoaded => Inner::LawLoaded,
            Learns::Linear => {
                let parameters = LinearRegressionParameters::default();
                Inner::Linear(LinearRegression::fit(&rows()?, &target, parameters)?)
            }
            Learns::Forest => {
                let parameters = RandomForestRegressorParameters::default()
                    .with_n_trees(setting.trees)
                    .with_min_samples_leaf(setting.least)
                    .with_m((self.sees.len() / 2).max(1))
                    .with_seed(seed);
                Inner::Forest(RandomForestRegressor::fit(&rows()?, &target, parameters)?)
            }
            Learns::Boosted => {
                let parameters = XGRegressorParameters::default()
                    .with_n_estimators(setting.trees)
                    .with_max_depth(setting.depth)
                    .with_min_child_weight(setting.least)
                    .with_learning_rate(0.08)
                    .with_subsample(0.8)
                    .with_base_score(mean)
                    .with_seed(seed);
                Inner::Boosted(XGRegressor::fit(&rows()?, &target, parameters)?)
            }
        };
        Ok(Fitted {
            model: *self,
            setting,
            inner,
        })
    }

    /// What is predicted before anything is learned.
    fn base(&self, sample: &Sample) -> f64 {
        match self.beside_law {
            true => sample.law(),
            false => 0.0,
        }
    }
}

/// How large the trees are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Levels of a boosted tree; forests' have no bound.
    pub depth: u16,
    /// How many.
    pub trees: usize,
    /// Samples of a leaf at least.
    pub least: usize,
}

type Matrix = DenseMatrix<f64>;

enum Inner {
    Constant(f64),
    Law,
    LawLoaded,
    Linear(LinearRegression<f64, f64, Matrix, Vec<f64>>),
    Forest(RandomForestRegressor<f64, f64, Matrix, Vec<f64>>),
    Boosted(XGRegressor<f64, f64, Matrix, Vec<f64>>),
}

/// A model that has learned.
pub struct Fitted {
    model: Model,
    /// What it chose.
    pub setting: Setting,
    inner: Inner,
}

impl Fitted {
    /// The gain of each sample, whose own is not looked at.
    ///
    /// # Errors
    /// If the library refuses the samples.
    pub fn predict(&self, samples: &[Sample]) -> anyhow::Result<Vec<f64>> {
        let rows = || matrix(self.model.sees, samples);
        let mut predicted = match &self.inner {
            Inner::Constant(value) => vec![*value; samples.len()],
            Inner::Law => samples.iter().map(Sample::law).collect(),
            Inner::LawLoaded => samples.iter().map(Sample::law_loaded).collect(),
            Inner::Linear(model) => model.predict(&rows()?)?,
            Inner::Forest(model) => model.predict(&rows()?)?,
            Inner::Boosted(model) => model.predict(&rows()?)?,
        };
        for (value, sample) in predicted.iter_mut().zip(samples) {
            *value += self.model.base(sample);
        }
        Ok(predicted)
    }
}

fn matrix(sees: &[Feature], samples: &[Sample]) -> anyhow::Result<Matrix> {
    let row = |sample: &Sample| sees.iter().map(|feature| feature.of(sample)).collect();
    Ok(DenseMatrix::from_2d_vec(
        &samples.iter().map(row).collect(),
    )?)
}
