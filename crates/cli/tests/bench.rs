//! `chiplet bench` as a user runs it, on inputs so small that the figures mean nothing and their form is all.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Four tables of 200 vectors, two rounds of a twentieth of a second.
const TINY: [(&str, &str); 8] = [
    ("--tables", "4"),
    ("--rows", "200"),
    ("--dims", "8"),
    ("--queries", "50"),
    ("--duration", "0.05"),
    ("--warmup", "0"),
    ("--rounds", "2"),
    ("--seed", "7"),
];

/// `chiplet bench` with these arguments, tiny in all that they do not say.
fn bench(folder: &Path, arguments: &[&str]) -> Output {
    let unsaid = TINY.iter().filter(|(name, _)| !arguments.contains(name));
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
    let asked = [
        "global-steal",
        "ccd-aware",
        "round-robin",
        "fork-join",
        "rayon",
        "spawn-blocking",
    ];
    let Ran { text, json } = run(&["--strategy", &asked.join(",")]);
    assert!(keys(&json).is_superset(&BTreeSet::from(["machine", "workload", "strategies"])));
    assert!(json["machine"]["cpus"].as_u64().unwrap() >= 1);
    assert!(json["machine"]["domains"].as_u64().unwrap() >= 1);
    let verdict = json["workload"]["verdict"].as_str().unwrap();
    assert!(!verdict.is_empty() && text.starts_with(verdict), "{text}");
    assert_eq!(json["workload"]["kind"], "hnsw");
    for (name, value) in [
        ("tables", 4),
        ("rows", 200),
        ("dims", 8),
        ("rounds", 2),
        ("seed", 7),
    ] {
        assert_eq!(json["workload"][name], value, "{name}");
    }
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
            assert_eq!(keys(steals), BTreeSet::from(["own", "domain", "remote"]));
            let tasks: f64 = steals.as_object().unwrap().values().map(number).sum();
            assert!(tasks > 0.0, "{name}: {steals}");
        }
    }
}

#[test]
fn a_strategy_that_does_not_steal_counts_no_steals() {
    let Ran { json, .. } = run(&["--strategy", "round-robin"]);
    assert_eq!(strategies(&json)[0]["steals"]["remote"], 0);
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
    let flip = ["--table-skew", "1", "--flip", "0.05"];
    refused(&flip, &["--flip 0.05", "round of 0.05 s"]);
    let even = ["--flip", "0.02", "--table-skew", "0"];
    refused(&even, &["--flip", "--table-skew"]);
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
    for part in [
        "round-robin",
        "fork-join",
        "global-steal",
        "ccd-aware",
        "rayon",
        "spawn-blocking",
        "openmp",
        "+usearch",
        "Examples:",
        "Exit status",
    ] {
        assert!(help.contains(part), "no {part:?} in:\n{help}");
    }
}

/// What a direct measurement needs of [`TINY`]: no strategies, no tables to share the rows out to.
const DIRECT: [&str; 14] = [
    "bench",
    "--direct",
    "--rows",
    "400",
    "--dims",
    "8",
    "--queries",
    "50",
    "--duration",
    "0.02",
    "--seed",
    "7",
    "--rounds",
    "2",
];

fn direct(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chiplet"));
    let cued = arguments.contains(&"--cue");
    let said = |name: &&str| arguments.contains(name) || (cued && *name == "--rounds");
    let unsaid = DIRECT.chunks(2).filter(|pair| !said(&pair[0]));
    command
        .args(unsaid.flatten())
        .args(arguments)
        .arg("--truth-cache")
        .arg(folder.join("truth"));
    command
}

/// The entries that a direct measurement wrote, and what it printed.
fn run_direct(arguments: &[&str]) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("direct.json");
    let output = direct(folder.path(), arguments)
        .arg("--json")
        .arg(&file)
        .output()
        .expect("the command can be run");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let json = std::fs::read_to_string(&file).expect("the JSON was written");
    let text = String::from_utf8(output.stdout).expect("the output is text");
    (
        serde_json::from_str(&json).expect("the file is a JSON list"),
        text,
    )
}

/// As [`refused`], of a direct measurement.
fn refused_directly(arguments: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let output = direct(folder.path(), arguments).output().unwrap();
    check_refused(arguments, &output, words);
}

fn check_direct(entry: &Value) {
    let promised = [
        "index",
        "param",
        "recall_at_10",
        "qps",
        "bytes_per_vector",
        "build_s",
        "threads",
        "metric",
        "dim",
        "rows",
    ];
    assert!(keys(entry).is_superset(&promised.into()), "{entry}");
    assert!(
        (0.0..=1.0).contains(&number(&entry["recall_at_10"])),
        "{entry}"
    );
    let [low, median, high] = ["qps_low", "qps", "qps_high"].map(|name| number(&entry[name]));
    assert!(0.0 < low && low <= median && median <= high, "{entry}");
    // A row of 8 floats has 32 bytes; nothing here quantises it.
    assert!(number(&entry["bytes_per_vector"]) > 32.0, "{entry}");
    assert!(number(&entry["build_s"]) > 0.0, "{entry}");
}

#[test]
fn a_direct_measurement_has_an_entry_for_each_ef_and_number_of_threads() {
    let (entries, text) = run_direct(&["--ef", "10,200", "--threads", "1,3"]);
    let points: Vec<_> = entries
        .iter()
        .map(|entry| {
            (
                entry["param"].as_str().unwrap(),
                entry["threads"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        points,
        [("ef=10", 1), ("ef=10", 3), ("ef=200", 1), ("ef=200", 3)]
    );
    for entry in &entries {
        check_direct(entry);
        assert_eq!(entry["index"], "chiplet HNSW f32");
        assert_eq!((&entry["rows"], &entry["dim"]), (&400.into(), &8.into()));
        assert_eq!(
            (&entry["metric"], &entry["rounds"]),
            (&"l2".into(), &2.into())
        );
        let param = entry["param"].as_str().unwrap();
        assert!(text.contains(param), "no {param} in:\n{text}");
    }
    let recall = |place: usize| number(&entries[place]["recall_at_10"]);
    assert!(recall(0) <= recall(2), "more candidates find no less");
    assert!(
        recall(2) > 0.99,
        "half of all rows as candidates: {}",
        recall(2)
    );
}

#[test]
fn a_direct_measurement_takes_its_graph_settings_from_the_command_line() {
    let poor = [
        "--m",
        "2",
        "--ef-construction",
        "2",
        "--metric",
        "ip",
        "--ef",
        "10",
    ];
    let (entries, _) = run_direct(&poor);
    let (usual, _) = run_direct(&["--metric", "ip", "--ef", "10"]);
    assert_eq!(entries[0]["metric"], "ip");
    let [poor, usual] = [&entries, &usual].map(|entries| number(&entries[0]["recall_at_10"]));
    assert!(
        poor < usual,
        "a graph of 2 links a row finds {poor}, one of 16 {usual}"
    );
}

#[cfg(feature = "faiss")]
#[test]
fn inverted_lists_are_measured_directly_by_nprobe() {
    let (entries, _) = run_direct(&[
        "--index",
        "ivf",
        "--factory",
        "IVF10,Flat",
        "--nprobe",
        "1,10",
    ]);
    entries.iter().for_each(check_direct);
    assert_eq!(entries[0]["index"], "chiplet IVF10,Flat");
    assert_eq!(entries[1]["param"], "nprobe=10");
    assert_eq!(
        number(&entries[1]["recall_at_10"]),
        1.0,
        "all lists hold all rows"
    );
    assert!(
        number(&entries[0]["recall_at_10"]) < 1.0,
        "one list does not"
    );
    refused_directly(
        &["--index", "ivf", "--build-threads", "2"],
        &["--build-threads 2", "OMP_NUM_THREADS"],
    );
}

#[test]
fn a_table_is_built_once_and_opened_from_its_file_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.chiplet");
    let file = file.to_str().unwrap();
    for index in [&["--index", "hnsw"], &["--index", "ivf"]] {
        let with =
            |more: &[&str]| run_direct(&[index.as_slice(), &["--file", file], more].concat());
        let (built, _) = with(&[]);
        assert!(number(&built[0]["build_s"]) > 0.0 && built[0]["open_s"].is_null());
        let (loaded, text) = with(&[]);
        assert!(text.contains("loaded in"), "{text}");
        let (mapped, text) = with(&["--map"]);
        assert!(text.contains("mapped in"), "{text}");
        for opened in [&loaded[0], &mapped[0]] {
            assert!(number(&opened["open_s"]) > 0.0 && opened["build_s"].is_null());
            assert_eq!(opened["recall_at_10"], built[0]["recall_at_10"]);
        }
        refused_directly(
            &[index.as_slice(), &["--file", file, "--rows", "500"]].concat(),
            &["table.chiplet", "400 x 8", "500 x 8"],
        );
        std::fs::remove_file(file).unwrap();
    }
    let (_, _) = run_direct(&["--rows-as", "f16", "--file", file]);
    refused_directly(&["--file", file], &["table.chiplet", "f16", "--rows-as"]);
    std::fs::write(file, b"something else").unwrap();
    refused_directly(&["--file", file], &["table.chiplet"]);
    refused_directly(&["--map"], &["--map", "--file"]);
}

#[test]
fn queries_are_asked_together_and_with_a_filter() {
    for index in [&["--index", "hnsw"], &["--index", "ivf"]] {
        let (alone, _) = run_direct(index);
        let (together, _) = run_direct(&[index.as_slice(), &["--together", "16"]].concat());
        assert_eq!(together[0]["together"], 16);
        assert_eq!(together[0]["recall_at_10"], alone[0]["recall_at_10"]);
    }
    let (entries, _) = run_direct(&["--filter", "10%"]);
    assert_eq!(entries[0]["filter"], 10.0);
    // So few rows are all compared.
    assert_eq!(entries[0]["recall_at_10"], 1.0);
    refused_directly(&["--filter", "1"], &["--filter 1", "of 400 rows"]);
    refused_directly(&["--filter", "101"], &["--filter", "up to 100"]);
}

#[test]
fn each_cue_is_answered_by_a_line_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = direct(folder.path(), &["--cue", "--ef", "12,24"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be run");
    let mut cues = child.stdin.take().expect("standard input is a pipe");
    cues.write_all(b"\n36\n24,36\n").unwrap();
    drop(cues);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let answers: Vec<Vec<Value>> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON list"))
        .collect();
    let params: Vec<Vec<&str>> = answers
        .iter()
        .map(|entries| {
            entries
                .iter()
                .map(|entry| entry["param"].as_str().unwrap())
                .collect()
        })
        .collect();
    assert_eq!(
        params,
        [
            vec!["ef=12", "ef=24"],
            vec!["ef=36"],
            vec!["ef=24", "ef=36"]
        ]
    );
    for entry in answers.iter().flatten() {
        check_direct(entry);
        assert_eq!(entry["rounds"], 1, "an answer is of one round");
    }
}

#[test]
fn direct_measurements_that_make_no_sense_are_refused() {
    refused_directly(&["--ef", "10,20,10"], &["--ef 10,20,10", "twice"]);
    refused_directly(&["--ef", "0"], &["--ef", "1..="]);
    refused_directly(&["--nprobe", "4"], &["--nprobe 4", "--index ivf"]);
    refused_directly(
        &["--index", "ivf", "--ef", "10"],
        &["--ef 10", "--index hnsw"],
    );
    refused_directly(&["--factory", "IVF4,Flat"], &["--factory", "--index ivf"]);
    refused_directly(&["--m", "1"], &["m is 1", "2 to 255"]);
    refused_directly(&["--threads", "0"], &["--threads", "1..="]);
    refused_directly(
        &["--threads", "51"],
        &["--threads", "50 queries", "--queries"],
    );
    refused_directly(&["--strategy", "rayon"], &["--direct", "--strategy"]);
    refused_directly(&["--cue", "--json", "x.json"], &["--cue", "--json"]);
    refused(&["--ef", "10,20"], &["--ef 10,20", "--direct"]);
    refused(&["--nprobe", "4,8"], &["--nprobe 4,8", "--direct"]);
    refused(&["--threads", "2"], &["--threads", "--direct"]);
    refused(&["--build-threads", "1"], &["--build-threads", "--direct"]);
}

#[test]
fn a_cue_that_is_no_list_of_parameters_ends_the_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = direct(folder.path(), &["--cue"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be run");
    child.stdin.take().unwrap().write_all(b"20,fast\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("20,fast"), "{message}");
}
