//! BaseLinker's API, as documented: requests, answers, and the limit of requests.
//!
//! One endpoint takes every method by `POST`, as a form of `method` and `parameters` (JSON), with the token in a header.
//! Errors come back as HTTP 200 with `status: "ERROR"`. This module is pure, or uses Postgres and Redis; the worker makes
//! the calls.
//!
//! - [`answer`] reads answers item by item: a broken item is refused alone;
//! - [`product`] converts products to rows of a product sync, with kilograms in grams and centimetres in millimetres
//!   without a float;
//! - [`window`] is the limit of requests, shared by every worker; [`release`] reads when the block of a token ends.

pub mod answer;
pub mod product;
pub mod release;
pub mod window;

use std::fmt;

use longshore_kernel::crypto::sha256;

/// Where it is, unless a setting says otherwise.
pub const ENDPOINT: &str = "https://api.baselinker.com/connector.php";

/// The header that holds the token.
pub const TOKEN_HEADER: &str = "x-bltoken";

/// Products on a full page of `getInventoryProductsList`: a page with fewer is the last one.
pub const PAGE: usize = 1_000;

/// Products whose stock one `updateInventoryProductsStock` sets at most.
pub const STOCKS_PER_CALL: usize = 1_000;

/// A token as Redis and Postgres know it: by its hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(sha256(format!("baselinker {token}").as_bytes()))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({})", hex::encode(&self.0[..4]))
    }
}
