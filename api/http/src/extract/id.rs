//! Identifiers in paths: one ([`Id`]) or two ([`Ids`]).

use axum::extract::{FromRequestParts, MatchedPath};
use http::request::Parts;
use longshore_kernel::ids::parse_id;
use longshore_kernel::problem::{INVALID_ID, Problem};
use uuid::Uuid;

use super::Failure;
use super::segment::{nothing, params};

/// The only identifier of a path, of the kind that the handler says.
#[derive(Clone, Copy, Debug)]
pub struct Id<I = Uuid>(pub I);

/// The two identifiers of a path, in order.
#[derive(Clone, Copy, Debug)]
pub struct Ids<A, B>(pub A, pub B);

impl<S: Send + Sync, I: From<Uuid>> FromRequestParts<S> for Id<I> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let [id] = read(parts).await?;
        Ok(Self(id.into()))
    }
}

impl<S: Send + Sync, A: From<Uuid>, B: From<Uuid>> FromRequestParts<S> for Ids<A, B> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let [a, b] = read(parts).await?;
        Ok(Self(a.into(), b.into()))
    }
}

async fn read<const N: usize>(parts: &mut Parts) -> Result<[Uuid; N], Failure> {
    let params = match params(parts).await? {
        Ok(params) => params,
        Err(name) if is_among_the_first::<N>(parts, &name) => return Err(malformed(&name).into()),
        Err(name) => return Err(nothing(&name).into()),
    };
    let mut ids = [Uuid::nil(); N];
    let mut params = params.iter();
    for id in &mut ids {
        let (name, text) = params.next().unwrap_or(("id", ""));
        *id = parse_id(text).ok_or_else(|| malformed(name))?;
    }
    Ok(ids)
}

/// Whether a parameter is one of the identifiers; a name may follow them.
fn is_among_the_first<const N: usize>(parts: &Parts, name: &str) -> bool {
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let mut first = path.split('/').filter_map(|segment| segment.strip_prefix('{')).take(N);
    first.any(|param| param.strip_suffix('}') == Some(name))
}

fn malformed(name: &str) -> Problem {
    let detail = format!("{name} must be a UUID of 8-4-4-4-12 hexadecimal digits");
    Problem::new(&INVALID_ID, detail)
}
