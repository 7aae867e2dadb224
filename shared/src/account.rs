//! Who may do what, in which scope, and what was done: access, tokens, organisations and their e-shops, audit.

pub mod access;
pub mod belonging;
pub mod eshop;
pub mod organisation;
pub mod token;
