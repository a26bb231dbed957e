//! chiplet
