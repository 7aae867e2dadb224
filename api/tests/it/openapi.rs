//! The API document compared with the router, the rules and the answers.

mod access;
mod bounds;
mod deleted;
mod document;
mod examples;
mod references;
mod sample;
mod tables;
mod written_back;
