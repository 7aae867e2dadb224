//! Organisations and their e-shops, the accounts of people, logins and access tokens (`docs/reference/accounts.md#tokens`).

#[expect(clippy::module_inception, reason = "the resource bears the name of its room")]
pub mod account;
pub mod admin;
pub mod admin_bulk;
pub mod audit;
pub mod business_user;
pub mod login;
pub mod session;
pub mod token;
