//! The workloads of arXiv 2605.10090, as far as it tells them.
//!
//! It names 60 HNSW tables of 1 to 10 M rows (M = 32, recall 99 %) and 15 IVF tables of 10 K to 15 M rows (128 to 8,192
//! lists, recall 95 %), of 64 to 256 components, k 100 to 500. It does not tell how these are distributed, nor how
//! skewed and how local traffic is. Taken here: rows evenly in their logarithm; k and components evenly among the
//! values of [`super::Recipe`]; `ef` 1.5 k; a 64th of the lists visited, at least 8; Zipf 0.8 over tables and over
//! queries.

pub(super) const HNSW: &str = r#"
name = "paper-hnsw"
table_skew = 0.8
query_skew = 0.8

[[tables]]
kind = "hnsw"
count = 60
rows = [1_000_000, 10_000_000]
dims = [64, 96, 128, 192, 256]
k = [100, 200, 500]
m = 32
"#;

pub(super) const IVF: &str = r#"
name = "paper-ivf"
table_skew = 0.8
query_skew = 0.8

[[tables]]
kind = "ivf"
count = 15
rows = [10_000, 15_000_000]
dims = [64, 96, 128, 192, 256]
"#;
