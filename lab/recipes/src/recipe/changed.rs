//! A workload with something changed: what a command line or a sweep sets beside the file.

use chiplet_index::RowFormat;

use super::{Kind, Recipe, of_lists};
use crate::{RecipeError, Scoring, Topics};

impl Recipe {
    /// The same with other skews over tables and queries, where one is given.
    #[must_use]
    pub fn skewed(mut self, tables: Option<f64>, queries: Option<f64>) -> Self {
        self.table_skew = tables.unwrap_or(self.table_skew);
        self.query_skew = queries.unwrap_or(self.query_skew);
        self
    }

    /// The same with these topics, where any are given.
    #[must_use]
    pub fn about(mut self, topics: Option<Topics>) -> Self {
        self.topics = topics.or(self.topics);
        self
    }

    /// The same with this part of all queries going to one table.
    #[must_use]
    pub fn hot(mut self, share: f64) -> Self {
        self.hot_share = share;
        self
    }

    /// The same with every table's rows times `factor`.
    #[must_use]
    pub fn resized(mut self, factor: f64) -> Self {
        for tables in &mut self.tables {
            tables.rows = tables
                .rows
                .map(|rows| ((rows as f64 * factor) as u64).max(1));
        }
        self
    }

    /// The same with `count` tables of each kind.
    #[must_use]
    pub fn counting(mut self, count: usize) -> Self {
        for tables in &mut self.tables {
            tables.count = count;
        }
        self
    }

    /// The same with rows kept in these formats, where one is given: `rows_as` in all tables, `rerank` as the second
    /// copy of all graphs.
    ///
    /// # Errors
    /// [`RecipeError::Value`] if `rerank` is no format to re-rank with, or rows of `sq4`, `sq2` or `sq1` have none, or
    /// there is no graph.
    pub fn kept(
        mut self,
        rows_as: Option<RowFormat>,
        rerank: Option<RowFormat>,
    ) -> Result<Self, RecipeError> {
        for tables in &mut self.tables {
            tables.rows_as = rows_as.unwrap_or(tables.rows_as);
            if tables.kind == Kind::Hnsw {
                tables.rerank = rerank.or(tables.rerank);
            }
        }
        if let Some(format) = rerank
            && self.tables.iter().all(|tables| tables.kind == Kind::Ivf)
        {
            return Err(of_lists(format));
        }
        self.check()?;
        Ok(self)
    }

    /// The same with a ranking model after each search of a graph, whose `ef` is at least its candidates.
    ///
    /// # Errors
    /// [`RecipeError::Value`] if there are tables of another kind, or graphs that re-rank.
    pub fn scored(mut self, scoring: Scoring) -> Result<Self, RecipeError> {
        for tables in &mut self.tables {
            tables.scoring = Some(scoring);
            tables.ef = tables.ef.max(Some(scoring.candidates));
        }
        self.check()?;
        Ok(self)
    }
}
