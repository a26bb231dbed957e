//! Different queries about the same: locality of rows, which repeated queries only stand in for.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::RecipeError;

/// Part of a table's queries lie near a few centres. Over the seconds of a run the centres stand still.
///
/// ```
/// use chiplet_recipes::Topics;
///
/// let topics: Topics = "0.8,16,0.3".parse()?;
/// assert_eq!((topics.share, topics.count, topics.spread), (0.8, 16, 0.3));
/// # Ok::<(), chiplet_recipes::RecipeError>(())
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
    pub fn of_each(&self) -> usize {
        (4_096 / self.count as usize).clamp(64, 1_024)
    }

    /// Queries that are recorded of all topics.
    pub fn queries(&self) -> usize {
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
}
