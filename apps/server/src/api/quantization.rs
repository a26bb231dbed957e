//! Quantisation as the API has it: which settings mean something here, what a search may say of it, and what is
//! refused.

use qdrant_client::qdrant::quantization_config::Quantization as Kind;
use qdrant_client::qdrant::{
    Memory, QuantizationConfig, QuantizationSearchParams, QuantizationType, ScalarQuantization,
    TurboQuantBitSize, TurboQuantization,
};
use tonic::Status;

use super::refusal::{invalid, unless_absent, unsupported};
use crate::collection::refined::candidates;
use crate::collection::schema::Quantization;

/// What a collection's setting asks for; the vectors' own goes before the collection's.
pub(super) fn read(
    common: Option<QuantizationConfig>,
    own: Option<QuantizationConfig>,
) -> Result<Option<Quantization>, Status> {
    let Some(config) = own.or(common) else {
        return Ok(None);
    };
    let (quantization, memory) = match config.quantization {
        Some(Kind::Scalar(scalar)) => (eight_bits(&scalar)?, scalar.memory),
        Some(Kind::Turboquant(turbo)) => (four_bits(&turbo)?, turbo.memory),
        Some(Kind::Product(_)) => {
            return Err(unsupported(
                "product quantization of graphs; say chiplet.index = ivf and chiplet.code = PQ<parts>, or use scalar int8 or \
                 TurboQuant of 4 bits",
            ));
        }
        Some(Kind::Binary(_)) => {
            return Err(unsupported(
                "binary quantization; use TurboQuant of 4 bits, or scalar int8",
            ));
        }
        None => return Err(invalid("quantization_config says no kind of quantization")),
    };
    unless_absent(&[(
        memory == Some(Memory::Cold as i32),
        "quantized vectors on disk",
    )])?;
    Ok(Some(quantization))
}

fn eight_bits(scalar: &ScalarQuantization) -> Result<Quantization, Status> {
    if scalar.r#type != QuantizationType::Int8 as i32 {
        return Err(invalid("quantization_config.scalar.type is not Int8"));
    }
    let quantile = scalar.quantile;
    if quantile.is_some_and(|quantile| !(0.5..=1.0).contains(&quantile)) {
        return Err(invalid(
            "quantization_config.scalar.quantile must be 0.5 to 1",
        ));
    }
    Ok(Quantization::Int8 { quantile })
}

fn four_bits(turbo: &TurboQuantization) -> Result<Quantization, Status> {
    // Four is what the API has it to be where nothing is said.
    let bits = turbo.bits.map_or(Ok(TurboQuantBitSize::Bits4), |bits| {
        TurboQuantBitSize::try_from(bits)
    });
    match bits {
        Ok(TurboQuantBitSize::Bits4) => Ok(Quantization::Turbo4),
        Ok(TurboQuantBitSize::Bits8) => Err(unsupported(
            "TurboQuant of 8 bits; use scalar int8, or 4 bits",
        )),
        Ok(TurboQuantBitSize::Bits1 | TurboQuantBitSize::Bits15 | TurboQuantBitSize::Bits2) => {
            Err(unsupported("TurboQuant of fewer than 4 bits; use 4 bits"))
        }
        Err(_) => Err(invalid("quantization_config.turboquant.bits is no size")),
    }
}

/// The setting as the API shows it.
pub(super) fn describe(quantization: Quantization) -> QuantizationConfig {
    let kind = match quantization {
        Quantization::Int8 { quantile } => Kind::Scalar(ScalarQuantization {
            r#type: QuantizationType::Int8.into(),
            quantile,
            ..ScalarQuantization::default()
        }),
        Quantization::Turbo4 => Kind::Turboquant(TurboQuantization {
            bits: Some(TurboQuantBitSize::Bits4.into()),
            ..TurboQuantization::default()
        }),
    };
    QuantizationConfig {
        quantization: Some(kind),
    }
}

/// Checks what a search for `results` points says of codes: every such search compares candidates with the vectors, and
/// how many is fixed. Where there are no codes (`coded`), it makes no difference.
pub(super) fn check_search(
    params: Option<QuantizationSearchParams>,
    coded: bool,
    results: usize,
) -> Result<(), Status> {
    let Some(params) = params else {
        return Ok(());
    };
    let factor = params.oversampling.unwrap_or(1.0);
    if factor.is_nan() || factor < 1.0 {
        return Err(invalid("quantization.oversampling must be at least 1"));
    }
    if !coded {
        return Ok(());
    }
    unless_absent(&[
        (
            params.ignore == Some(true),
            "quantization.ignore: the index has codes only; ask with exact",
        ),
        (
            params.rescore == Some(false),
            "quantization.rescore = false: candidates are always compared with the vectors",
        ),
    ])?;
    let compared = candidates(results);
    if factor * results as f64 > compared as f64 {
        return Err(unsupported(&format!(
            "quantization.oversampling of {factor}: for {results} results {compared} points are compared; ask with a larger limit",
        )));
    }
    Ok(())
}
