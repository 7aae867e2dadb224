//! The document of the interface against the router, the rules and the answers (style: coverage tests).

mod document;
