//! The repository's word vectors.

/// Components of a word's vector.
pub const WORD_DIM: usize = 50;

/// The vectors of every `step`th word of the sample, from the `first` one on, row after row.
pub fn words(first: usize, step: usize) -> Vec<f32> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/datasets/glove-50d/vectors.fvecs"
    );
    let bytes = std::fs::read(path).expect("the sample is part of the repository");
    // Four bytes of each say how many components follow.
    let vectors = bytes.chunks_exact(4 + 4 * WORD_DIM).skip(first);
    vectors
        .step_by(step)
        .flat_map(|vector| vector[4..].as_chunks().0)
        .map(|component| f32::from_le_bytes(*component))
        .collect()
}
