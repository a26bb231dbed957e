//! The queries that are recorded: some drawn anywhere, then those of topics.

use chiplet_workload::dataset::about;

use crate::workload::Topics;

/// Vectors that have to be drawn for them.
pub(super) fn to_draw(queries: usize, topics: Option<Topics>) -> usize {
    let of = |topics: Topics| topics.count as usize + topics.queries();
    queries + topics.map_or(0, of)
}

/// The queries, made of [`to_draw`] vectors; those of a topic as [`about`] makes them.
pub(super) fn recorded(
    vectors: &[f32],
    dim: usize,
    queries: usize,
    topics: Option<Topics>,
) -> Vec<f32> {
    let (anywhere, rest) = vectors.split_at(queries * dim);
    let mut all = anywhere.to_vec();
    let Some(topics) = topics else {
        return all;
    };
    let (centres, others) = rest.split_at(topics.count as usize * dim);
    let spread = topics.spread as f32;
    let of_topics = centres
        .chunks(dim)
        .zip(others.chunks(topics.of_each() * dim));
    for (centre, others) in of_topics {
        for other in others.chunks(dim) {
            all.extend(about(centre, other, spread));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_a_topic_are_near_each_other_and_others_are_not() {
        let topics = Topics {
            share: 1.0,
            count: 2,
            spread: 0.1,
        };
        let count = to_draw(5, Some(topics));
        // Along 24 axes, so that any two are as far from each other.
        let axes = |at: usize| (0..24).map(move |axis| f32::from(u8::from(at % 24 == axis)));
        let vectors: Vec<f32> = (0..count).flat_map(axes).collect();
        let all = recorded(&vectors, 24, 5, Some(topics));
        assert_eq!(all.len(), (5 + topics.queries()) * 24);
        assert_eq!(all[..5 * 24], vectors[..5 * 24]);
        let far = |a: usize, b: usize| -> f32 {
            let [a, b] = [a, b].map(|at| &all[at * 24..][..24]);
            let sum: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
            sum.sqrt()
        };
        assert!((far(0, 1) - 1.414).abs() < 0.001);
        assert!((far(6, 7) - 0.1414).abs() < 0.001);
        assert!(far(6, 5 + topics.of_each()) > 1.0);
    }
}
