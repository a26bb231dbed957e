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
