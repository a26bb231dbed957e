//! One input for each reader of outside data: bytes become a file, and what is made of it is checked. Run by the fuzz
//! targets in `fuzz/` and, over the committed seeds, by `seeds.rs`.

use std::fs;
use std::path::Path;

use chiplet_index::{
    AnyTable, BuildError, FileError, FlatTable, HnswConfig, HnswTable, IvfTable, KeyedRows, Metric,
    Pages,
};
use chiplet_table::{Context, Query, Table};
use serde_json::Value;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::mapped;

thread_local! {
    static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a folder can be made");
}

/// Calls `open` with a folder that has files of these names and bytes, kept until the next of the name.
fn with_files<T>(files: &[(&str, &[u8])], open: impl FnOnce(&Path) -> T) -> T {
    FOLDER.with(|folder| {
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).expect("files can be written");
        }
        open(folder.path())
    })
}

/// Asserts that bytes from outside were refused, with a reason, or became a table that answers.
pub fn refused_or_sound(opened: Result<HnswTable, BuildError>) {
    match opened {
        Ok(table) => {
            for ef in [1, 8, table.len()] {
                let query = Query::new(vec![0.5; table.dim()]).top(5).ef(ef);
                let hits = table.search(&query, &mut Context::default());
                let hits = hits.expect("a query that fits is answered");
                assert_eq!(hits.len(), table.len().min(5));
                assert!(hits.is_sorted());
            }
        }
        Err(error) => {
            let told = error.to_string();
            assert!(!told.is_empty() && told.len() < 4000, "{told}");
        }
    }
}

/// A file of hnswlib.
pub fn hnswlib(data: &[u8]) {
    with_files(&[("file", data)], |folder| {
        for metric in [Metric::L2, Metric::Cosine] {
            let config = HnswConfig::new(metric);
            refused_or_sound(HnswTable::from_hnswlib(folder.join("file"), 4, &config));
        }
    });
}

/// An index that Faiss serialised: refused with a reason, or a table that answers. Its numbers may be so large that
/// distances overflow, so answers of codes need not be in order.
pub fn faiss_file(data: &[u8]) {
    for cosine in [false, true] {
        let options = chiplet_index::faiss_file::Options::default().cosine(cosine);
        match chiplet_index::faiss_file::read_bytes(data, &options.memory(Pages::Small)) {
            Ok(table) => {
                for top in [1, 5] {
                    let query = Query::new(vec![0.5; table.dim()]).top(top);
                    let query = query.ef(8).nprobe(1 << 20);
                    let hits = table.search(&query, &mut Context::default());
                    let hits = hits.expect("a query that fits is answered");
                    match table {
                        AnyTable::Ivf(_) => assert!(hits.len() <= top),
                        _ => assert_eq!(hits.len(), table.len().min(top)),
                    }
                }
            }
            Err(error) => {
                let told = error.to_string();
                assert!(!told.is_empty() && told.len() < 4000, "{told}");
            }
        }
    }
}

/// The first two bytes are the length of the graph's file, the others that file and the rows'.
pub fn hnsw_rs_dump(data: &[u8]) {
    let Some((length, files)) = data.split_first_chunk() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(files.len());
    let (graph, rows) = files.split_at(length);
    let files = [("dump.hnsw.graph", graph), ("dump.hnsw.data", rows)];
    with_files(&files, |folder| {
        for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
            let config = HnswConfig::new(metric);
            refused_or_sound(HnswTable::from_hnsw_rs_dump(folder, "dump", &config));
        }
    });
}

/// Bytes before the header of a table's file: magic, version, the header's length, the checksum of these and the
/// header.
const PREFIX: usize = 24;

/// Sections begin at multiples of this, and the first one at a multiple of a page.
const SECTION: usize = 64;
const PAGE: usize = 4096;

/// A table's file, whose header's checksum is put right, as damage that the checksum shows is refused at once. Loaded,
/// it is refused or sound; mapped, its rows and links may be anything, and every search must still end well.
///
/// Then the same as a forger would make it: sections of the sizes that the header tells, with right checksums.
pub fn table_file(data: &[u8]) {
    let mut file = data.to_vec();
    if let Some(header) = header_of(&file).map(<[u8]>::to_vec) {
        put_sum(&mut file, &header);
    }
    open_any(&file);
    if let Some(forged) = forged(data) {
        open_any(&forged);
    }
}

fn open_any(file: &[u8]) {
    with_files(&[("file", file)], |folder| {
        let path = folder.join("file");
        ends_well(mapped::hnsw(&path));
        ends_well(HnswTable::load(&path, Pages::Small));
        ends_well(mapped::ivf(&path));
        ends_well(IvfTable::load(&path, Pages::Small));
        ends_well(mapped::flat(&path));
        ends_well(FlatTable::load(&path, Pages::Small));
        ends_well(mapped::any(&path));
        looks_up_well(mapped::keyed(&path));
        looks_up_well(KeyedRows::load(&path, Pages::Small));
    });
}

/// Asserts that a file was refused, or that look-ups in it end, whatever they find.
fn looks_up_well(opened: Result<KeyedRows, FileError>) {
    let Ok(rows) = opened else {
        return;
    };
    let some = rows.iter().take(100);
    let keys: Vec<u64> = some.map(|(key, _)| key).chain([0, 1, u64::MAX]).collect();
    let bytes = rows.value_bytes();
    let (mut values, mut found) = (vec![0; keys.len() * bytes], vec![false; keys.len()]);
    rows.get_many(&keys, &mut values, &mut found);
    for (at, (key, found)) in keys.iter().zip(found).enumerate() {
        let value = &values[at * bytes..][..bytes];
        assert_eq!(rows.get(*key), found.then_some(value));
    }
}

/// The JSON of a table's file.
fn header_of(file: &[u8]) -> Option<&[u8]> {
    let length = u32::from_le_bytes(*file.get(12..)?.first_chunk()?) as usize;
    file.get(PREFIX..PREFIX.checked_add(length)?)
}

fn put_sum(file: &mut [u8], header: &[u8]) {
    let mut sum = Xxh3::new();
    sum.update(&file[..16]);
    sum.update(header);
    file[16..PREFIX].copy_from_slice(&sum.digest().to_le_bytes());
}

/// The file with its sections cut or repeated to the sizes that its header tells, and all sums right. A graph's
/// sections of links and ids get the sizes that follow from its layers, as random changes would hardly ever find both.
fn forged(data: &[u8]) -> Option<Vec<u8>> {
    /// Far less than a fuzzer's limit.
    const MOST: u64 = 1 << 20;
    let json = header_of(data)?;
    let payload = data.get((PREFIX + json.len()).next_multiple_of(PAGE)..)?;
    let mut header: Value = serde_json::from_slice(json).ok()?;
    let follows = links_and_ids(&header["meta"]);
    let mut sections = Vec::new();
    for section in header["sections"].as_array()? {
        let [offset, told] = ["offset", "bytes"].map(|name| section[name].as_u64());
        let name = section["name"].as_str()?;
        let known = follows.iter().flatten().find(|(known, _)| *known == name);
        let bytes = known.map_or(told?, |&(_, bytes)| bytes);
        if bytes > MOST {
            return None;
        }
        let from = payload.get(offset? as usize..).unwrap_or_default();
        let from = &from[..from.len().min(told? as usize)];
        let bytes: Vec<u8> = match from.is_empty() {
            true => vec![0; bytes as usize],
            false => from.iter().copied().cycle().take(bytes as usize).collect(),
        };
        sections.push((name.to_owned(), bytes));
    }
    lay_out(data, &mut header, &sections)
}

/// A table's file whose description and sections are what `change` makes of those of `data`, with right checksums.
#[allow(dead_code, reason = "not every file that includes this changes one")]
pub fn changed(
    data: &[u8],
    change: impl FnOnce(&mut Value, &mut Vec<(String, Vec<u8>)>),
) -> Option<Vec<u8>> {
    let json = header_of(data)?;
    let payload = data.get((PREFIX + json.len()).next_multiple_of(PAGE)..)?;
    let mut header: Value = serde_json::from_slice(json).ok()?;
    let content = |section: &Value| {
        let [offset, bytes] = ["offset", "bytes"].map(|name| section[name].as_u64());
        let content = payload.get(offset? as usize..)?.get(..bytes? as usize)?;
        Some((section["name"].as_str()?.to_owned(), content.to_vec()))
    };
    let sections = header["sections"].as_array()?.iter();
    let mut sections: Vec<_> = sections.map(content).collect::<Option<_>>()?;
    change(&mut header["meta"], &mut sections);
    lay_out(data, &mut header, &sections)
}

/// A file of the version of `data` with this header, which is told of these sections.
fn lay_out(data: &[u8], header: &mut Value, sections: &[(String, Vec<u8>)]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut entries = Vec::new();
    for (name, bytes) in sections {
        content.resize(content.len().next_multiple_of(SECTION), 0);
        entries.push(serde_json::json!({
            "name": name,
            "offset": content.len(),
            "bytes": bytes.len(),
            "xxh3": format!("{:016x}", xxh3_64(bytes)),
        }));
        content.extend(bytes);
    }
    header["sections"] = entries.into();
    let json = serde_json::to_vec(&header).ok()?;
    let mut file = data.get(..12)?.to_vec();
    file.extend((json.len() as u32).to_le_bytes());
    file.resize(PREFIX, 0);
    put_sum(&mut file, &json);
    file.extend(&json);
    file.resize(file.len().next_multiple_of(PAGE), 0);
    file.extend(content);
    Some(file)
}

/// Bytes of some sections of a graph, by its description.
fn links_and_ids(meta: &Value) -> Option<[(&'static str, u64); 3]> {
    let number = |name: &str| meta[name].as_u64().filter(|&number| number < 1 << 20);
    let layers = meta["layers"].as_array()?.iter();
    let layers: Vec<u64> = layers
        .map(|nodes| nodes.as_u64().filter(|&nodes| nodes < 1 << 20))
        .collect::<Option<_>>()?;
    let (ground, upper) = layers.split_first()?;
    // A link is read as four bytes, wherever it ends.
    let link_bytes = match &meta["link_bytes"] {
        Value::Null => 4,
        _ => number("link_bytes").filter(|bytes| matches!(bytes, 3 | 4))?,
    };
    let section = |links: u64| links * link_bytes + 4 - link_bytes;
    Some([
        ("links", section(ground * number("ground_stride")?)),
        (
            "upper",
            section(upper.iter().sum::<u64>() * number("stride")?),
        ),
        ("ids", ground * number("id_bytes")?),
    ])
}

/// Asserts that a search of what was opened ends, with at most so many rows as were asked for.
fn ends_well(opened: Result<impl Table, FileError>) {
    let Ok(table) = opened else { return };
    for top in [1, 5] {
        let query = Query::new(vec![0.5; table.dim()]).top(top).ef(8);
        // Distances of damaged rows may be NaN, and an error is as good.
        if let Ok(hits) = table.search(&query, &mut Context::default()) {
            assert!(hits.len() <= top);
        }
    }
}
