//! `chiplet bench` at several sizes, on several numbers of domains, and with the simulator's workloads.

use std::fs;

use super::{Ran, check_figures, names, number, refused, run};

#[test]
fn each_size_is_a_point_of_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("sizes.html");
    let Ran { text, json } = run(&[
        "--strategy",
        "global-steal,ccd-aware",
        "--ccds",
        "1",
        "--size",
        "0.5,1,4",
        "--no-sweep",
        "--report",
        page.to_str().unwrap(),
    ]);
    let points = json["scaling"].as_array().unwrap();
    let sizes: Vec<f64> = points.iter().map(|point| number(&point["size"])).collect();
    assert_eq!(sizes, [0.5, 1.0, 4.0]);
    let bytes: Vec<f64> = points.iter().map(|point| number(&point["bytes"])).collect();
    assert!(
        bytes[0] < bytes[1] && bytes[2] > 3.5 * bytes[1],
        "{bytes:?}"
    );
    for point in points {
        assert_eq!(point["domains"], 1);
        assert!(number(&point["strategies"][1]["throughput_qps"]) > 0.0);
    }
    // The report itself is of the size nearest to 1.
    assert_eq!(json["workload"]["rows"], 200);
    check_figures(&json);
    assert!(text.contains("1 domains, rows x 4"), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("Where placement pays") && page.contains("throughput, ratio to global-steal")
    );
}

#[test]
fn a_workload_of_the_simulator_is_built_and_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let recipe = "# secret\nname = 'mine'\ntable_skew = 0.7\nquery_skew = 0.3\nhot_share = 0.2\n\
        topics = { share = 0.5, count = 4, spread = 0.3 }\n\
        [[tables]]\nkind = 'hnsw'\ncount = 2\nrows = [200, 800]\ndims = [8, 16]\nk = [5]\nef = 40\n\
        [[tables]]\nkind = 'hnsw'\ncount = 1\nrows = [400, 400]\ndims = [32]\nrows_as = 'sq8'\nrerank = 'f32'\n";
    fs::write(&file, recipe).unwrap();
    let file = file.to_str().unwrap();
    let Ran { text, json } = run(&["--strategy", "rayon,ccd-aware", "--workload", file]);
    assert_eq!(names(&json), ["rayon", "ccd-aware"]);
    let workload = &json["workload"];
    assert_eq!(workload["tables"], 3);
    let kept = workload["recipe"].as_str().unwrap();
    assert!(
        kept.contains("table_skew = 0.7") && !kept.contains("secret"),
        "{kept}"
    );
    assert_eq!((&workload["ef"], &workload["k"]), (&40.into(), &10.into()));
    assert_eq!(number(&workload["table_skew"]), 0.7);
    assert!(text.contains("workload mine"), "{text}");
    check_figures(&json);

    let task = folder.path().join("task.toml");
    fs::write(
        &task,
        "name='t'\n[[tables]]\nkind='task'\nmicros=5\ncount=1\n",
    )
    .unwrap();
    refused(
        &["--workload", task.to_str().unwrap()],
        &["chiplet-simulate"],
    );
}

#[test]
fn points_that_cannot_be_are_refused() {
    refused(&["--ccds", "4000"], &["--ccds 4000", "chiplet topology"]);
    refused(&["--size", "1,2", "--rate", "50%"], &["--size", "--rate"]);
    refused(&["--size", "0"], &["--size 0", "above 0"]);
    refused(&["--size", "2", "--data", "glove"], &["--size", "--data"]);
    refused(
        &["--workload", "nowhere.toml"],
        &["nowhere.toml", "paper-hnsw"],
    );
    refused(
        &["--workload", "paper-hnsw", "--kind", "ivf"],
        &["--workload", "--kind"],
    );
    refused(&["--workload", "paper-hnsw"], &["GiB", "--size"]);
}
