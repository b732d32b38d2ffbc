//! The rules of HTTP for the middlewares: what they ask of the core, and how it answers.

mod answer;
mod asked;
mod fields;
mod guard;
mod rules;

pub(crate) use answer::HttpAnswer;
pub(crate) use asked::{HttpAsked, begin_admit, begin_keep};
pub(crate) use rules::HttpRules;
