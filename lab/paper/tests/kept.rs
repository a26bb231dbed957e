//! The page in the repository is what its data gives, and a claim is judged by its range.

use std::fs;
use std::path::Path;

use chiplet_paper::claims::{CLAIMS, Verdict};
use chiplet_paper::runs::{Kind, Results, System, TOPICS};
use chiplet_paper::{page, picture};

fn kept() -> (Results, impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/lab/2026-11");
    let read = move |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    (serde_json::from_str(&read("paper.json")).unwrap(), read)
}

#[test]
fn page_and_picture_are_those_of_the_kept_runs() {
    let (results, read) = kept();
    let hint = "cargo run --release -p chiplet-paper -- --kept writes them again";
    // The kept page calls the simulator by its name of that time.
    let words = |page: &str| {
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        words.replace("`chiplet simulate ", "`chiplet-simulate ")
    };
    let page = page::page(&results).unwrap();
    assert!(words(&page) == words(&read("paper.md")), "{hint}");
    let drawn = picture::locality(&results).unwrap();
    assert!(drawn == read("img/locality.svg"), "{hint}");
    if results.has_sizes() {
        let drawn = picture::sizes(&results).unwrap();
        assert!(drawn == read("img/size.svg"), "{hint}");
    }
}

#[test]
fn a_claim_agrees_within_its_range_alone() {
    let (mut results, _) = kept();
    let claim = CLAIMS
        .iter()
        .find(|claim| claim.kind == Kind::Ivf && claim.figure.name == "throughput, V2 to V1")
        .unwrap();
    let mut judge = |without: f64, with: f64| {
        for run in &mut results.runs {
            let case = run.case;
            let full =
                case.genoa && case.kind == Kind::Ivf && case.ccds == 12 && case.load.is_none();
            let gain = match case.topics {
                None => without,
                Some(_) => with,
            };
            match case.system {
                System::V1 if full => run.qps = 10_000.0,
                System::V2 if full => run.qps = 10_000.0 * gain,
                _ => {}
            }
        }
        claim.judge(&results, TOPICS).unwrap()
    };
    assert_eq!(judge(1.4, 1.0).1, Verdict::Agrees);
    assert_eq!(judge(1.1, 1.45).1, Verdict::WithTopics);
    let ([without, with], verdict) = judge(1.1, 2.0);
    assert_eq!(verdict, Verdict::Differs);
    let [without, with] = [without, with].map(|spread| spread.median);
    assert!((without - 1.1).abs() < 1e-9 && (with - 2.0).abs() < 1e-9);
}

#[test]
fn a_run_that_is_missing_is_told() {
    let (mut results, _) = kept();
    results.runs.clear();
    let error = page::page(&results).unwrap_err().to_string();
    assert!(error.contains("make paper"), "{error}");
}
