//! The paths and methods of the service, for what is said of others.

use std::sync::Arc;

use http::{Method, Uri};
use longshore_kernel::input::closest;

/// The methods, in the order in which they are named.
const ORDER: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// Where the operations of the API are; some callers leave it out.
const API: &str = "/api";

/// The operations of the service: the method and the path of each.
#[derive(Clone, Debug)]
pub struct Paths(Arc<[(Method, &'static str)]>);

impl Paths {
    /// These operations.
    #[must_use]
    pub fn new(operations: impl IntoIterator<Item = (Method, &'static str)>) -> Self {
        Self(operations.into_iter().collect())
    }

    /// Every method that an operation has. What can be read has `HEAD`, too.
    pub fn methods(&self) -> impl Iterator<Item = Method> {
        self.methods_of(|_| true)
    }

    /// The methods of the operations whose path is wanted, as `Allow` has them.
    #[must_use]
    pub fn allowed(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        self.methods_of(is_wanted).map(|method| method.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The methods of the operations whose path is wanted.
    fn methods_of(&self, is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Method> {
        let has =
            move |method: &Method| self.0.iter().any(|(known, path)| known == method && is_wanted(path));
        ORDER
            .into_iter()
            .filter(move |method| has(if *method == Method::HEAD { &Method::GET } else { method }))
    }

    /// The operation that a request to an unknown path meant, if one is near: `POST /api/product/list`.
    #[must_use]
    pub fn meant(&self, method: &Method, uri: &Uri) -> Option<String> {
        let path = uri.path().trim_end_matches('/');
        let given: Vec<&str> = path.split('/').skip(1).collect();
        let near = |operation: &(Method, &'static str)| {
            let whole = slips(&given, operation.1);
            let within = || Some(slips(&given, operation.1.strip_prefix(API)?)? + 1);
            whole.or_else(within)
        };
        self.0
            .iter()
            .filter_map(|operation| Some((near(operation)?, operation)))
            .min_by_key(|(slips, (known, _))| (*slips, known != method))
            .map(|(_, (method, path))| format!("{method} {path}"))
    }
}

/// How many segments of a path differ from those of an operation, if each is close to its own. Any id is that of a record.
fn slips(given: &[&str], path: &str) -> Option<usize> {
    let known: Vec<&str> = path.split('/').skip(1).collect();
    if given.len() != known.len() {
        return None;
    }
    given.iter().zip(known).try_fold(0, |slips, (given, known)| match known {
        _ if known.starts_with('{') || *given == known => Some(slips),
        _ => closest(given, std::iter::once(known)).map(|_| slips + 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_operation_is_meant_and_none_if_none_is_near() {
        let paths = Paths::new([
            (Method::GET, "/docs"),
            (Method::POST, "/api/product/list"),
            (Method::POST, "/api/product"),
            (Method::GET, "/api/product/{id}"),
            (Method::PUT, "/api/product/{id}"),
            (Method::PUT, "/api/product/{id}/activate"),
            (Method::POST, "/api/eshop-webhook/list"),
        ]);
        let meant = |method: Method, path: &'static str| paths.meant(&method, &Uri::from_static(path));
        for (method, path, expected) in [
            (Method::POST, "/api/products/list", "POST /api/product/list"),
            (Method::POST, "/api/product/list/", "POST /api/product/list"),
            (Method::POST, "/product/list", "POST /api/product/list"),
            (Method::POST, "/api/webhook/list", "POST /api/eshop-webhook/list"),
            (Method::PUT, "/api/products/7", "PUT /api/product/{id}"),
            (Method::GET, "/api/products/7", "GET /api/product/{id}"),
            (Method::DELETE, "/api/product/7/activat", "PUT /api/product/{id}/activate"),
            (Method::GET, "/docs/", "GET /docs"),
        ] {
            assert_eq!(meant(method, path).as_deref(), Some(expected), "{path}");
        }
        for path in ["/", "/api", "/api/nothing", "/nothing", "/api/product/7/8/9", "/wp-login.php"] {
            assert_eq!(meant(Method::GET, path), None, "{path}");
        }
        assert_eq!(
            paths.methods().collect::<Vec<_>>(),
            [Method::GET, Method::HEAD, Method::POST, Method::PUT]
        );
    }
}
