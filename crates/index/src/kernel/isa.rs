//! What a level must offer: sixteen lanes of `f32`, whatever registers they take.

/// Sixteen `f32` lanes. All functions are inlined into one that is compiled for the level's instructions.
///
/// # Safety
/// For callers: the processor must have the level's instructions ("Detected").
pub(super) trait Isa: Copy {
    /// Sixteen lanes.
    type V: Copy;

    unsafe fn zero() -> Self::V;

    /// Sixteen values at `from`.
    unsafe fn f32s(from: *const f32) -> Self::V;
    /// The first `count < 16` values at `from`, then zeros. Reads nothing beyond them.
    unsafe fn f32s_part(from: *const f32, count: usize) -> Self::V;

    /// Sixteen half-precision values (IEEE 754 binary16).
    unsafe fn f16s(from: *const u16) -> Self::V;
    unsafe fn f16s_part(from: *const u16, count: usize) -> Self::V;

    /// Sixteen bfloat16 values: the upper halves of `f32`.
    unsafe fn bf16s(from: *const u16) -> Self::V;
    unsafe fn bf16s_part(from: *const u16, count: usize) -> Self::V;

    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The sum of all lanes: lanes `i` and `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
    unsafe fn sum(lanes: Self::V) -> f32;
    /// Four such sums.
    unsafe fn sum4(lanes: [Self::V; 4]) -> [f32; 4];
}

/// `[f(x[0]), .., f(x[3])]`. `array::map` is a function of its own, compiled without the level's instructions.
macro_rules! each {
    ($four:ident, $f:path) => {
        [$f($four[0]), $f($four[1]), $f($four[2]), $f($four[3])]
    };
}
pub(super) use each;
