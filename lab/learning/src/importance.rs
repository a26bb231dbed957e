//! Which features predictions lean on: how much larger the mean error gets when one of them is shuffled among the test
//! samples.
//!
//! It is about a model, not about the world: of two features that tell the same one may carry all the weight.

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::draw::{seeded, shuffled};
use crate::model::Fitted;
use crate::sample::{Feature, Sample};
use crate::score::Score;

/// Shuffles of each feature, of which the mean counts.
const SHUFFLES: u64 = 5;

/// How much the mean absolute error rises for each of [`Feature::TERMS`]. What a model does not see gets exactly 0; the
/// law as a feature counts for the features that it is made of.
///
/// # Errors
/// If the library refuses the samples.
pub fn importance(fitted: &Fitted, test: &[Sample], seed: u64) -> anyhow::Result<Vec<f64>> {
    let error = |samples: &[Sample]| -> anyhow::Result<f64> {
        let predicted = fitted.predict(samples)?;
        let measured = test.iter().map(|sample| sample.gain);
        let pairs: Vec<_> = predicted.into_iter().zip(measured).collect();
        Ok(Score::of(&pairs).mae)
    };
    let before = error(test)?;
    let mut rises = Vec::new();
    for (at, feature) in Feature::TERMS.iter().enumerate() {
        let mut rise = 0.0;
        for shuffle in 0..SHUFFLES {
            let mut dice = StdRng::seed_from_u64(seeded(&[seed, at as u64, shuffle]));
            let mut samples = test.to_vec();
            for (sample, from) in samples.iter_mut().zip(shuffled(&mut dice, test.len())) {
                feature.copy(&test[from], sample);
            }
            rise += (error(&samples)? - before) / SHUFFLES as f64;
        }
        rises.push(rise);
    }
    Ok(rises)
}
