//! A folder of word vectors with queries and their exact neighbours, as `datasets/make_sample.py` writes
//! it. `datasets/README.md` documents the files.

use std::path::Path;

use super::error::{DatasetError, Problem};
use super::rows::{IdRows, VectorSet};
use super::source::Source;

/// Word vectors in order of word frequency, query words among them, and those words' exact neighbours.
///
/// ```no_run
/// use chiplet_workload::dataset::GloveSample;
/// let sample = GloveSample::read("datasets/glove-50d")?;
/// let word = sample.vectors.label(sample.queries[0]);
/// let near = sample.cosine.row(0).iter().map(|&id| sample.vectors.label(id as usize));
/// println!("{word:?}: {:?}", near.collect::<Vec<_>>());
/// # Ok::<(), chiplet_workload::dataset::DatasetError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GloveSample {
    /// The words' vectors, the word as label, the most frequent word first.
    pub vectors: VectorSet,
    /// Row numbers of the query words, ascending.
    pub queries: Vec<usize>,
    /// Row numbers of the 10 nearest by cosine, one row a query, nearest first. The query's own row counts
    /// and so comes first.
    pub cosine: IdRows,
    /// The same by Euclidean distance.
    pub l2: IdRows,
}

impl GloveSample {
    /// The sample's folder below `datasets/`.
    pub const FOLDER: &str = "glove-50d";

    /// Reads a folder that holds `vectors.fvecs`, `words.txt`, `queries.txt`, `neighbors-cosine.ivecs` and
    /// `neighbors-l2.ivecs`: the committed sample, or the full set once it was fetched.
    ///
    /// # Errors
    /// [`DatasetError`] if a file is missing or damaged, or if two of them do not match.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, DatasetError> {
        let folder = folder.as_ref();
        let vectors = words(folder)?;
        let queries = row_numbers(&folder.join("queries.txt"), vectors.len())?;
        let neighbors = |file| neighbors(&folder.join(file), queries.len(), vectors.len());
        let cosine = neighbors("neighbors-cosine.ivecs")?;
        let l2 = neighbors("neighbors-l2.ivecs")?;
        Ok(Self {
            vectors,
            queries,
            cosine,
            l2,
        })
    }
}

/// The folder's vectors, labelled.
pub(super) fn words(folder: &Path) -> Result<VectorSet, DatasetError> {
    let set = VectorSet::read(folder.join("vectors.fvecs"))?;
    let mut source = Source::open(&folder.join("words.txt"))?;
    // Split at newlines only: a word may hold any other character.
    let text = source.text()?;
    let labels: Vec<_> = text.split_terminator('\n').map(str::to_owned).collect();
    let (found, expected) = (labels.len(), set.len());
    set.with_labels(labels).map_err(|_| {
        source.malformed(
            source.at(),
            Problem::CountMismatch {
                found,
                expected,
                each: "the vectors",
            },
        )
    })
}

/// One row number a line, each below `rows`.
fn row_numbers(path: &Path, rows: usize) -> Result<Vec<usize>, DatasetError> {
    let mut source = Source::open(path)?;
    let text = source.text()?;
    let mut offset = 0;
    let mut numbers = Vec::new();
    for (index, line) in text.split_terminator('\n').enumerate() {
        let Ok(number) = line.parse::<u64>() else {
            let problem = Problem::NotARowNumber {
                line: index + 1,
                text: line.to_owned(),
            };
            return Err(source.malformed(offset, problem));
        };
        if number >= rows as u64 {
            return Err(source.malformed(offset, Problem::IdTooLarge { id: number, rows }));
        }
        numbers.push(number as usize);
        offset += line.len() as u64 + 1;
    }
    if numbers.is_empty() {
        return Err(source.malformed(0, Problem::Empty));
    }
    Ok(numbers)
}

/// Neighbours of `queries` queries among `rows` vectors.
fn neighbors(path: &Path, queries: usize, rows: usize) -> Result<IdRows, DatasetError> {
    let ids = IdRows::read(path)?;
    let malformed = |offset, problem| DatasetError::Malformed {
        path: path.to_owned(),
        offset,
        problem,
    };
    if ids.len() != queries {
        let (found, expected) = (ids.len(), queries);
        return Err(malformed(
            0,
            Problem::CountMismatch {
                found,
                expected,
                each: "the queries",
            },
        ));
    }
    for (row, near) in ids.rows().enumerate() {
        if let Some(column) = near.iter().position(|&id| id as usize >= rows) {
            let offset = 4 * (row * (ids.width() + 1) + 1 + column) as u64;
            return Err(malformed(
                offset,
                Problem::IdTooLarge {
                    id: near[column].into(),
                    rows,
                },
            ));
        }
    }
    Ok(ids)
}
