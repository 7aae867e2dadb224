//! Activating and deactivating several products by a job: those that were selected, or all that match the filter of the list.

use axum::response::Response;
use longshore_domain::catalog::product::switch::accept;
use longshore_domain::job::chosen::Chosen;
use longshore_domain::job::kind::{ActivateProducts, DeactivateProducts};
use longshore_domain::list::fields::product::PRODUCT;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::ids::ProductId;
use longshore_kernel::problem::Problem;
use maud::html;

use super::list::{FILTER, HERE, criteria};
use crate::form::Asked;
use crate::layout::Section;
use crate::piece::{counted, kept};
use crate::visit::{Act, Done, Question, Visit, done};
use crate::{bulk, job};

type Asking = Visit<permit::WriteProducts>;
type Acting = Act<permit::WriteProducts>;

async fn chosen(visit: &Asking, asked: &Asked) -> Result<Chosen, Problem> {
    if asked.get("all").is_none() {
        return Ok(bulk::selected::<ProductId>(asked, "products")?.into());
    }
    bulk::matching(&PRODUCT, criteria(visit, asked).await?, asked)
}

/// `GET /console/product/activate?id=…`, or `?all=true` with the filter of the list.
pub(crate) async fn ask_activate(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, "Activate", "activate").await
}

/// `GET /console/product/deactivate?id=…`, or `?all=true` with the filter of the list.
pub(crate) async fn ask_deactivate(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, "Deactivate", "deactivate").await
}

async fn ask(visit: &Asking, verb: &str, deed: &str) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let chosen = chosen(visit, asked).await?;
    let (count, fields) = bulk::counted(visit, &chosen).await?;
    let products = counted(count, "product", "products");
    let question = Question {
        title: &format!("{verb} {products}?"),
        explanation: html! {
            @if let Chosen::Matching(_) = chosen { (bulk::filters(asked, &FILTER, "all products of all e-shops")) }
            p { "A job does it with each. Those that are so already stay as they are." }
        },
        button: &format!("{verb} {products}"),
        is_grave: deed == "deactivate",
        action: &format!("{HERE}/{deed}"),
        back: &asked.address(HERE, &["id", "all", "expect"], &[]),
        fields: html! { (fields) (kept(asked, &FILTER)) (bulk::try_first()) },
    };
    Ok(visit.ask(Section::Products, &question))
}

/// `POST /console/product/activate`.
pub(crate) async fn activate(act: Acting) -> Result<Response, Failure> {
    let chosen = chosen(&act.visit, &act.form).await?;
    let bulk = bulk::asked(&act.form, chosen);
    let answer = accept(act.visit.services(), &act.visit.may, ActivateProducts, bulk).await?;
    Ok(done(&job::page(&answer)?, Done::ProductsRunning, None))
}

/// `POST /console/product/deactivate`.
pub(crate) async fn deactivate(act: Acting) -> Result<Response, Failure> {
    let chosen = chosen(&act.visit, &act.form).await?;
    let bulk = bulk::asked(&act.form, chosen);
    let answer = accept(act.visit.services(), &act.visit.may, DeactivateProducts, bulk).await?;
    Ok(done(&job::page(&answer)?, Done::ProductsRunning, None))
}
