//! Different queries about the same: locality of rows, which repeated queries only stand in for.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::RecipeError;

/// Part of a table's queries lie near a few centres. Over the seconds of a run the centres stand still.
///
/// ```
/// use chiplet_sim::Topics;
///
/// let topics: Topics = "0.8,16,0.3".parse()?;
/// assert_eq!((topics.share, topics.count, topics.spread), (0.8, 16, 0.3));
/// # Ok::<(), chiplet_sim::RecipeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// The part of a table's queries that are about a topic, 0 to 1. The others are drawn anywhere.
    pub share: f64,
    /// Topics of each table, asked alike; 1 to 64.
    pub count: u32,
    /// How far two queries of a topic are from each other, as a part of the distance of two that are drawn anywhere: 0
    /// (the same query) to 1.
    pub spread: f64,
}

impl Topics {
    /// Different queries of each topic that are recorded: of few topics more, so that they are seldom the same.
    pub(crate) fn of_each(&self) -> usize {
        (4_096 / self.count as usize).clamp(64, 1_024)
    }

    /// Queries that are recorded of all topics.
    pub(crate) fn queries(&self) -> usize {
        self.count as usize * self.of_each()
    }

    pub(crate) fn check(&self) -> Result<(), RecipeError> {
        let part = |part: f64| (0.0..=1.0).contains(&part);
        if part(self.share) && part(self.spread) && (1..=64).contains(&self.count) {
            return Ok(());
        }
        Err(RecipeError::Value {
            what: "topics",
            value: format!("{},{},{}", self.share, self.count, self.spread),
            accepted: "SHARE,COUNT,SPREAD: a part from 0 to 1, 1 to 64 topics, a part from 0 to 1",
        })
    }
}

impl FromStr for Topics {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        let mut parts = text.split(',');
        let mut next = || parts.next().unwrap_or_default().trim();
        let (share, count, spread) = (next().parse(), next().parse(), next().parse());
        let read = match (share, count, spread, parts.next()) {
            (Ok(share), Ok(count), Ok(spread), None) => Some(Self {
                share,
                count,
                spread,
            }),
            _ => None,
        };
        let topics = read.ok_or_else(|| RecipeError::Value {
            what: "topics",
            value: text.to_owned(),
            accepted: "SHARE,COUNT,SPREAD, as 0.8,16,0.3",
        })?;
        topics.check()?;
        Ok(topics)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{Prepared, Recipe, Sampling};
    use super::*;

    #[test]
    fn what_is_no_topics_is_refused() {
        for text in [
            "",
            "0.5",
            "0.5,8",
            "0.5,8,0.3,1",
            "1.1,8,0.3",
            "0.5,0,0.3",
            "0.5,65,0.3",
            "0.5,8,-1",
            "nan,8,0.3",
            "0.5,8,x",
        ] {
            let error = text.parse::<Topics>().unwrap_err().to_string();
            assert!(error.contains("SHARE,COUNT,SPREAD"), "{text}: {error}");
        }
    }

    #[test]
    fn so_many_queries_are_about_a_topic_and_end_in_its_tile() {
        let recipe: Recipe = "name = 'two'\nqueries = 100_000\n\
            topics = { share = 0.75, count = 4, spread = 0.2 }\n\
            [[tables]]\nkind = 'hnsw'\ncount = 2\nrows = [100_000, 100_000]\ndims = [64]\n"
            .parse()
            .unwrap();
        let sampling = Sampling {
            queries: 20,
            rows: 1_024,
            ..Sampling::default()
        };
        let topics = recipe.workload(1).topics.unwrap();
        let prepared = Prepared::new(recipe.workload(1), sampling, |_| {});
        let aims: Vec<_> = (0..10_000).map(|query| prepared.aim(1, query)).collect();
        let about: Vec<_> = aims.iter().filter(|aim| aim.query >= 20).collect();
        assert!((7_300..7_700).contains(&about.len()), "{}", about.len());
        let ends: BTreeSet<_> = about
            .iter()
            .map(|aim| ((aim.query - 20) / topics.of_each(), aim.tile))
            .collect();
        assert_eq!(ends.len(), 4, "{ends:?}");
        let of_topics: BTreeSet<usize> = about.iter().map(|aim| aim.query).collect();
        assert!(of_topics.len() > 3_000, "{}", of_topics.len());
        // Another table's topics end elsewhere.
        let other = (0..10_000).map(|query| prepared.aim(0, query));
        let other: BTreeSet<_> = other
            .filter(|aim| aim.query >= 20)
            .map(|aim| aim.tile)
            .collect();
        assert!(ends.iter().all(|(_, tile)| !other.contains(tile)));
    }
}
