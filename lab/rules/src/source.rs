//! The sources: which constants they hold, and a copy of them with a switch for each rule.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::list::{List, Place, parts};

/// What the copy's policy gets besides: it reads the switches.
const SWITCHES: &str = include_str!("switches.rs.in");

/// Sources besides the policy's that name its constants, and the simulator runs them.
const USERS: [&str; 2] = [
    "lab/sim/src/engine/calls.rs",
    "lab/sim/src/engine/scenario.rs",
];

/// Set where the copy is built, so that the program knows that it has switches.
pub(crate) const SWITCHED: &str = "CHIPLET_SWITCHED";

/// What the figures depend on, besides the machine's floating point: the shipped decisions, the simulator, the suite.
const FIGURES: [&str; 10] = [
    "crates/index/src",
    "crates/memory/src",
    "crates/policy/src",
    "crates/table/src",
    "crates/topology/src",
    "lab/baselines/src",
    "lab/recipes/src",
    "lab/rules/src/suite",
    "lab/sim/src",
    "lab/workload/src",
];

/// Files and folders of no shipped code.
const TESTS: [&str; 7] = [
    "tests",
    "tests.rs",
    "shuttle_tests",
    "loom_tests.rs",
    "checks.rs",
    "model.rs",
    "replay.rs",
];

/// The Rust files of shipped code below a folder.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = all_files(folder)?;
    all.retain(|path| {
        let mut parts = path.strip_prefix(folder).into_iter().flatten();
        path.extension().is_some_and(|ending| ending == "rs")
            && !parts.any(|part| TESTS.iter().any(|test| part == *test))
    });
    Ok(all)
}

/// What comes before a file's own tests: a module that only they have.
fn shipped(text: &str) -> &str {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let tests = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        let inline = |next: &&str| next.starts_with("mod ") && next.ends_with("{\n");
        if tests && lines.peek().is_some_and(inline) {
            return &text[..at];
        }
        at += line.len();
    }
    text
}

/// The name of the constant that a line defines.
fn defines(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (name, _) = line.strip_prefix("const ")?.split_once(':')?;
    let upper = |char: char| char.is_ascii_uppercase() || char.is_ascii_digit() || char == '_';
    (name.len() > 1 && name.chars().all(upper)).then_some(name)
}

/// All constants below a folder, each a file and a name.
pub(crate) fn constants(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for path in files(folder)? {
        let text = std::fs::read_to_string(&path)?;
        let file = path.strip_prefix(folder)?.display().to_string();
        let names = shipped(&text).lines().filter_map(defines);
        all.extend(names.map(|name| format!("{file} {name}")));
    }
    Ok(all)
}

/// Copies the project's sources from `root` to `into`, and gives each rule of the policy its switch.
pub(crate) fn copy(root: &Path, into: &Path, list: &List) -> anyhow::Result<()> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("git lists the sources")?;
    ensure!(
        listed.status.success(),
        "git cannot list the sources of {}, as it says above",
        root.display()
    );
    let mut written = BTreeSet::from([into.join(Place::Policy.sources()).join("switches.rs")]);
    let own = std::path::absolute(into)?;
    for file in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(file), into.join(file));
        if !from.is_file() || std::path::absolute(&from)?.starts_with(&own) {
            continue;
        }
        written.insert(to.clone());
        std::fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        if USERS.contains(&file) {
            let text = std::fs::read_to_string(&from)?;
            write(
                &to,
                &used(&root.join(Place::Policy.sources()), &text, list)?,
            )?;
            continue;
        }
        // What has not changed keeps its time, so that it is not compiled anew.
        let text = std::fs::read(&from)?;
        if !file.starts_with("crates/policy/src/")
            && std::fs::read(&to).ok().as_ref() != Some(&text)
        {
            std::fs::write(&to, text)?;
        }
    }
    let (from, to) = (
        root.join(Place::Policy.sources()),
        into.join(Place::Policy.sources()),
    );
    for path in all_files(&from)? {
        let file = path.strip_prefix(&from)?;
        let text = std::fs::read_to_string(&path)?;
        let mut text = switched(&from, &file.display().to_string(), &text, list)?;
        if file == Path::new("lib.rs") {
            text.push_str("\n#[doc(hidden)]\npub mod switches;\n");
        }
        write(&to.join(file), &text)?;
    }
    write(&to.join("switches.rs"), SWITCHES)?;
    // What is no source any more must not be built.
    for folder in ["apps", "crates", "examples", "lab", "src"] {
        for stale in all_files(&into.join(folder))? {
            if !written.contains(&stale) {
                std::fs::remove_file(stale)?;
            }
        }
    }
    Ok(())
}

/// All files below a folder, tests and their helpers too.
fn all_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        match path.is_dir() {
            true => all.extend(all_files(&path)?),
            false => all.push(path),
        }
    }
    all.sort();
    Ok(all)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if std::fs::read_to_string(path).ok().as_deref() != Some(text) {
        std::fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// A name for what the figures of a copy depend on.
pub(crate) fn fingerprint(tree: &Path) -> anyhow::Result<String> {
    let mut hash = DefaultHasher::new();
    for folder in FIGURES {
        for path in all_files(&tree.join(folder))
            .with_context(|| format!("{}: chiplet-rules run makes it", tree.display()))?
        {
            path.strip_prefix(tree)?.hash(&mut hash);
            std::fs::read(&path)?.hash(&mut hash);
        }
    }
    std::fs::read(tree.join("lab/rules/src/figures.rs"))?.hash(&mut hash);
    Ok(format!("{:016x}", hash.finish()))
}

/// A file of the policy with its switches.
fn switched(folder: &Path, file: &str, text: &str, list: &List) -> anyhow::Result<String> {
    let mut text = text.to_owned();
    for (number, rule) in list.rules.iter().enumerate() {
        if rule.place != Place::Policy {
            continue;
        }
        for edit in rule
            .off
            .iter()
            .chain(&rule.scale)
            .filter(|edit| edit.file == file)
        {
            let (on, by) = (
                format!("crate::switches::on({number})"),
                format!("crate::switches::by({number})"),
            );
            let instead = words(&edit.replace, "ON", &on);
            let instead = words(&instead, "BY", &by);
            ensure!(
                text.matches(&edit.find).count() == 1,
                "{}: edits overlap in {file}",
                rule.name
            );
            text = text.replacen(&edit.find, &instead, 1);
        }
    }
    for (number, rule) in list.rules.iter().enumerate() {
        if rule.place != Place::Policy {
            continue;
        }
        for constant in &rule.consts {
            let (home, name) = parts(constant)?;
            if sees(folder, home, name, file)? {
                text = scaled(&text, name, &format!("crate::switches::scaled({number}, "));
            }
        }
    }
    Ok(text)
}

/// A file of another crate, with the policy's public constants scaled; `folder` has those.
fn used(folder: &Path, text: &str, list: &List) -> anyhow::Result<String> {
    let mut text = text.to_owned();
    for (number, rule) in list.rules.iter().enumerate() {
        for constant in rule.consts.iter().filter(|_| rule.place == Place::Policy) {
            let (home, name) = parts(constant)?;
            if is_public(folder, home, name)? {
                let call = format!("chiplet_policy::switches::scaled({number}, ");
                text = scaled(&text, name, &call);
            }
        }
    }
    Ok(text)
}

/// Whether `file` may use the constant `name` of the file `home`: its own, its parent's, or a public one.
fn sees(folder: &Path, home: &str, name: &str, file: &str) -> anyhow::Result<bool> {
    if file == home {
        return Ok(true);
    }
    let child = home
        .strip_suffix("mod.rs")
        .is_some_and(|home| file.starts_with(home));
    Ok(child || is_public(folder, home, name)?)
}

fn is_public(folder: &Path, home: &str, name: &str) -> anyhow::Result<bool> {
    let text = std::fs::read_to_string(folder.join(home))?;
    let line = text.lines().find(|line| defines(line) == Some(name));
    Ok(line.is_some_and(|line| line.trim_start().starts_with("pub")))
}

fn is_part(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// Every `word` of a text replaced.
fn words(text: &str, word: &str, instead: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        out.push_str(before);
        out.push_str(if whole { instead } else { word });
        rest = after;
    }
    out + rest
}

/// Every use of the constant `name` as an argument of `call`, which scales it. Imports, other constants, defaults of
/// settings and comments stay.
fn scaled(text: &str, name: &str, call: &str) -> String {
    let mut out = String::new();
    // Inside an import or a constant.
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        let code = line.trim_start();
        let import = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
        inside |= import.iter().any(|import| code.starts_with(import)) || defines(line).is_some();
        let default = code.starts_with("pub ") && code.contains(" = ");
        match inside || default || code.starts_with("//") || code.starts_with("#[") {
            true => out.push_str(line),
            false => out.push_str(&scaled_line(line, name, call)),
        }
        let (code, _) = line.split_once("//").unwrap_or((line, ""));
        if inside && code.trim_end().ends_with(';') {
            inside = false;
        }
    }
    out
}

fn scaled_line(line: &str, name: &str, call: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        if before.ends_with(is_part) || after.starts_with(is_part) || before.contains("//") {
            out.push_str(before);
            out.push_str(name);
        } else {
            // With the path before it.
            let path = before.trim_end_matches(|char| is_part(char) || char == ':');
            let (before, path) = before.split_at(path.len());
            out.push_str(&format!("{before}{call}{path}{name})"));
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_where_they_are_defined_and_used() {
        assert_eq!(
            defines("    pub(super) const NEAR: usize = 2;"),
            Some("NEAR")
        );
        assert_eq!(defines("pub const LOOK: Duration = X;"), Some("LOOK"));
        assert_eq!(defines("const fn of(x: u64) -> u64 {"), None);
        assert_eq!(defines("let x: u64 = LOOK;"), None);
        let text = "use a::{\n    FAR,\n};\nconst NEXT: u64 = 2 * FAR;\n// FAR away\nlet x = FAR + b::FAR - FARTHER;\n";
        let expected = "use a::{\n    FAR,\n};\nconst NEXT: u64 = 2 * FAR;\n// FAR away\n\
                        let x = crate::switches::scaled(7, FAR) + crate::switches::scaled(7, b::FAR) - FARTHER;\n";
        assert_eq!(scaled(text, "FAR", "crate::switches::scaled(7, "), expected);
        assert_eq!(
            words("if ON && ONE { ON }", "ON", "x()"),
            "if x() && ONE { x() }"
        );
    }
}
