//! Black-box tests of the policy crate, one module a concern; `PROPTEST_CASES` sets how many cases each
//! property is tried with (256 if unset, fewer for long runs). `make properties` tries 10,000.

mod causes;
mod common;
mod distance;
mod mapper;
mod memory;
mod movement;
mod optimum;
mod oscillation;
mod placement;
mod planner;
mod replicas;
mod resize;
mod several_homes;
mod split;
mod steal;
mod time;
mod trigger;
mod waits;
mod windows;
