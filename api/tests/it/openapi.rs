//! The document of the interface against the router, the rules and the answers (style: coverage tests).

mod access;
mod bounds;
mod document;
mod examples;
mod sample;
mod tables;
mod written_back;
