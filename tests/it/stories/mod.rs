//! Whole stories from the field, told through the client.

mod conflicts;
mod cut_answers;
mod lost_answers;
mod stacks;
mod uploads;
