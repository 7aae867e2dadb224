//! Query parameters.

use http::Uri;
use longshore_kernel::problem::Problem;
use url::form_urlencoded;

/// Passes each parameter on; refuses those that have none of these names.
///
/// # Errors
/// Those of a name that the operation does not take, and of `take`.
pub fn each(
    uri: &Uri,
    names: &[&str],
    mut take: impl FnMut(&str, &str) -> Result<(), Problem>,
) -> Result<(), Problem> {
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if !names.contains(&&*name) {
            let message =
                format!("is not a query parameter of this operation; it takes {}", names.join(", "));
            return Err(Problem::violation(name, "unknown_field", message));
        }
        take(&name, &value)?;
    }
    Ok(())
}

/// Reads an integer.
///
/// # Errors
/// It is none, or out of the range.
pub fn integer(name: &str, value: &str, lowest: u64, highest: u64, unit: &str) -> Result<u64, Problem> {
    let number = value.parse().ok().filter(|number| (lowest..=highest).contains(number));
    let message = || format!("must be an integer between {lowest} and {highest}{unit}");
    number.ok_or_else(|| Problem::violation(name, "out_of_range", message()))
}
