//! Which places of the program fetch lines that another domain has written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use addr2line::Loader;
use anyhow::{Context as _, anyhow};
use chiplet_caches::record::{Bounces, CodeSite, Line};
use chiplet_caches::seen::Seen;

/// How many places and lines are worth a look.
const MOST: usize = 20;

/// Finds the places of what was seen, in this program and in the libraries that it was linked with.
pub fn resolve(seen: &Seen) -> anyhow::Result<Bounces> {
    if seen.bounces.is_empty() {
        return Ok(Bounces::default());
    }
    let mut code = Code::new(&seen.maps)?;
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut by_place: BTreeMap<String, CodeSite> = BTreeMap::new();
    let mut by_line: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::new();
    for &(pc, line, times) in &seen.bounces {
        let name = names.entry(pc).or_insert_with(|| code.name(pc)).clone();
        let place = by_place.entry(name.clone()).or_insert_with(|| CodeSite {
            place: name.clone(),
            times: 0,
            lines: 0,
        });
        place.times += times;
        place.lines += 1;
        *by_line.entry(line).or_default().entry(name).or_default() += times;
    }
    let mut places: Vec<CodeSite> = by_place.into_values().collect();
    places.sort_by_key(|place| std::cmp::Reverse(place.times));
    places.truncate(MOST);
    let mut lines: Vec<Line> = by_line
        .into_iter()
        .map(|(line, places)| Line {
            address: format!("{:#x}", line << 6),
            times: places.values().sum(),
            places: places
                .into_iter()
                .map(|(place, times)| format!("{times} x {place}"))
                .collect(),
        })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.times));
    lines.truncate(MOST);
    Ok(Bounces { places, lines })
}

/// A mapped file.
struct Mapping {
    from: u64,
    to: u64,
    /// Where the file's address 0 lies.
    base: u64,
    path: PathBuf,
}

/// Where the program's code lies, and what is known of it.
struct Code {
    mappings: Vec<Mapping>,
    loaders: BTreeMap<PathBuf, Option<Loader>>,
}

impl Code {
    fn new(maps: &str) -> anyhow::Result<Self> {
        let mut bases: BTreeMap<PathBuf, u64> = BTreeMap::new();
        let mut mappings: Vec<Mapping> = Vec::new();
        for text in maps.lines() {
            let mut words = text.split_whitespace();
            let (Some(range), Some(path)) = (words.next(), words.nth(4)) else {
                continue;
            };
            let (from, to) = range
                .split_once('-')
                .context("no range in a line of maps")?;
            let hex = |text| u64::from_str_radix(text, 16);
            let (from, to) = (hex(from)?, hex(to)?);
            let offset = hex(text.split_whitespace().nth(2).unwrap_or("0"))?;
            let path = PathBuf::from(path);
            // A library may be mapped twice, for QEMU and for the program: each copy begins at offset 0.
            if offset == 0 {
                bases.insert(path.clone(), from);
            }
            let base = bases.get(&path).copied().unwrap_or(from);
            mappings.push(Mapping {
                from,
                to,
                base,
                path,
            });
        }
        Ok(Self {
            mappings,
            loaders: BTreeMap::new(),
        })
    }

    fn name(&mut self, pc: u64) -> String {
        let found = self
            .mappings
            .iter()
            .find(|map| (map.from..map.to).contains(&pc));
        let Some(map) = found else {
            return format!("{pc:#x}");
        };
        let path = map.path.clone();
        let loader = self
            .loaders
            .entry(path.clone())
            .or_insert_with(|| Loader::new(&path).ok());
        let known = loader
            .as_ref()
            .and_then(|loader| describe(loader, pc - map.base).ok());
        known.unwrap_or_else(|| format!("{} at {:#x}", file_name(&path), pc - map.base))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

/// A function's name without what stands in angle brackets, which may be long.
fn without_generics(name: &str) -> String {
    let mut depth = 0;
    let mut short = String::new();
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
    }
    short
}

/// The innermost function of this project, or of whoever, that the address belongs to.
fn describe(loader: &Loader, address: u64) -> anyhow::Result<String> {
    let wrong = |error: Box<dyn std::error::Error>| anyhow!("{error}");
    let mut frames = loader.find_frames(address).map_err(wrong)?;
    let (mut innermost, mut own) = (None, None);
    while let Some(frame) = frames.next()? {
        let (Some(function), Some(place)) = (frame.function, frame.location) else {
            continue;
        };
        let name = without_generics(&function.demangle()?);
        let file = place.file.unwrap_or_default();
        let is_own = ["crates/", "lab/caches/"]
            .iter()
            .find_map(|folder| file.find(folder));
        let from = is_own.or_else(|| file.find("/library/")).unwrap_or(0);
        let text = format!("{name} ({}:{})", &file[from..], place.line.unwrap_or(0));
        if is_own.is_some() {
            own = own.or(Some(text.clone()));
        }
        innermost = innermost.or(Some(text));
    }
    if let Some(text) = own.or(innermost) {
        return Ok(text);
    }
    let symbol = loader.find_symbol(address).context("no symbol")?;
    Ok(symbol.to_owned())
}
