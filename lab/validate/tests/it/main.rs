//! Tests of the comparisons, in one program.

mod replay;
mod small;
