//! What the README shows and says is what there is.

use std::path::Path;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text from `start` to `end`.
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).expect(start);
    rest.split_once(end).expect(end).0
}

#[test]
fn the_rust_example_is_examples_quickstart() {
    let program = file("examples/quickstart.rs");
    let (_, code) = program.split_once("\n\n").expect("a comment first");
    assert_eq!(between(&file("README.md"), "```rust\n", "```"), code);
}

#[test]
fn how_long_commands_take_and_what_they_fill_is_said_alike() {
    let (readme, makefile) = (file("README.md"), file("Makefile"));
    let demo = between(
        &makefile,
        "\ndemo: ## Run the whole thing on real vectors: ",
        ";",
    );
    assert!(readme.contains(demo), "README.md does not say {demo:?}");
    let test = between(&readme, "make test    # all checks: ", "\n");
    let [time, size] = test.split(", ").collect::<Vec<_>>().try_into().unwrap();
    for (name, said) in [
        ("CONTRIBUTING.md", time),
        ("CONTRIBUTING.md", size),
        ("scripts/setup.sh", size),
    ] {
        assert!(file(name).contains(said), "{name} does not say {said:?}");
    }
}

/// The pages that a user reads, and the most words that each may have: 12,000 in all.
const BUDGETS: [(&str, usize); 8] = [
    ("README.md", 600),
    ("docs/guide.md", 1_800),
    ("docs/tuning.md", 1_500),
    ("docs/architecture.md", 2_500),
    ("docs/correctness.md", 2_500),
    ("docs/limitations.md", 1_000),
    ("docs/row-formats.md", 1_200),
    ("docs/benchmarks.md", 900),
];

#[test]
fn each_page_keeps_its_budget_of_words() {
    for (name, most) in BUDGETS {
        let words = file(name).split_whitespace().count();
        assert!(
            words <= most,
            "{name} has {words} words, its budget is {most}"
        );
    }
    for page in pages("docs") {
        let known = BUDGETS.iter().any(|(name, _)| *name == page);
        assert!(
            known,
            "{page} has no budget in tests/it/readme.rs: not a page of docs"
        );
    }
}

const MONTHS: &str =
    "January February March April May June July August September October November December";

#[test]
fn what_is_dated_stands_in_results_and_benchmarks() {
    let dated = |word: &str| {
        let shape: String = word
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        let is_commit = (7..=40).contains(&word.len())
            && word
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && shape.contains('0')
            && shape != "0".repeat(word.len());
        let month = shape.strip_suffix(" 0000");
        is_commit
            || shape.starts_with("0000-00-00")
            || MONTHS.split(' ').any(|one| month == Some(one))
    };
    for page in pages("") {
        let kept = ["results/", "docs/benchmarks.md", "CHANGELOG.md"];
        if kept.iter().any(|kept| page.starts_with(kept)) {
            continue;
        }
        let text = file(&page);
        let words: Vec<_> = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .collect();
        let pairs = words.windows(2).map(|pair| pair.join(" "));
        let found = words
            .iter()
            .map(|word| word.to_string())
            .chain(pairs)
            .find(|word| dated(word));
        assert_eq!(
            found, None,
            "{page}: what was measured when belongs into results"
        );
    }
}

#[test]
fn links_between_pages_lead_to_places_that_exist() {
    let mut dead = Vec::new();
    for page in pages("") {
        let text = file(&page);
        let defined = text.lines().filter(|line| line.starts_with('['));
        let defined = defined.filter_map(|line| Some(line.split_once("]: ")?.1.trim()));
        let inline = text
            .split("](")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once(')')?.0));
        for link in inline
            .chain(defined)
            .filter(|link| !link.contains("://") && !link.contains("::"))
        {
            let (path, place) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(&page).parent().unwrap();
            let to = if path.is_empty() {
                page.clone()
            } else {
                folder.join(path).to_str().unwrap().to_owned()
            };
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join(&to);
            let found = there.exists()
                && (place.is_empty()
                    || !to.ends_with(".md")
                    || places(&file(&to)).any(|one| one == place));
            if !found {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(
        dead.is_empty(),
        "links that lead nowhere:\n{}",
        dead.join("\n")
    );
}

/// What a page's headings are called in links.
fn places(page: &str) -> impl Iterator<Item = String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept = kept
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// Paths between backquotes: to files of the sources by their ends, and to folders from the top.
#[test]
fn files_and_folders_that_pages_name_exist() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in [
        "src", "crates", "apps", "lab", "tests", "benches", "examples", "bindings", "scripts",
    ] {
        collect(&top.join(folder), &mut files);
    }
    // `policy/split.rs` is `crates/policy/src/split.rs`.
    let short = files
        .iter()
        .map(|file| file.replace("/src/", "/"))
        .collect::<Vec<_>>();
    let mut missing = Vec::new();
    for (page, _) in BUDGETS.into_iter().chain([("CONTRIBUTING.md", 0)]) {
        let text = file(page);
        for name in text.split('`').skip(1).step_by(2) {
            let is_name = name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let found = if !is_name {
                true
            } else if name.ends_with(".rs") || name.ends_with(".py") || name.ends_with(".sh") {
                let end = format!("/{name}");
                files.iter().chain(&short).any(|file| file.ends_with(&end))
            } else {
                !name.starts_with("crates/")
                    && !name.starts_with("lab/")
                    && !name.starts_with("apps/")
                    || top.join(name).exists()
            };
            if !found {
                missing.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "not in the sources:\n{}",
        missing.join("\n")
    );
}

/// All files below a folder.
fn collect(folder: &Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if !entry.file_type().unwrap().is_dir() {
            files.push(entry.path().to_str().unwrap().to_owned());
        } else if name != "target" && name != "node_modules" && name != "corpus" {
            collect(&entry.path(), files);
        }
    }
}

/// All Markdown below a folder, as paths from the top.
fn pages(folder: &str) -> Vec<String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(top.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = Path::new(folder).join(&name).to_str().unwrap().to_owned();
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.')
                && !["target", "node_modules", "corpus"].contains(&name.as_str())
            {
                found.extend(pages(&path));
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
    found
}
