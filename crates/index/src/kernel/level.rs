//! Which vector instructions are used: the widest that the processor has, chosen once.

use std::io::Write as _;
use std::sync::OnceLock;

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// What the compiler makes of plain loops: SSE2 on x86-64, NEON on aarch64.
    Portable,
    /// AVX2, FMA and F16C: Intel since Haswell (2013), AMD since Zen 1 (2017).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, VL and VNNI: Intel since Ice Lake (2019), AMD since Zen 4 (2022).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The levels that this processor has, narrowest first.
    pub(crate) fn available() -> Vec<Self> {
        #[cfg_attr(
            not(target_arch = "x86_64"),
            expect(unused_mut, reason = "there are no others")
        )]
        let mut levels = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
            {
                levels.push(Self::Avx2);
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
                {
                    levels.push(Self::Avx512);
                }
            }
        }
        levels
    }

    /// As the environment variable `CHIPLET_SIMD` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
        }
    }
}

/// The level in use: the widest there is, or the one that the environment variable `CHIPLET_SIMD` names, if the
/// processor has it; if not, standard error says so.
pub(crate) fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| {
        let levels = Level::available();
        let widest = levels[levels.len() - 1];
        let Some(asked) = std::env::var_os("CHIPLET_SIMD") else {
            return widest;
        };
        let found = levels.iter().find(|level| asked == level.name());
        found.copied().unwrap_or_else(|| {
            // Who sets it compares ways to compute, and would take one for another.
            let names: Vec<_> = levels.iter().map(|level| level.name()).collect();
            // Nobody may listen.
            let _ = writeln!(
                std::io::stderr(),
                "chiplet: CHIPLET_SIMD is {asked:?}; this processor has {}. {} is used.",
                names.join(", "),
                widest.name()
            );
            widest
        })
    })
}
