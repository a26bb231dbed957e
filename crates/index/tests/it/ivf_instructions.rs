//! Lists answer alike with every set of vector instructions.

use crate::common::{clustered, unsplit};
use crate::ivf::{DIM, ROWS, queries};
use chiplet_index::{IvfConfig, IvfTable, Metric, Pages};

/// The answers of tables in files, when a test program is told to write them.
#[test]
#[ignore = "part of every_set_of_instructions_answers_alike"]
fn write_answers() {
    let Ok(folder) = std::env::var("CHIPLET_TEST_TABLES") else {
        return;
    };
    let mut tables: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    tables.sort_by_key(|file| file.as_ref().unwrap().file_name());
    let mut lines = String::new();
    for file in tables {
        let path = file.unwrap().path();
        let table = IvfTable::load(&path, Pages::Small).unwrap();
        for query in queries(20) {
            for hit in unsplit(&table, &query.top(30)) {
                lines += &format!("{}\t{}\t{}\n", path.display(), hit.id, hit.distance);
            }
        }
    }
    std::fs::write(std::env::var("CHIPLET_TEST_ANSWERS").unwrap(), lines).unwrap();
}

#[test]
fn every_set_of_instructions_answers_alike() {
    let (tables, answers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rows = clustered(ROWS, DIM, 4);
    for factory in [
        "Flat", "SQ8", "SQfp16", "SQbf16", "PQ8x4fs", "PQ8x4fsr", "PQ4",
    ] {
        for metric in [Metric::L2, Metric::Cosine] {
            let config = IvfConfig::new(metric).nprobe(6);
            let table = IvfTable::build(&rows, DIM, &format!("IVF24,{factory}"), &config).unwrap();
            let file = tables.path().join(format!("{factory}-{metric:?}"));
            table.save(file).unwrap();
        }
    }
    let answers: Vec<String> = ["portable", "avx2", "avx512"]
        .into_iter()
        .map(|level| {
            let path = answers.path().join(level);
            let done = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "ivf_instructions::write_answers"])
                .env("CHIPLET_SIMD", level)
                .env("CHIPLET_TEST_TABLES", tables.path())
                .env("CHIPLET_TEST_ANSWERS", &path)
                .output()
                .unwrap();
            assert!(done.status.success(), "{level}: {done:?}");
            std::fs::read_to_string(path).unwrap()
        })
        .collect();
    assert!(answers[0].lines().count() > 1000);
    // AVX2 and AVX-512 agree to the bit; plain loops have no fused multiply-add.
    assert!(answers[1] == answers[2]);
    let parsed = |text: &str| -> Vec<(String, f32)> {
        let lines = text.lines().map(|line| {
            let mut fields = line.split('\t');
            let name = fields.next().unwrap().to_owned();
            (name, fields.nth(1).unwrap().parse().unwrap())
        });
        lines.collect()
    };
    for (a, b) in parsed(&answers[0]).iter().zip(parsed(&answers[1])) {
        assert_eq!(a.0, b.0);
        assert!(
            (a.1 - b.1).abs() <= 1e-5 * a.1.abs().max(1.0),
            "{a:?} {b:?}"
        );
    }
}
