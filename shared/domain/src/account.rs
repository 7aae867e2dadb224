//! Access: tokens and sessions, organisations and their e-shops, the accounts of people; and the audit.
//!
//! An account is an [`admin`] or a [`business_user`]. A [`login`] opens a [`session`] with a token for the account. Its role and
//! scope are read from the account at each look-up of the [`token`], so a change of the account applies to existing tokens.

pub mod admin;
pub mod audit;
pub mod belonging;
pub mod business_user;
pub mod eshop;
pub mod login;
pub mod organisation;
pub mod own;
pub mod password;
pub mod person;
pub mod proof;
pub mod second_factor;
pub mod session;
pub mod token;
pub mod visitor;
