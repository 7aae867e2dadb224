//! Who may do what, in which scope, and what was done: access, tokens, organisations and their e-shops, the accounts of
//! people, audit.
//!
//! An account is an [`admin`] or a [`business_user`]; a [`login`] gives it a token that stands for it. What such a token
//! may do is read from the account whenever the [`token`] is looked up, so that a change of the account holds for the
//! tokens that are out.

pub mod access;
pub mod admin;
pub mod audit;
pub mod belonging;
pub mod business_user;
pub mod eshop;
pub mod login;
pub mod organisation;
pub mod password;
pub mod person;
pub mod token;
