//! `chiplet bench` as a user runs it, on inputs so small that the figures mean nothing and their form is all.

mod compare;
mod direct;
mod modes;
mod scaling;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Four tables of 200 vectors, two rounds of a fifth of a second: long enough for an answer beside a busy build.
const TINY: [(&str, &str); 8] = [
    ("--tables", "4"),
    ("--rows", "200"),
    ("--dims", "8"),
    ("--queries", "50"),
    ("--duration", "0.2"),
    ("--warmup", "0"),
    ("--rounds", "2"),
    ("--seed", "7"),
];

/// `chiplet bench` with these arguments, tiny in all that they do not say.
fn bench(folder: &Path, arguments: &[&str]) -> Output {
    // A workload says itself what its tables are.
    let drawn = |name: &str| ["--tables", "--rows", "--dims"].contains(&name);
    let drawn = |name: &str| arguments.contains(&"--workload") && drawn(name);
    let unsaid = TINY.iter();
    let unsaid = unsaid.filter(|(name, _)| !arguments.contains(name) && !drawn(name));
    Command::new(env!("CARGO_BIN_EXE_chiplet"))
        .arg("bench")
        .args(unsaid.flat_map(|(name, value)| [name, value]))
        .args(arguments)
        .arg("--truth-cache")
        .arg(folder.join("truth"))
        .output()
        .expect("the command can be run")
}

/// What a tiny run wrote: the text for a person, and the JSON.
struct Ran {
    text: String,
    json: Value,
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn run(arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let json = ["--json", file.to_str().unwrap()];
    let output = bench(folder.path(), &[arguments, &json].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let json = std::fs::read_to_string(&file).expect("the JSON was written");
    Ran {
        text: String::from_utf8(output.stdout).expect("the output is text"),
        json: serde_json::from_str(&json).expect("the file is JSON"),
    }
}

fn keys(value: &Value) -> BTreeSet<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

fn strategies(json: &Value) -> &[Value] {
    json["strategies"].as_array().expect("a list of strategies")
}

fn names(json: &Value) -> Vec<&str> {
    let names = strategies(json)
        .iter()
        .map(|strategy| strategy["name"].as_str());
    names.map(|name| name.expect("a name")).collect()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// Checks what holds for every run's every strategy.
fn check_figures(json: &Value) {
    for strategy in strategies(json) {
        assert!(number(&strategy["throughput_qps"]) > 0.0, "{strategy}");
        let latency = &strategy["latency_us"];
        assert_eq!(keys(latency), BTreeSet::from(["p50", "p99", "p999"]));
        let [p50, p99, p999] = ["p50", "p99", "p999"].map(|name| number(&latency[name]));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= p999, "{latency}");
        let recall = number(&strategy["recall_at_10"]);
        assert!((0.9..=1.0).contains(&recall), "{recall}");
        let ratios = &strategy["ratio_to_first"];
        assert_eq!(
            keys(ratios),
            BTreeSet::from(["throughput", "p50", "p99", "p999"])
        );
        for (name, ratio) in ratios.as_object().unwrap() {
            assert!(number(ratio) > 0.0, "{name}: {ratio}");
            let [low, high] = [0, 1].map(|end| number(&strategy["ratio_spread"][name][end]));
            let ratio = number(ratio);
            assert!(
                low <= ratio && ratio <= high,
                "{name}: {ratio} is not in {low}..{high}"
            );
        }
    }
    for (name, ratio) in strategies(json)[0]["ratio_to_first"].as_object().unwrap() {
        assert_eq!(number(ratio), 1.0, "{name} of the first strategy");
    }
}

/// Nothing on standard output, one message that holds `words` on standard error, status 2.
fn refused(arguments: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    check_refused(arguments, &bench(folder.path(), arguments), words);
}

fn check_refused(arguments: &[&str], output: &Output, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    for word in words {
        assert!(
            message.contains(word),
            "{arguments:?}: no {word:?} in {message}"
        );
    }
    assert!(!message.contains("panicked"), "{arguments:?}: {message}");
}

#[test]
fn the_json_has_the_documented_form_for_strategies_and_peers() {
    let asked = words("global-steal ccd-aware round-robin fork-join rayon spawn-blocking");
    let Ran { text, json } = run(&["--strategy", &asked.join(",")]);
    assert!(keys(&json).is_superset(&BTreeSet::from([
        "machine",
        "workload",
        "generator",
        "strategies"
    ])));
    assert!(json["machine"]["cpus"].as_u64().unwrap() >= 1);
    assert!(json["machine"]["domains"].as_u64().unwrap() >= 1);
    let verdict = json["workload"]["verdict"].as_str().unwrap();
    assert!(!verdict.is_empty() && text.contains(verdict), "{text}");
    assert_eq!(json["workload"]["kind"], "hnsw");
    for (name, value) in [("tables", 4), ("rows", 200), ("dims", 8), ("seed", 7)] {
        assert_eq!(json["workload"][name], value, "{name}");
    }
    // On a busy machine a round may be left out, as workers had no queries; the notes say so then.
    let rounds = json["workload"]["rounds"].as_u64().unwrap();
    assert!(
        rounds == 2 || rounds == 1 && text.contains("left out"),
        "{rounds} rounds:\n{text}"
    );
    assert_eq!(names(&json), asked, "in the order asked for");
    check_figures(&json);
    for strategy in strategies(&json) {
        let name = strategy["name"].as_str().unwrap();
        assert!(text.contains(name), "no {name} in:\n{text}");
        assert_eq!(strategy["refused"], 0, "{name}");
        let steals = &strategy["steals"];
        if name == "rayon" || name == "spawn-blocking" {
            assert!(steals.is_null(), "{name}: {steals}");
        } else {
            assert_eq!(
                keys(steals),
                BTreeSet::from(["own", "domain", "remote", "moved"])
            );
            let tasks: f64 = steals.as_object().unwrap().values().map(number).sum();
            assert!(tasks > 0.0, "{name}: {steals}");
        }
    }
}

#[test]
fn the_generator_says_who_sends_and_what_it_can_send_alone() {
    let Ran { text, json } = run(&["--strategy", "rayon", "--senders", "0"]);
    let generator = &json["generator"];
    assert_eq!(generator["senders"], 1);
    assert!(generator["own_cpus"].is_null());
    assert!(number(&generator["limit_qps"]) > number(&strategies(&json)[0]["throughput_qps"]));
    assert!(number(&generator["headroom"]) > 1.0, "{generator}");
    assert!(text.contains("1 sender on the workers' cores"), "{text}");
    let cores = json["machine"]["cores"].as_u64().unwrap();
    if cores > 1 {
        let Ran { json, .. } = run(&["--strategy", "rayon,ccd-aware", "--senders", "1"]);
        assert_eq!(json["generator"]["workers"], cores - 1);
        assert!(json["generator"]["own_cpus"].is_string(), "{json}");
        check_figures(&json);
    }
    refused(
        &["--senders", "4000"],
        &["--senders 4000", "0 to share cores"],
    );
}

#[test]
fn no_path_of_this_machine_is_in_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let Ran { json, .. } = run(&[
        "--strategy",
        "rayon",
        "--no-sweep",
        "--report",
        page.to_str().unwrap(),
    ]);
    let page = std::fs::read_to_string(&page).unwrap();
    let folder = folder.path().to_str().unwrap();
    assert!(!page.contains(folder) && !json.to_string().contains(folder));
    assert!(
        json["command"].as_str().unwrap().ends_with("truth"),
        "{json}"
    );
}

#[test]
fn workers_for_logical_processors_are_told_of() {
    let said = |ran: &Ran, what: &str| {
        let notes = ran.json["notes"].as_array().expect("notes");
        notes
            .iter()
            .any(|note| note.as_str().unwrap().contains(what))
    };
    let strategies = ["--strategy", "rayon,rayon-all"];
    let cores = run(&strategies);
    assert_eq!(names(&cores.json), ["rayon", "rayon-all"]);
    assert!(said(
        &cores,
        "rayon-all has a thread for each logical processor"
    ));
    assert!(!said(&cores, "--smt"));
    let threads = run(&[&strategies[..], &["--smt"]].concat());
    assert!(said(&threads, "(--smt)") && !said(&threads, "rayon-all has"));
    let workers = |ran: &Ran| number(&ran.json["generator"]["workers"]);
    assert!(
        workers(&threads) >= workers(&cores),
        "{}",
        threads.json["generator"]
    );
    assert!(workers(&threads) <= number(&threads.json["machine"]["cpus"]));
}

#[test]
fn a_strategy_that_does_not_steal_counts_no_steals() {
    let Ran { json, .. } = run(&["--strategy", "round-robin"]);
    assert_eq!(strategies(&json)[0]["steals"]["remote"], 0);
    assert_eq!(strategies(&json)[0]["steals"]["moved"], 0);
    assert_eq!(strategies(&json)[0]["steals"]["domain"], 0);
    check_figures(&json);
}

#[test]
fn a_rate_in_percent_is_of_the_measured_saturation() {
    let Ran { json, .. } = run(&["--strategy", "global-steal,ccd-aware", "--rate", "50%"]);
    let saturation = number(&json["workload"]["saturation_qps"]);
    let rate = number(&json["workload"]["rate_qps"]);
    assert!(
        (rate - saturation / 2.0).abs() < 1e-6 * rate,
        "{rate} of {saturation}"
    );
    assert_eq!(json["workload"]["arrivals"], "open loop, Poisson");
    check_figures(&json);
}

#[test]
fn a_rate_in_queries_per_second_is_sent_open_loop() {
    let Ran { json, .. } = run(&["--strategy", "ccd-aware,rayon", "--rate", "500"]);
    assert_eq!(json["workload"]["rate_qps"], 500.0);
    assert!(json["workload"]["saturation_qps"].is_null());
    check_figures(&json);
    let bursty = run(&["--strategy", "ccd-aware", "--rate", "2000", "--bursty"]);
    assert_eq!(bursty.json["workload"]["arrivals"], "open loop, bursty");
}

#[test]
fn clients_are_a_closed_loop() {
    let Ran { json, .. } = run(&["--strategy", "ccd-aware,spawn-blocking", "--clients", "2"]);
    assert_eq!(json["workload"]["arrivals"], "closed loop, 2 clients");
    assert!(json["workload"]["rate_qps"].is_null());
    check_figures(&json);
}

#[test]
fn a_hot_set_can_move_within_a_round() {
    let skewed = ["--table-skew", "1", "--flip", "0.02", "--rate", "4000"];
    let Ran { json, .. } = run(&[&["--strategy", "global-steal,ccd-aware"], &skewed[..]].concat());
    assert_eq!(json["workload"]["flip_s"], 0.02);
    assert_eq!(json["workload"]["table_skew"], 1.0);
    check_figures(&json);
}

#[test]
fn the_report_is_one_page_that_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("run.html");
    let report = ["--report", page.to_str().unwrap(), "--sweep", "30,60"];
    let output = bench(folder.path(), &report);
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(page).expect("the page was written");
    assert!(page.starts_with("<!DOCTYPE html>"), "{}", &page[..60]);
    assert!(page.trim_end().ends_with("</html>"));
    assert!(page.contains("<svg"), "no chart");
    for name in ["rayon", "global-steal", "ccd-aware"] {
        assert!(page.contains(name), "no {name}");
    }
    for outside in ["http:", "https:", "<script src", "<link", "@import"] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
}

#[test]
fn strategies_that_cannot_be_run_are_refused() {
    refused(
        &["--strategy", "fastest"],
        &["fastest", "ccd-aware", "rayon"],
    );
    refused(&["--strategy", ""], &["strategy", "ccd-aware"]);
    refused(&["--strategy", "ccd-aware,"], &["strategy", "ccd-aware"]);
    refused(&["--strategy", "ccd-aware+faiss"], &["faiss", "+usearch"]);
    refused(&["--strategy", "ccd-aware,rayon,ccd-aware"], &["twice"]);
    refused(&["--strategy", "openmp"], &["openmp", "--kind ivf"]);
    refused(
        &["--strategy", "openmp", "--kind", "mixed"],
        &["openmp", "--kind ivf"],
    );
    refused(
        &["--strategy", "ccd-aware+usearch", "--kind", "ivf"],
        &["ccd-aware+usearch", "--kind ivf"],
    );
}

#[test]
fn libraries_that_are_not_built_in_are_named_with_the_way_to_get_them() {
    if cfg!(not(feature = "faiss")) {
        refused(&["--kind", "ivf"], &["--kind ivf", "--features faiss"]);
    }
    if cfg!(not(feature = "usearch")) {
        let usearch = ["--strategy", "ccd-aware+usearch"];
        refused(&usearch, &["ccd-aware+usearch", "--features usearch"]);
    }
}

#[test]
fn loads_that_make_no_sense_are_refused() {
    refused(&["--rate", "0"], &["rate of 0", "more than 0"]);
    refused(&["--rate", "0%"], &["rate of 0%", "more than 0"]);
    refused(&["--rate", "fast"], &["fast", "max", "70%"]);
    refused(&["--rate", "300%"], &["300%", "200%"]);
    refused(&["--rate", "NaN"], &["NaN"]);
    refused(&["--clients", "0"], &["0", "1..="]);
    refused(
        &["--clients", "2", "--rate", "50%"],
        &["--clients", "--rate"],
    );
    refused(&["--table-skew", "11"], &["--table-skew 11", "0 to 10"]);
    refused(&["--query-skew", "nan"], &["--query-skew NaN", "0 to 10"]);
    refused(&["--sweep", "0"], &["0", "1..=200"]);
    let flip = ["--table-skew", "1", "--flip", "0.2"];
    refused(&flip, &["--flip 0.2", "round of 0.2 s"]);
    let even = ["--flip", "0.02", "--table-skew", "0"];
    refused(&even, &["--flip", "--table-skew"]);
    refused(
        &["--flip", "0.02", "--table-skew", "1"],
        &["--flip", "--rate 70%"],
    );
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    refused(&["--tables", "0"], &["0", "1..=100000"]);
    refused(&["--rows", "1"], &["--rows"]);
    refused(&["--dims", "0"], &["--dims", "1..="]);
    refused(&["--k", "0"], &["--k", "1..="]);
    refused(&["--workers", "0"], &["--workers"]);
    refused(&["--window", "0"], &["--window", "0.01"]);
    refused(
        &["--tables", "1", "--kind", "mixed"],
        &["--kind mixed", "--tables"],
    );
}

#[test]
fn files_that_cannot_be_used_are_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    let missing = folder.path().join("missing");
    let missing = missing.to_str().unwrap();
    let vectors = format!("{missing}.fvecs");
    refused(&["--data", &vectors], &[&vectors]);
    refused(&["--data", missing], &[missing]);
    refused(
        &["--data", "glove", "--datasets", missing],
        &[missing, "--datasets"],
    );
    let inside = format!("{missing}/run.json");
    refused(&["--json", &inside], &[&inside, "cannot be written"]);
    refused(&["--report", here], &[here, "cannot be written"]);
    assert_eq!(
        std::fs::read_dir(here).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn the_help_names_every_strategy_and_gives_examples() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &["--help"]);
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    let parts = "round-robin fork-join global-steal ccd-aware rayon spawn-blocking openmp +usearch Examples: status";
    for part in words(parts) {
        assert!(help.contains(part), "no {part:?} in:\n{help}");
    }
}
