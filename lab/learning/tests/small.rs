//! The whole of it in seconds: small runs, few cases; and models on samples whose answer is known.

use chiplet_learning::family::Size;
use chiplet_learning::importance::importance;
use chiplet_learning::model::{Learns, MODELS, Model};
use chiplet_learning::report::{Report, THEIRS, of_families};
use chiplet_learning::sample::{Feature, Sample, Unseen};
use chiplet_learning::split::Way;
use chiplet_learning::study::{Config, Judged, judge, simulate};

/// Samples of 10 families that differ in MBW and NPMR, with gains by a rule.
fn samples(gain: fn(&Sample) -> f64) -> Vec<Sample> {
    // Steps that never meet fill the unit interval evenly (golden ratio and its powers).
    let even = |number: usize, step: f64| (number as f64 * step).fract();
    let drawn = |number: usize| {
        let family = number % 10;
        let mut sample = Sample {
            family,
            mbw: family as f64 + even(number, 0.618_034),
            msr: even(number, 0.754_878),
            npmr: family as f64 / 10.0,
            rmbr: 0.2 + 0.7 * even(number, 0.569_840),
            q: 0.2 * even(number, 0.819_173),
            lambda: 1.4 + 0.1 * (family % 5) as f64,
            lambda_loaded: 1.4 + 0.1 * (family % 5) as f64 + 0.3 * even(number, 0.671_044),
            gain: 0.0,
            kept_up: true,
            unseen: Unseen::default(),
        };
        sample.gain = gain(&sample);
        sample
    };
    (0..300).map(drawn).collect()
}

fn model(learns: Learns, sees: &[Feature]) -> Model {
    let fits = |model: &&Model| model.learns == learns && model.sees == sees && !model.beside_law;
    *MODELS.iter().find(fits).expect("it is compared")
}

fn judged(samples: &[Sample], way: Way, model: Model) -> Judged {
    let mut all = judge(samples, way, &[model], 1, &|| ()).unwrap();
    all.remove(0)
}

#[test]
fn the_law_is_exact_where_the_law_holds() {
    let samples = samples(Sample::law);
    for way in [Way::Random, Way::Families] {
        let law = judged(&samples, way, model(Learns::Law, Feature::LAW));
        assert_eq!((law.score.r2, law.score.worst), (1.0, 0.0));
        // Told under load, lambda is another one in these samples.
        let loaded = judged(&samples, way, model(Learns::LawLoaded, Feature::LAW));
        assert!(loaded.score.r2 < 0.999, "{:?}", loaded.score);
    }
}

#[test]
fn every_model_that_learns_finds_a_rule_that_is_there() {
    let linear = samples(|sample| 0.3 * sample.msr - 0.1 * sample.rmbr);
    for way in [Way::Random, Way::Families] {
        for (learns, least) in [
            (Learns::Linear, 0.999),
            (Learns::Forest, 0.8),
            (Learns::Boosted, 0.9),
        ] {
            let judged = judged(&linear, way, model(learns, Feature::MAO));
            assert!(judged.score.r2 > least, "{judged:?}");
        }
        let mean = judged(&linear, way, model(Learns::Mean, &[]));
        assert!(mean.score.r2 <= 1e-9, "{mean:?}");
    }
}

#[test]
fn a_rule_of_the_service_alone_is_found_at_random_and_not_by_family() {
    // A gain of each family's own, in no order.
    let samples =
        samples(|sample| [0.1, 0.4, 0.0, 0.3, 0.2, 0.5, 0.05, 0.35, 0.15, 0.45][sample.family]);
    let boosted = model(Learns::Boosted, Feature::MAO);
    let random = judged(&samples, Way::Random, boosted);
    let families = judged(&samples, Way::Families, boosted);
    assert!(random.score.r2 > 0.95, "{random:?}");
    assert!(families.score.r2 < 0.5, "{families:?}");
}

#[test]
fn a_feature_that_is_not_used_has_no_importance_and_one_that_is_has() {
    let samples = samples(|sample| 0.3 * sample.msr);
    let (train, test) = samples.split_at(200);
    for (learns, sees) in [
        (Learns::Law, Feature::LAW),
        (Learns::Linear, Feature::MAO),
        (Learns::Forest, Feature::MAO),
        (Learns::Boosted, Feature::MAO),
        (Learns::Boosted, Feature::ALL),
    ] {
        let fitted = model(learns, sees).fit(train, Way::Random, 1).unwrap();
        let rises = importance(&fitted, test, 1).unwrap();
        for (feature, rise) in Feature::TERMS.iter().zip(rises) {
            if !sees.contains(feature) {
                assert_eq!(rise, 0.0, "{learns:?} {feature:?}");
            }
            if *feature == Feature::Msr && learns != Learns::Law {
                assert!(rise > 0.03, "{learns:?} {rise}");
            }
        }
    }
}

#[test]
fn what_the_law_leaves_is_told_apart_by_family() {
    let own = samples(|sample| sample.law() + 0.01 * (1 + sample.family) as f64);
    assert!((of_families(&own) - 1.0).abs() < 1e-9);
    // Of no family's own: as often above as below, within each.
    let mut other = samples(Sample::law);
    for (at, sample) in other.iter_mut().enumerate() {
        sample.gain += if at / 10 % 2 == 0 { 0.1 } else { -0.1 };
    }
    assert!(of_families(&other) < 1e-9);
}

fn config() -> Config {
    Config {
        cases: 40,
        families: 6,
        seed: 1,
        size: Size {
            queries: 200,
            recorded: 20,
            rows: 1_024,
            sample: 1.0 / 16.0,
        },
    }
}

fn report(config: Config) -> Report {
    let (families, samples) = simulate(&config, &|| ()).unwrap();
    let models = [MODELS[1], MODELS[3], MODELS[5]];
    let ways = [Way::Random, Way::Families];
    let judged = ways.map(|way| judge(&samples, way, &models, config.seed, &|| ()).unwrap());
    Report {
        modelled: true,
        config,
        families,
        theirs: THEIRS,
        judged: judged.concat(),
        samples,
    }
}

#[test]
fn equal_seeds_give_equal_figures_to_the_bit() {
    let json = |config| serde_json::to_string(&report(config)).unwrap();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let alone = threads.unwrap().install(|| json(config()));
    assert_eq!(alone, json(config()));
    let other = Config {
        seed: 2,
        ..config()
    };
    assert_ne!(alone, json(other));
}

#[test]
fn a_monitor_sees_shares_and_the_text_says_that_it_is_modelled() {
    let report = report(config());
    assert_eq!(report.samples.len(), 40);
    for sample in &report.samples {
        for share in [sample.msr, sample.npmr, sample.rmbr] {
            assert!((0.0..=1.0).contains(&share), "{sample:?}");
        }
        // Home has most of the memory.
        assert!((0.0..=0.5).contains(&sample.q), "{sample:?}");
        assert!(
            sample.lambda > 1.0 && sample.lambda_loaded > 0.0 && sample.mbw > 0.0,
            "{sample:?}"
        );
        assert!((-5.0..1.0).contains(&sample.gain), "{sample:?}");
    }
    let text = report.text();
    assert!(
        text.starts_with("modelled: 40 cases of 6 families"),
        "{text}"
    );
    assert!(
        text.contains("by family (modelled)") && text.contains("theirs"),
        "{text}"
    );
    assert!(text.contains("| XGBoost | 0.92 | 0.025 |"), "{text}");
}

#[test]
fn too_few_cases_are_refused_with_what_to_give() {
    let few = Config {
        cases: 11,
        ..config()
    };
    let error = simulate(&few, &|| ()).unwrap_err().to_string();
    assert!(
        error.contains("--cases 11") && error.contains("12"),
        "{error}"
    );
    let one = Config {
        families: 1,
        ..config()
    };
    assert!(simulate(&one, &|| ()).is_err());
}
