//! The four letters that Faiss begins each index with, and what its users know that index as.

use crate::error::BuildError;

const OTHER: &str = "build it again as Flat, HNSW<m>,Flat or IVF<n> with Flat, SQ8, SQ4, SQfp16, SQbf16, PQ<m>, PQ<m>x4 or \
                     PQ<m>x4fs, and write that";
const BINARY: &str = "its vectors are bits and their distance counts those that differ; a table's vectors are of f32";
const LEGACY: &str =
    "it is in a form that Faiss has not written since 2018; read and write it with a newer Faiss";
const NO_STORAGE: &str = "it was written without a part of it; write the whole index";

/// What is read.
const READ: &[(&[u8; 4], &str)] = &[
    (b"IxF2", "IndexFlatL2"),
    (b"IxFI", "IndexFlatIP"),
    (b"IxFl", "IndexFlat"),
    (b"IHNf", "IndexHNSWFlat"),
    (b"IwFl", "IndexIVFFlat"),
    (b"IwSQ", "IndexIVFScalarQuantizer"),
    (b"IwSq", "IndexIVFScalarQuantizer"),
    (b"IwPQ", "IndexIVFPQ"),
    (b"IwPf", "IndexIVFPQFastScan"),
    (b"IxMp", "IndexIDMap"),
    (b"IxM2", "IndexIDMap2"),
    (b"IxPT", "IndexPreTransform"),
    (b"IxRF", "IndexRefine"),
];

/// What is not, and why or what to do.
const REFUSED: &[(&[u8; 4], &str, &str)] = &[
    (b"null", "null", NO_STORAGE),
    (b"IvFl", "IndexIVFFlat", LEGACY),
    (b"IvFL", "IndexIVFFlat", LEGACY),
    (b"IvSQ", "IndexIVFScalarQuantizer", LEGACY),
    (b"IvPQ", "IndexIVFPQ", LEGACY),
    (b"IvQR", "IndexIVFPQR", LEGACY),
    (b"IxHE", "IndexLSH", OTHER),
    (b"IxHe", "IndexLSH", OTHER),
    (b"IxPQ", "IndexPQ", OTHER),
    (b"IxPo", "IndexPQ", OTHER),
    (b"IxPq", "IndexPQ", OTHER),
    (b"IxSQ", "IndexScalarQuantizer", OTHER),
    (b"IxRQ", "IndexResidualQuantizer", OTHER),
    (b"IxRq", "IndexResidualQuantizer", OTHER),
    (b"IxLS", "IndexLocalSearchQuantizer", OTHER),
    (b"IxPR", "IndexProductResidualQuantizer", OTHER),
    (b"IxPL", "IndexProductLocalSearchQuantizer", OTHER),
    (b"IxLa", "IndexLattice", OTHER),
    (b"Ix2L", "Index2Layer", OTHER),
    (b"Ixrq", "IndexRaBitQ", OTHER),
    (b"Ixrr", "IndexRaBitQ", OTHER),
    (b"Irfs", "IndexRaBitQFastScan", OTHER),
    (b"Irfn", "IndexRaBitQFastScan", OTHER),
    (b"IxFP", "IndexFlatL2Panorama", OTHER),
    (b"IxFp", "IndexFlatIPPanorama", OTHER),
    (b"IxRP", "IndexRefinePanorama", OTHER),
    (b"IPfs", "IndexPQFastScan", OTHER),
    (b"ILfs", "IndexLocalSearchQuantizerFastScan", OTHER),
    (b"IRfs", "IndexResidualQuantizerFastScan", OTHER),
    (b"IPRf", "IndexProductResidualQuantizerFastScan", OTHER),
    (b"IPLf", "IndexProductLocalSearchQuantizerFastScan", OTHER),
    (b"ImRQ", "ResidualCoarseQuantizer", OTHER),
    (b"Imiq", "MultiIndexQuantizer", OTHER),
    (b"IwFd", "IndexIVFFlatDedup", OTHER),
    (b"IwPn", "IndexIVFFlatPanorama", OTHER),
    (b"IwP2", "IndexIVFFlatPanorama", OTHER),
    (b"IwSh", "IndexIVFSpectralHash", OTHER),
    (b"IwQR", "IndexIVFPQR", OTHER),
    (b"IwRQ", "IndexIVFResidualQuantizer", OTHER),
    (b"IwLS", "IndexIVFLocalSearchQuantizer", OTHER),
    (b"IwPR", "IndexIVFProductResidualQuantizer", OTHER),
    (b"IwPL", "IndexIVFProductLocalSearchQuantizer", OTHER),
    (b"IwIQ", "IndexIVFIndependentQuantizer", OTHER),
    (b"Iwrq", "IndexIVFRaBitQ", OTHER),
    (b"Iwrr", "IndexIVFRaBitQ", OTHER),
    (b"Iwrf", "IndexIVFRaBitQFastScan", OTHER),
    (b"Iwrn", "IndexIVFRaBitQFastScan", OTHER),
    (b"IVLf", "IndexIVFLocalSearchQuantizerFastScan", OTHER),
    (b"IVRf", "IndexIVFResidualQuantizerFastScan", OTHER),
    (b"NPRf", "IndexIVFProductResidualQuantizerFastScan", OTHER),
    (
        b"NPLf",
        "IndexIVFProductLocalSearchQuantizerFastScan",
        OTHER,
    ),
    (b"IHNp", "IndexHNSWPQ", OTHER),
    (b"IHNs", "IndexHNSWSQ", OTHER),
    (b"IHN2", "IndexHNSW2Level", OTHER),
    (b"IHNc", "IndexHNSWCagra", OTHER),
    (b"IHc2", "IndexHNSWCagra", OTHER),
    (b"IHfP", "IndexHNSWFlatPanorama", OTHER),
    (b"INSf", "IndexNSGFlat", OTHER),
    (b"INSp", "IndexNSGPQ", OTHER),
    (b"INSs", "IndexNSGSQ", OTHER),
    (b"INNf", "IndexNNDescentFlat", OTHER),
    (b"IRMf", "IndexRowwiseMinMax", OTHER),
    (b"IRMh", "IndexRowwiseMinMaxFP16", OTHER),
    (b"IBxF", "IndexBinaryFlat", BINARY),
    (b"IBwF", "IndexBinaryIVF", BINARY),
    (b"IBFf", "IndexBinaryFromFloat", BINARY),
    (b"IBHf", "IndexBinaryHNSW", BINARY),
    (b"IBHc", "IndexBinaryHNSWCagra", BINARY),
    (b"IBMp", "IndexBinaryIDMap", BINARY),
    (b"IBM2", "IndexBinaryIDMap2", BINARY),
    (b"IBHh", "IndexBinaryHash", BINARY),
    (b"IBHm", "IndexBinaryMultiHash", BINARY),
    (b"ISVD", "IndexSVSVamana", OTHER),
    (b"ILVQ", "IndexSVSVamanaLVQ", OTHER),
    (b"ISVL", "IndexSVSVamanaLeanVec", OTHER),
    (b"ISVF", "IndexSVSFlat", OTHER),
];

/// The class that begins with `letters`, if it is one that is read.
pub(super) fn class(letters: [u8; 4]) -> Option<&'static str> {
    READ.iter()
        .find(|(name, _)| **name == letters)
        .map(|&(_, class)| class)
}

/// The error that refuses the class that begins with `letters`, if it is one that Faiss has.
pub(super) fn refused(letters: [u8; 4]) -> Option<BuildError> {
    REFUSED
        .iter()
        .find(|(name, ..)| **name == letters)
        .map(|&(_, class, reason)| unsupported(class, reason))
}

/// The error that refuses a `kind` of index.
pub(super) fn unsupported(kind: impl Into<String>, reason: &'static str) -> BuildError {
    BuildError::UnsupportedIndex {
        kind: kind.into(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_letters_stand_for_two_classes() {
        let read = READ.iter().map(|(letters, _)| *letters);
        let refused = REFUSED.iter().map(|(letters, ..)| *letters);
        let all: Vec<_> = read.chain(refused).collect();
        let distinct: HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn classes_are_refused_by_name() {
        let told = refused(*b"IwQR").unwrap().to_string();
        assert!(
            told.contains("IndexIVFPQR") && told.contains("IVF<n>"),
            "{told}"
        );
        let told = refused(*b"IBxF").unwrap().to_string();
        assert!(
            told.contains("IndexBinaryFlat") && told.contains("bits"),
            "{told}"
        );
        assert_eq!(class(*b"IwFl"), Some("IndexIVFFlat"));
        assert!(class(*b"IwQR").is_none() && refused(*b"IwFl").is_none());
    }
}
