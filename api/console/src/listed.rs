//! Lists of the API as pages of the console: newest first, or oldest first, page after page.

use longshore_domain::list::resource::Resource;
use longshore_domain::list::{self, Request};
use longshore_kernel::problem::Problem;
use maud::Markup;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::form::{Asked, OF_PAGE};
use super::piece::{Way, is_oldest_first, pager_to, size};
use super::visit::Visit;

/// Records of a page, if its search does not say how many.
const PAGE: usize = 50;

/// A page of a list; `L` is what it needs of a record.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed<L> {
    pub(crate) results: Vec<L>,
    pub(crate) paging: Paging,
}

/// A related record; without a name, where the visitor may not see it.
#[derive(Debug, Deserialize)]
pub(crate) struct Related<I> {
    pub(crate) id: I,
    pub(crate) name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Paging {
    pub(crate) total: i64,
    #[serde(default)]
    pub(crate) total_at_least: bool,
    next: Option<String>,
}

/// The page that a search form asks for, of these fields of the records that match.
pub(crate) fn wanted(
    asked: &Asked,
    resource: &'static Resource,
    select: &[&str],
    criteria: &Value,
) -> Result<Request, Problem> {
    let order = if is_oldest_first(asked)? { "ASC" } else { "DESC" };
    let mut body = json!({
        "criteria": criteria, "sort": [{"field": "createdAt", "order": order}], "select": select,
        "limit": size(asked)?.unwrap_or(PAGE), "count": "bounded", "nested": true,
    });
    if let Some(after) = asked.get("after") {
        body["after"] = after.into();
    }
    Request::read(resource, Some(body))
}

impl<L: DeserializeOwned> Listed<L> {
    /// What is found in the scope of the visitor.
    pub(crate) async fn find<P>(visit: &Visit<P>, wanted: &Request) -> Result<Self, Problem> {
        let page = list::page(visit.services(), visit.scope(), wanted).await?;
        serde_json::from_str(&page).map_err(Problem::internal)
    }
}

impl<L> Listed<L> {
    /// The links below the page.
    pub(crate) fn pages<P>(&self, visit: &Visit<P>, here: &str) -> Markup {
        let asked = &visit.asked;
        let first = asked.get("after").map(|_| asked.address(here, &OF_PAGE, &[]));
        let next = self.paging.next.as_ref().map(|place| asked.address(here, &OF_PAGE, &[("after", place)]));
        pager_to(Way::of(asked), self.results.len(), first.as_deref(), next.as_deref(), None)
    }
}
