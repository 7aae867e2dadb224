//! The list language and the look-up of records (`docs/reference/lists.md#request`).

mod csv;
mod cursor;
pub(crate) mod fixture;
mod nested;
mod operators;
mod pages;
mod paths;
mod property;
mod records;
mod refusals;
mod scope;
mod stream;
