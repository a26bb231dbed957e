//! `chiplet bench --direct`: one table's own search.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{check_refused, keys, number, refused, words};

/// What a direct measurement needs of [`TINY`](super::TINY): no strategies, no tables to share the rows out to.
const DIRECT: &str =
    "bench --direct --rows 400 --dims 8 --queries 50 --duration 0.02 --seed 7 --rounds 2";

fn direct(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chiplet"));
    let cued = arguments.contains(&"--cue");
    let said = |name: &&str| arguments.contains(name) || (cued && *name == "--rounds");
    let given = words(DIRECT);
    let unsaid = given.chunks(2).filter(|pair| !said(&pair[0]));
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
    let promised = "index param recall_at_10 qps bytes_per_vector build_s threads metric dim rows";
    assert!(
        keys(entry).is_superset(&words(promised).into_iter().collect()),
        "{entry}"
    );
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
    let poor = words("--m 2 --ef-construction 2 --metric ip --ef 10");
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
    let (entries, _) = run_direct(&words("--index ivf --factory IVF10,Flat --nprobe 1,10"));
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

/// `--index` with each that this build has.
fn indexes() -> Vec<[&'static str; 2]> {
    let mut indexes = vec![["--index", "hnsw"]];
    if cfg!(feature = "faiss") {
        indexes.push(["--index", "ivf"]);
    }
    indexes
}

#[test]
fn a_table_is_built_once_and_opened_from_its_file_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.chiplet");
    let file = file.to_str().unwrap();
    for index in indexes() {
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
fn the_build_may_choose_the_row_format() {
    let (entries, _) = run_direct(&["--fit", "0.9"]);
    assert_eq!(entries[0]["index"], "chiplet HNSW sq4, re-ranked f16");
    refused_directly(&["--fit", "2"], &["recall is 2", "above 0 and up to 1"]);
    refused_directly(
        &["--fit", "0.9", "--rows-as", "sq8"],
        &["--fit", "--rows-as"],
    );
}

#[test]
fn queries_are_asked_together_and_with_a_filter() {
    for index in indexes() {
        let (alone, _) = run_direct(&index);
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
