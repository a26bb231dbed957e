//! The queue in made-up time: in which order it serves, who gets how much, and how long bulk work gives way.

mod ahead;
mod classes;
mod closed;
mod pieces;
mod served;
mod shares;
mod simulation;
