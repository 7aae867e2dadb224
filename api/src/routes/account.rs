//! Organisations and their e-shops, the accounts of people, logins and access tokens (specification, part 4).

pub mod admin;
pub mod admin_bulk;
pub mod audit;
pub mod business_user;
pub mod eshop;
pub mod login;
pub mod organisation;
pub mod read;
pub mod token;
