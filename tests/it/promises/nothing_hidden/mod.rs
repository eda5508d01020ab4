//! Nothing is hidden: what happened to every attempt, and in which words errors say it.

mod attempts;
mod debug;
mod failures;
mod messages;
mod predicates;
