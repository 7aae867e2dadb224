//! The search for products, by the list of the API.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use longshore_domain::list::criteria::all_of;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::access::{Permission, Scope};
use longshore_kernel::figure::AtLeast;
use longshore_kernel::ids::{EshopId, OrganisationId, ProductId};
use longshore_kernel::problem::Problem;
use longshore_operate::named::Kind;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::form::{Asked, OF_PAGE, Refused};
use crate::layout::Section;
use crate::listed::{self, Listed, Paging, Related};
use crate::piece::{
    OLDEST, ORDERS, Tone, badge, checked, empty, eshop, kept, moment, none, options, organisation, rows,
    select, sorting, unreadable,
};
use crate::visit::Visit;

pub(super) const HERE: &str = "/console/product";

/// The fields that narrow the list.
pub(super) const FILTER: [&str; 5] = ["sku", "name", "active", "organisation", "eshop"];

/// E-shops of a product that are named.
const NAMED: usize = 3;

/// The orders of the list by the time of creation.
const BY_CREATION: [(&str, bool); 2] = [("", false), (OLDEST, true)];

/// What the list shows of a product.
const SELECT: [&str; 8] =
    ["id", "productSku", "name", "active", "type", "createdAt", "organisation", "eshops"];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: ProductId,
    product_sku: String,
    name: String,
    active: bool,
    r#type: String,
    created_at: DateTime<Utc>,
    organisation: Related<OrganisationId>,
    eshops: Vec<Related<EshopId>>,
}

/// `GET /console/product`.
pub(crate) async fn show(visit: Visit<permit::Read>) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let criteria = criteria(&visit, asked).await;
    let wanted = criteria.and_then(|criteria| listed::wanted(asked, &PRODUCT, &SELECT, &criteria));
    let (wanted, refused) = Refused::of(wanted.map(Some))?;
    let list = match &wanted {
        Some(wanted) => {
            let found = Listed::find(&visit, wanted).await?;
            html! { (list(&visit, &found)) (found.pages(&visit, HERE)) }
        }
        None => unreadable(),
    };
    let content = html! {
        header.title { h1 { "Products" } }
        (form(asked, &refused, has_several(visit.scope())))
        div #list { (list) }
    };
    let page = visit.page(Section::Products, "Products", &content);
    Ok(if refused.is_empty() { page } else { (StatusCode::BAD_REQUEST, page).into_response() })
}

/// What all products of a search match.
pub(super) async fn criteria<P>(visit: &Visit<P>, asked: &Asked) -> Result<Value, Problem> {
    let organisation: Option<OrganisationId> = visit.named(asked, Kind::Organisation, "organisation").await?;
    let eshop: Option<EshopId> = visit.named(asked, Kind::Eshop, "eshop").await?;
    let active = asked.among("active", |word| word.parse::<bool>().ok())?;
    Ok(all_of([
        ("productSku", asked.text("sku")?.map(|sku| json!({"eq": sku}))),
        ("name", asked.text("name")?.map(|text| json!({"like": text}))),
        ("active", active.map(|active| json!({"eq": active}))),
        ("organisation", organisation.map(|one| json!({"eq": one}))),
        ("eshops", eshop.map(|one| json!({"eq": one}))),
    ]))
}

/// Whether there are products of several organisations.
fn has_several(scope: &Scope) -> bool {
    scope.organisations().is_none_or(|organisations| organisations.len() > 1)
}

fn form(asked: &Asked, refused: &Refused, several: bool) -> Markup {
    let several = several || asked.get("organisation").is_some();
    html! {
        form.search method="get" action=(HERE) role="search" {
            (checked(asked, refused, "sku", "SKU", "search"))
            (checked(asked, refused, "name", "Name contains", "search"))
            (options(asked, refused, "active", "State", [("", "any state"), ("true", "active"), ("false", "inactive")]))
            button.primary type="submit" { "Search" }
            a.button href=(HERE) { "Clear" }
            details open[["organisation", "eshop", "sort", "size"].iter().any(|name| asked.get(name).is_some())] {
                summary { "More" }
                div {
                    @if several { (checked(asked, refused, "organisation", "Organisation (name or id)", "text")) }
                    (checked(asked, refused, "eshop", "E-shop (name or id)", "text"))
                    (options(asked, refused, "sort", "Order", ORDERS))
                    (rows(asked, refused))
                }
            }
        }
    }
}

/// The products; where the visitor may, with check boxes and what can be done with those that are checked, or with all that match.
fn list(visit: &Visit<permit::Read>, found: &Listed<Line>) -> Markup {
    let asked = &visit.asked;
    let may = visit.can(Permission::WriteProducts) && !found.results.is_empty();
    let table = table(visit, found, may);
    if !may {
        return table;
    }
    let Paging { total, total_at_least, .. } = found.paging;
    let total = AtLeast { count: total, is_more: total_at_least }.in_words();
    let deeds = [("Activate", "activate", "true"), ("Deactivate", "deactivate", "false")];
    let deeds = deeds.into_iter().filter(|(.., done)| asked.get("active") != Some(*done));
    html! {
        form method="get" data-ask="" {
            (kept(asked, &FILTER))
            (table)
            div.buttons {
                @for (verb, deed, _) in deeds.clone() {
                    button type="submit" formaction={(HERE) "/" (deed)} { (verb) " selected" }
                }
                @for (verb, deed, _) in deeds {
                    a.button href=(asked.address(&format!("{HERE}/{deed}"), &OF_PAGE, &[("all", "true")])) data-ask="" {
                        (verb) " all that match (" (total) ")"
                    }
                }
            }
        }
    }
}

fn table(visit: &Visit<permit::Read>, found: &Listed<Line>, choose: bool) -> Markup {
    if found.results.is_empty() {
        return empty(
            "No product matches.",
            "SKUs must match entirely. Remove a filter, or check the spelling.",
        );
    }
    let several = has_several(visit.scope());
    html! {
        div.scroll tabindex="0" role="region" aria-label="Products, table" {
            table.list.stack {
                thead { tr {
                    th { "SKU" } th { "Name" } th { "State" } th { "Type" } th { "E-shops" }
                    @if several { th { "Organisation" } }
                    (sorting(&visit.asked, HERE, "Created", &BY_CREATION))
                } }
                tbody { @for product in &found.results { (row(product, choose, several, visit.now())) } }
            }
        }
    }
}

fn row(product: &Line, choose: bool, several: bool, now: DateTime<Utc>) -> Markup {
    let sku = &product.product_sku;
    html! {
        tr {
            td.name { @if choose { (select("id", product.id, sku)) } a href={(HERE) "/" (product.id)} { strong { (sku) } } }
            td.text.clip title=(product.name) { span { (product.name) } }
            td { @if product.active { (badge(Tone::Good, "active")) } @else { (badge(Tone::Quiet, "inactive")) } }
            td data-label="Type" { (product.r#type) }
            td.name data-label="E-shops" { (sold_in(&product.eshops)) }
            @if several {
                td.name data-label="Organisation" {
                    @if let Some(name) = &product.organisation.name { (organisation(product.organisation.id, name)) }
                }
            }
            td data-label="Created" { (moment(product.created_at, now)) }
        }
    }
}

/// The e-shops of a product, as far as the visitor may see them.
fn sold_in(eshops: &[Related<EshopId>]) -> Markup {
    let seen: Vec<_> = eshops.iter().filter_map(|one| Some((one.id, one.name.as_deref()?))).collect();
    html! {
        @if seen.is_empty() { (none()) }
        @for (place, (id, name)) in seen.iter().take(NAMED).enumerate() { @if place > 0 { ", " } (eshop(*id, name)) }
        @if seen.len() > NAMED { " and " (seen.len() - NAMED) " more" }
    }
}
