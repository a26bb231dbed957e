//! `chiplet-simulate` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

use chiplet_bench::report::fixture;
use serde_json::Value;

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_chiplet-simulate"))
        .args(arguments)
        .output()
        .expect("the command was built with this test")
}

/// Small tables that two domains hold together.
const WORKLOAD: &str = "name = 'small'\ntable_skew = 0.5\n[[tables]]\nkind = 'hnsw'\ncount = 6\nrows = [1100, 2000]\n\
                        dims = [64]\n";

fn run(folder: &Path, name: &str) -> (String, String) {
    let (workload, json) = (folder.join("small.toml"), folder.join(name));
    let page = folder.join("page.html");
    std::fs::write(&workload, WORKLOAD).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let output = simulate(&[
        "--machine",
        "rome-7k62",
        "--domains",
        "1,2",
        "--loads",
        "50",
        "--queries",
        "2000",
        "--workload",
        &path(&workload),
        "--json",
        &path(&json),
        "--report",
        &path(&page),
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(std::fs::read_to_string(page).unwrap().contains("modelled"));
    let text = String::from_utf8(output.stdout).unwrap();
    (text, std::fs::read_to_string(json).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (text, first) = run(folder.path(), "first.json");
    let (_, second) = run(folder.path(), "second.json");
    assert!(first == second);
    assert!(text.starts_with("modelled: small on rome-7k62"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(report["modelled"], true);
    // Four strategies, saturated and at one load, on one and on two domains.
    assert_eq!(report["runs"].as_array().unwrap().len(), 16);
}

#[test]
fn rows_in_fewer_bytes_are_asked_for_by_option_or_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (workload, json) = (
        folder.path().join("mine.toml"),
        folder.path().join("sim.json"),
    );
    let run = |tables: &str, options: &str| {
        std::fs::write(&workload, tables).unwrap();
        let words = format!(
            "--machine rome-7k62 --domains 1 --queries 300 --strategy ccd-aware --sample 1 --json {} --workload {} \
             {options}",
            json.display(),
            workload.display()
        );
        let output = simulate(&words.split_whitespace().collect::<Vec<_>>());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        (text, std::fs::read_to_string(&json).unwrap())
    };
    // 100 MB, of which one domain's 16 MB of L3 hold a part.
    let tables =
        "name = 'm'\n[[tables]]\nkind = 'hnsw'\ncount = 4\nrows = [6000, 6000]\ndims = [1024]\n";
    let (text, plain) = run(tables, "");
    assert!(text.starts_with("modelled: m on rome-7k62, seed 1\n"));
    assert!(!plain.contains("rows_as") && !plain.contains("rerank"));
    assert_eq!(run(tables, "--rows-as f32").1, plain);

    let (text, coded) = run(tables, "--rows-as sq8 --rerank f16");
    assert!(text.contains("rows as sq8 re-ranked by f16\n"), "{text}");
    let in_file = format!("{tables}rows_as = 'sq8'\nrerank = 'f16'\n");
    assert_eq!(run(&in_file, "").1, coded);
    let (_, halved) = run(tables, "--rows-as sq4 --rerank sq8");
    let bytes = |report: &str| {
        let report: serde_json::Value = serde_json::from_str(report).unwrap();
        report["runs"][0]["memory_bytes_per_query"]
            .as_f64()
            .unwrap()
    };
    let [plain, coded, halved] = [plain, coded, halved].map(|report| bytes(&report));
    assert!(coded < 0.5 * plain, "{coded} and {plain}");
    assert!(halved < 0.75 * coded, "{halved} and {coded}");
    let [two, one] = ["sq2", "sq1"].map(|format| {
        let (_, report) = run(tables, &format!("--rows-as {format} --rerank sq8"));
        bytes(&report)
    });
    assert!(one < two && two < halved, "{one}, {two} and {halved}");
}

#[test]
fn formats_that_cannot_be_used_are_named() {
    for (arguments, named) in [
        (
            ["--rows-as", "f64"],
            &["--rows-as", "f32, f16, bf16, sq8, sq4, sq2 or sq1"],
        ),
        (
            ["--rerank", "sq4"],
            &["rerank is sq4", "f32, f16, bf16 or sq8"],
        ),
        (
            ["--rows-as", "sq4"],
            &["rerank is none", "beside rows of sq4, sq2 and sq1"],
        ),
        (
            ["--rerank", "sq1"],
            &["rerank is sq1", "f32, f16, bf16 or sq8"],
        ),
        (
            ["--rows-as", "sq2"],
            &["rerank is none", "beside rows of sq4, sq2 and sq1"],
        ),
    ] {
        refused(&arguments, named);
    }
    let lists = ["--workload", "paper-ivf", "--rerank", "f32"];
    refused(&lists, &["rerank of inverted lists", "hnsw"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    for (line, named) in [
        ("rows_as = 'int8'", ["int8", "sq8"]),
        (
            "kind = 'ivf'\nrerank = 'f16'",
            ["rerank of inverted lists is f16", "hnsw"],
        ),
        ("rerank = 'sq4'", ["rerank is sq4", "bf16"]),
    ] {
        let kind = if line.contains("kind") {
            ""
        } else {
            "kind = 'hnsw'\n"
        };
        let text =
            format!("name = 'm'\n[[tables]]\n{kind}count = 1\nrows = [9, 9]\ndims = [8]\n{line}\n");
        std::fs::write(&file, text).unwrap();
        refused(&["--workload", file.to_str().unwrap()], &named);
    }
}

/// Whether that ends with status 2, nothing on standard output, and these words.
fn refused(arguments: &[&str], named: &[&str]) {
    let output = simulate(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for named in named {
        assert!(said.contains(named), "{arguments:?}: {said}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn what_cannot_be_used_is_named() {
    for (arguments, named) in [
        (["--machine", "epyc"], "genoa-9654"),
        (["--workload", "nothing.toml"], "paper-hnsw"),
        (["--domains", "13"], "1 to 12"),
        (["--strategy", "ccd"], "ccd-aware"),
        (["--size", "0"], "--size"),
    ] {
        let arguments = [&arguments[..], &["--tables", "1", "--queries", "100"]].concat();
        refused(&arguments, &[named]);
    }
}

/// What a small run of `chiplet bench` may have written down.
fn measured() -> serde_json::Value {
    let mut report = serde_json::to_value(fixture::report(2)).unwrap();
    report["machine"]["domains"] = 2.into();
    report["machine"]["layout"]
        .as_array_mut()
        .unwrap()
        .truncate(2);
    report["generator"]["workers"] = 2.into();
    report["generator"]["own_cpus"] = Value::Null;
    let workload = &mut report["workload"];
    for (name, value) in [
        ("tables", 3),
        ("rows", 300),
        ("dims", 8),
        ("queries", 40),
        ("ef", 20),
    ] {
        workload[name] = value.into();
    }
    workload["table_skew"] = 1.0.into();
    workload["outstanding"] = 2.into();
    report
}

#[test]
fn what_was_measured_here_is_simulated_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let report = measured();
    let (mine, json) = (
        folder.path().join("mine.json"),
        folder.path().join("sim.json"),
    );
    let run = |report: &serde_json::Value| {
        std::fs::write(&mine, report.to_string()).unwrap();
        let words = "--machine rome-7k62 --domains 2 --queries 500 --strategy global-steal,ccd-aware --mine";
        let mut arguments: Vec<&str> = words.split(' ').collect();
        arguments.extend([mine.to_str().unwrap(), "--json", json.to_str().unwrap()]);
        simulate(&arguments)
    };
    let output = run(&report);
    assert!(output.status.success(), "{output:?}");
    let simulated: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let workload = &simulated["workload"];
    assert_eq!(workload["table_skew"], 1.0);
    assert_eq!(workload["queries"], 40);
    let tables = workload["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 3);
    for table in tables {
        let expected = [("rows", 300), ("dim", 8), ("ef", 20)];
        for (name, value) in expected {
            assert_eq!(table[name], value, "{name}");
        }
    }
    assert_eq!(simulated["runs"].as_array().unwrap().len(), 2);

    // The measured run stands beside the model.
    let text = String::from_utf8(output.stdout).unwrap();
    let cpu = report["machine"]["cpu"].as_str().unwrap();
    let beside = &simulated["measured"];
    assert!(
        text.contains("measured beside modelled: ratio to global-steal, saturated"),
        "{text}"
    );
    assert!(text.contains(&format!("measured on {cpu}")), "{text}");
    assert_eq!(beside["modelled_domains"], 2);
    let rows = beside["rows"].as_array().unwrap();
    assert_eq!(
        rows.len(),
        3,
        "throughput, p50 and p99 of ccd-aware: {rows:?}"
    );
    for row in rows {
        let of = |name: &str| row[name].as_f64().unwrap();
        let difference = 100.0 * (of("modelled") / of("measured") - 1.0);
        assert_eq!(row["strategy"], "ccd-aware");
        assert!(
            (of("difference_percent") - difference).abs() < 1e-9,
            "{row}"
        );
    }

    // A log of queries says how they repeat: here one table is asked, for one of two queries.
    let log = folder.path().join("log.csv");
    std::fs::write(&log, "a,1\na,2\na,1\n".repeat(50)).unwrap();
    let words = "--machine rome-7k62 --domains 2 --queries 500 --strategy global-steal --mine";
    let mut arguments: Vec<&str> = words.split(' ').collect();
    let files = [mine.to_str().unwrap(), "--log", log.to_str().unwrap()];
    arguments.extend(files);
    let output = simulate(&arguments);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("150 queries to 1 tables; table skew 0.00"),
        "{text}"
    );
    assert!(text.contains("98.7 % of the queries came before"), "{text}");

    // A rate is run besides.
    let mut open = report.clone();
    open["workload"]["rate_qps"] = 5_000.0.into();
    assert!(run(&open).status.success());
    let simulated: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let runs = simulated["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    let qps = runs[3]["qps"].as_f64().unwrap();
    assert!((4_000.0..6_000.0).contains(&qps), "{qps}");

    for (field, value, named) in [
        ("ef", serde_json::Value::Null, "workload.ef"),
        ("kind", "mixed".into(), "--kind hnsw"),
        ("queries", "many".into(), "workload.queries"),
    ] {
        let mut wrong = report.clone();
        wrong["workload"][field] = value;
        let output = run(&wrong);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(named) && said.contains("mine.json"), "{said}");
    }
}

#[test]
fn the_machine_that_was_measured_can_be_the_one_that_is_modelled() {
    let folder = tempfile::tempdir().unwrap();
    let (mine, json) = (folder.path().join("m.json"), folder.path().join("s.json"));
    let mine = mine.to_str().unwrap();
    let run = |report: &serde_json::Value, strategies: &str| {
        std::fs::write(mine, report.to_string()).unwrap();
        let words = "--machine measured --domains 1,2 --queries 300 --strategy";
        let files = [strategies, "--mine", mine, "--json", json.to_str().unwrap()];
        simulate(&[&words.split(' ').collect::<Vec<_>>()[..], &files].concat())
    };
    let mut report = measured();
    let output = run(&report, "global-steal,ccd-aware");
    assert!(output.status.success(), "{output:?}");
    let simulated: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(simulated["machine"], "measured");
    assert_eq!(simulated["runs"].as_array().unwrap().len(), 4);
    assert_eq!(simulated["measured"]["modelled_domains"], 2);
    let other = run(&report, "round-robin,fork-join");
    let text = String::from_utf8(other.stdout).unwrap();
    assert!(text.contains("no two strategies in common"), "{text}");

    // Senders took all cores of one domain.
    report["generator"]["own_cpus"] = "8-15".into();
    let output = run(&report, "global-steal,ccd-aware");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("1 to 1"), "{said}");
    report["machine"]["level"] = "L2".into();
    let output = run(&report, "global-steal,ccd-aware");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("made of L2"), "{said}");
    refused(&["--machine", "measured"], &["--mine"]);
}

#[test]
fn tables_with_clients_of_their_own_are_told_of_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (workload, json, page) = (path("mine.toml"), path("sim.json"), path("page.html"));
    let text = "name = 'mine'\nseconds = 1\n[[tables]]\nname = 'flood'\nkind = 'task'\nmicros = 2000\ncount = 1\nhome = 0\n\
                class = 'bulk'\n[[tables.asks]]\noutstanding = 100\n[[tables]]\nname = 'quiet'\nkind = 'task'\nmicros = 500\n\
                count = 3\nhome = 0\ndeadline_ms = 200\n[[tables.asks]]\nrate = 100\n";
    std::fs::write(&workload, text).unwrap();
    let run = |options: &[&str]| {
        let options = [&["--domains", "1", "--workload", &workload], options].concat();
        simulate(&options)
    };
    let output = run(&[
        "--strategy",
        "ccd-aware",
        "--json",
        &json,
        "--report",
        &page,
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    for named in ["flood", "quiet", "in queue", "passed", "bulk", "refused"] {
        assert!(text.contains(named), "{named}: {text}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let run_of = &report["runs"][0];
    assert_eq!(run_of["tenants"].as_array().unwrap().len(), 2);
    assert_eq!(run_of["tables"].as_array().unwrap().len(), 4);
    let quiet = &run_of["tenants"][1];
    assert_eq!(
        (&quiet["name"], &quiet["tables"]),
        (&"quiet".into(), &3.into())
    );
    assert!(quiet["done"].as_u64().unwrap() > 200, "{quiet}");
    assert_eq!(
        report["workload"]["asking"]["tenants"][0]["asks"][0]["class"],
        "bulk"
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("What became of whose queries") && page.contains("<td>quiet</td>"));
    for (options, named) in [
        (&["--loads", "50"][..], "asks"),
        (&["--flip", "1"][..], "flip"),
    ] {
        let refused = run(options);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(2) && said.contains(named),
            "{said}"
        );
    }
}

#[test]
fn a_home_that_the_machine_lacks_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let workload = folder.path().join("mine.toml");
    let text = "name = 'mine'\n[[tables]]\nname = 'far'\nkind = 'task'\nmicros = 5\ncount = 1\nhome = 2\n[[tables.asks]]\nrate = 1\n";
    std::fs::write(&workload, text).unwrap();
    let refused = simulate(&["--domains", "2", "--workload", workload.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && said.contains("far: home = 2"),
        "{said}"
    );
}

#[test]
fn ways_to_deploy_are_modelled_at_equal_use() {
    let folder = tempfile::tempdir().unwrap();
    let (workload, json) = (
        folder.path().join("small.toml"),
        folder.path().join("modes.json"),
    );
    std::fs::write(&workload, WORKLOAD).unwrap();
    let run = |more: &[&str]| {
        let given = [
            "--workload",
            workload.to_str().unwrap(),
            "--json",
            json.to_str().unwrap(),
        ];
        let small = ["--machine", "xeon-e5-2680v4x2", "--queries", "1500"];
        simulate(&[&small[..], &given, more].concat())
    };
    let modes = "--modes=one,pinned,four-pinned,chiplet";
    let output = run(&[modes, "--uses", "50", "--model", "ranking"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("modelled: small, model ranking, on xeon-e5-2680v4x2, seed 1\n"),
        "{text}"
    );
    let first = std::fs::read_to_string(&json).unwrap();
    let report: serde_json::Value = serde_json::from_str(&first).unwrap();
    let figures = report["uses"][0]["modes"].as_array().unwrap();
    let names: Vec<_> = figures
        .iter()
        .map(|mode| mode["mode"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["one", "pinned", "four-pinned", "chiplet"]);
    for mode in figures {
        let used = mode["used"].as_f64().unwrap();
        assert!((used - 0.5).abs() < 0.05, "{mode}");
    }
    run(&[modes, "--uses", "50", "--model", "ranking"]);
    assert!(std::fs::read_to_string(&json).unwrap() == first);

    for (wrong, why) in [
        (&["--modes=one,one"][..], "twice"),
        (&["--modes", "--strategy", "ccd-aware"], "give two"),
        (&["--modes", "--loads", "50"], "cannot be used with"),
    ] {
        let output = run(wrong);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(why), "{error}");
    }
    let one_socket = simulate(&["--machine", "rome-7k62", "--modes"]);
    assert!(String::from_utf8_lossy(&one_socket.stderr).contains("x2"));
}
