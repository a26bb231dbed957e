//! The demo as a newcomer runs it, but for a second a phase.

use std::path::Path;
use std::process::{Command, Output};

fn output(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert!(
        status.success(),
        "{text}{}",
        String::from_utf8_lossy(&stderr)
    );
    text
}

#[test]
fn it_ends_with_words_figures_and_a_page_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let [json, page] = ["demo.json", "demo.html"].map(|name| folder.path().join(name));
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets");
    let text = output(
        Command::new(env!("CARGO_BIN_EXE_chiplet-demo"))
            .args(["--seconds", "1", "--data"])
            .arg(data)
            .arg("--json")
            .arg(&json)
            .arg("--page")
            .arg(&page),
    );
    assert!(
        text.contains("equal to the tables' own search called directly: 1400 of 1400"),
        "{text}"
    );
    assert!(text.contains("  paris      france"), "{text}");
    assert!(
        text.ends_with(&format!("a page with pictures: {}\n", page.display())),
        "{text}"
    );

    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    for kind in ["hnsw", "ivf"] {
        let recall = figures["recall_at_10_by_kind"][kind].as_f64().unwrap();
        assert!(recall >= 0.95, "{kind}: {recall}");
    }

    let page = std::fs::read_to_string(page).unwrap();
    for said in [
        "Placement over time",
        "ivf-1",
        "Latency over time",
        "phase 2",
    ] {
        assert!(page.contains(said), "no {said:?}");
    }
    for outside in ["http:", "https:", "<script", "<link", "src="] {
        assert!(!page.contains(outside), "the page holds {outside:?}");
    }
}

/// The first build is most of a newcomer's wait, and a C compiler the most likely thing to be missing.
#[test]
fn nothing_that_it_is_built_of_wants_a_c_compiler() {
    let tree = output(
        Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(
                "tree --locked --offline --edges normal,build --prefix none --format {lib}"
                    .split(' '),
            ),
    );
    assert!(tree.contains("chiplet_charts"), "{tree}");
    for tool in ["cc", "cmake", "pkg_config", "bindgen", "faiss"] {
        assert!(!tree.lines().any(|name| name == tool), "{tool} in {tree}");
    }
}
