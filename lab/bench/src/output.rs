//! Results and errors, files that are written, and the look of progress bars.

use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use indicatif::ProgressStyle;

/// Finds out whether a file can be written, and leaves none behind.
pub fn writable(path: &Path) -> anyhow::Result<()> {
    let existed = path.exists();
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    if !existed {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Writes a file; an error names it.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} could not be written", path.display()))
}

/// A progress bar that looks so.
///
/// # Panics
/// If `template` is none.
pub fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates of these programs are valid")
}

/// Ends a program: its result goes to standard output, an error to standard error, with status 2.
pub fn finish(program: &str, result: anyhow::Result<String>) -> ExitCode {
    match result {
        Ok(text) => print(program, &text),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{program}: {}", explain(&error));
            ExitCode::from(2)
        }
    }
}

/// An error and its causes; a cause that the message tells already is not told again.
fn explain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints a result. A reader that has seen enough (`| head`) is no error.
fn print(program: &str, text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("{program}: cannot write the result: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
