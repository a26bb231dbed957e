//! What the codes of inverted lists mean, by their class.

use super::header::{Header, finite, flag};
use super::names;
use crate::error::BuildError;
use crate::foreign::Source;
use crate::ivf::{CodeKind, Codes};

/// What Faiss calls scalar quantizers, by number.
const QUANTIZERS: [&str; 9] = [
    "QT_8bit",
    "QT_4bit",
    "QT_8bit_uniform",
    "QT_4bit_uniform",
    "QT_fp16",
    "QT_8bit_direct",
    "QT_6bit",
    "QT_bf16",
    "QT_8bit_direct_signed",
];

/// Codes, and whether they lie in blocks.
pub(super) struct Described {
    pub(super) codes: Codes,
    pub(super) fast_scan: bool,
}

/// Reads what stands between the header and the lists of the index that begins with `letters`.
pub(super) fn described(
    source: &mut Source<'_>,
    letters: [u8; 4],
    header: &Header,
) -> Result<Described, BuildError> {
    let plain = |codes| Described {
        codes,
        fast_scan: false,
    };
    Ok(match &letters {
        b"IwSq" | b"IwSQ" => plain(scalar(source, letters, header)?),
        b"IwPQ" => {
            let by_residual = flag(source, "whether codes are of residuals")?;
            let bytes = size(source)?;
            plain(product(source, header, by_residual, bytes)?)
        }
        b"IwPf" => {
            let by_residual = flag(source, "whether codes are of residuals")?;
            let bytes = size(source)?;
            let _rows_of_a_block = source.i32()?;
            let _even_parts = source.u64()?;
            let _implementation = source.i32()?;
            let _batches = source.u64()?;
            Described {
                codes: product(source, header, by_residual, bytes)?,
                fast_scan: true,
            }
        }
        _ => plain(Codes {
            kind: CodeKind::F32,
            by_residual: false,
            bytes: header.dim * size_of::<f32>(),
        }),
    })
}

/// Bytes of a code.
fn size(source: &mut Source<'_>) -> Result<usize, BuildError> {
    let bytes = source.u64()?;
    // No code of a row is longer than its components as f64.
    source.expect(bytes <= 8 * crate::rows::MAX_DIM as u64, || {
        format!("its codes would have {bytes} bytes each; it is damaged")
    })?;
    Ok(bytes as usize)
}

fn scalar(source: &mut Source<'_>, letters: [u8; 4], header: &Header) -> Result<Codes, BuildError> {
    let kind = source.i32()?;
    let _range = source.i32()?;
    let _range_argument: [u8; 4] = source.array()?;
    let dim = source.u64()?;
    let code_bytes = size(source)?;
    let values = finite(source, "ranges of codes")?;
    let bytes = size(source)?;
    let by_residual = match &letters {
        b"IwSQ" => true,
        _ => flag(source, "whether codes are of residuals")?,
    };
    source.expect(dim == header.dim as u64 && code_bytes == bytes, || {
        format!(
            "its codes are of {dim} components in {code_bytes} bytes, its rows of {} in {bytes}; it is damaged",
            header.dim
        )
    })?;
    let kind = match kind {
        0 => CodeKind::Ranges { bits: 8, values },
        1 => CodeKind::Ranges { bits: 4, values },
        4 => CodeKind::F16,
        7 => CodeKind::Bf16,
        _ => {
            let name = usize::try_from(kind).ok();
            let name = name.and_then(|kind| QUANTIZERS.get(kind));
            let name = name.map_or_else(|| kind.to_string(), |name| (*name).to_owned());
            return Err(names::unsupported(
                format!("{} of codes {name}", header.class),
                "of scalar quantizers QT_8bit, QT_4bit, QT_fp16 and QT_bf16 are read; build it with SQ8, SQ4, SQfp16 or SQbf16",
            ));
        }
    };
    Ok(Codes {
        kind,
        by_residual,
        bytes,
    })
}

fn product(
    source: &mut Source<'_>,
    header: &Header,
    by_residual: bool,
    bytes: usize,
) -> Result<Codes, BuildError> {
    let [dim, parts, bits] = [source.u64()?, source.u64()?, source.u64()?];
    source.expect(dim == header.dim as u64, || {
        format!(
            "its codes are of {dim} components, its rows of {}; it is damaged",
            header.dim
        )
    })?;
    if !matches!(bits, 4 | 8) {
        return Err(names::unsupported(
            format!("{} of {bits} bits a code", header.class),
            "product quantizers of 8 and of 4 bits are read; build it with PQ<m>, PQ<m>x4 or PQ<m>x4fs",
        ));
    }
    let centroids = finite(source, "centroids of parts")?;
    Ok(Codes {
        kind: CodeKind::Product {
            m: usize::try_from(parts).unwrap_or(usize::MAX),
            bits: bits as usize,
            centroids,
        },
        by_residual,
        bytes,
    })
}
