//! A workload's tables for real: vectors and queries, for whoever builds the tables and asks them.

use chiplet_workload::dataset::{Clusters, VectorSet, about};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::{RecipeError, Table, Topics, Workload};

/// A table's vectors, and queries that are none of them.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The vectors.
    pub rows: VectorSet,
    /// The queries.
    pub queries: VectorSet,
}

impl Workload {
    /// Whether its tables can be built and asked for real.
    ///
    /// # Errors
    /// [`RecipeError::Value`] names what only the model has: tasks, clients and terms of a table's own, ranking models;
    /// or a table of less than two rows.
    pub fn check_real(&self) -> Result<(), RecipeError> {
        let wrong = |what, value: String, accepted| {
            Err(RecipeError::Value {
                what,
                value,
                accepted,
            })
        };
        if !self.asking.is_plain() {
            return wrong(
                "terms of tables",
                "asks, stalls, weight, queue_limit, home, class or deadline_ms".to_owned(),
                "none of them: they are modelled alone (chiplet-simulate)",
            );
        }
        for table in &self.tables {
            match *table {
                Table::Task { .. } => {
                    return wrong(
                        "kind",
                        "task".to_owned(),
                        "hnsw or ivf: tasks are modelled alone (chiplet-simulate)",
                    );
                }
                Table::Graph {
                    scoring: Some(_), ..
                } => {
                    return wrong(
                        "scoring",
                        "a ranking model".to_owned(),
                        "none: it is modelled, or measured by chiplet bench --modes --model ranking",
                    );
                }
                Table::Graph { rows, .. } | Table::Lists { rows, .. } if rows < 2 => {
                    return wrong("rows", rows.to_string(), "at least 2, or a larger --size");
                }
                Table::Graph { .. } | Table::Lists { .. } => {}
            }
        }
        Ok(())
    }

    /// Draws table `number` and the most of its different queries that `most` allows, some of them near the centres of
    /// [`Workload::topics`]. The same seed gives the same.
    ///
    /// # Panics
    /// If there is no such table, or [`Workload::check_real`] refuses it.
    pub fn draw(&self, number: usize, most: usize, seed: u64) -> Drawn {
        let table = &self.tables[number];
        let queries = self.queries.min(most);
        let centres = self.topics.map_or(0, |topics| topics.count as usize);
        let seed = seed ^ ((number as u64 + 1) << 20);
        let drawn = VectorSet::clusters(&Clusters {
            rows: table.rows() as usize + queries + centres,
            dim: table.dim() as usize,
            seed,
            ..Clusters::default()
        });
        let (rows, asked) = drawn.hold_out(queries + centres);
        let queries = match self.topics {
            None => asked,
            Some(topics) => of_topics(&asked, queries, topics, seed),
        };
        Drawn { rows, queries }
    }
}

/// The first `queries` of `drawn`, of which a part is about topics; the vectors after them are the topics' centres.
fn of_topics(drawn: &VectorSet, queries: usize, topics: Topics, seed: u64) -> VectorSet {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut values = Vec::with_capacity(queries * drawn.dim());
    for query in 0..queries {
        let own = drawn.row(query);
        let centre = queries + random.random_range(0..topics.count) as usize;
        match random.random_bool(topics.share) {
            true => values.extend(about(drawn.row(centre), own, topics.spread as f32)),
            false => values.extend_from_slice(own),
        }
    }
    VectorSet::new(values, drawn.dim()).expect("as many components as those drawn")
}

#[cfg(test)]
mod tests {
    use super::super::Recipe;
    use super::*;

    fn workload(text: &str) -> Workload {
        let text = format!("name='a'\n[[tables]]\ncount=2\n{text}");
        let recipe: Result<Recipe, _> = text.parse();
        recipe
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .workload(1)
    }

    #[test]
    fn what_only_the_model_has_is_named() {
        for (text, named) in [
            ("kind='task'\nmicros=5", "simulate"),
            ("kind='hnsw'\nrows=[50,50]\ndims=[8]\nweight=2.0", "weight"),
            (
                "kind='hnsw'\nrows=[50,50]\ndims=[8]\nscoring={candidates=10,feature_bytes=8,micros=1.0}",
                "ranking",
            ),
            ("kind='hnsw'\nrows=[1,1]\ndims=[8]", "--size"),
        ] {
            let error = workload(text).check_real().unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn queries_of_topics_are_nearer_each_other_than_others() {
        let anywhere = workload("kind='hnsw'\nrows=[50,50]\ndims=[64]");
        assert!(anywhere.check_real().is_ok());
        let near = Workload {
            topics: Some(Topics {
                share: 1.0,
                count: 1,
                spread: 0.2,
            }),
            ..anywhere.clone()
        };
        let far = |drawn: &Drawn| -> f32 {
            let pairs = drawn.queries.row(0).iter().zip(drawn.queries.row(1));
            pairs.map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let (anywhere, other) = (anywhere.draw(0, 10, 1), anywhere.draw(1, 10, 1));
        let near = near.draw(0, 10, 1);
        assert_eq!((near.rows.len(), near.queries.len()), (50, 10));
        assert!(far(&near) * 10.0 < far(&anywhere));
        assert_ne!(other.queries.row(0), anywhere.queries.row(0));
    }
}
