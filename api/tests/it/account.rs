//! `/api/organisation` and `/api/eshop` (specification, part 2; decisions, section 4).

mod eshop;
mod organisation;
