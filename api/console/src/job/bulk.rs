//! Cancelling and retrying several jobs: those that were selected, or all that match the filter of the list.

use axum::response::Response;
use longshore_domain::job::control::bulk::{self, AT_ONCE, Deed, Report};
use longshore_domain::job::search;
use longshore_domain::list::fields::job::JOB;
use longshore_domain::list::matching::Matching;
use longshore_http::extract::{Failure, permit};
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;
use maud::html;

use super::list::{FILTER, HERE, wanted};
use crate::bulk::filters;
use crate::form::Asked;
use crate::layout::Section;
use crate::piece::{counted, kept, number};
use crate::visit::{Act, Done, Question, Visit, done_and_left};

type Asking = Visit<permit::WriteJobs>;
type Acting = Act<permit::WriteJobs>;

/// The jobs of an action.
struct Chosen {
    ids: Vec<JobId>,
    /// With how many of those that match the filter it is possible; nothing where they were selected.
    matching: Option<i64>,
}

async fn chosen(visit: &Asking, asked: &Asked, deed: Deed) -> Result<Chosen, Problem> {
    if asked.get("all").is_none() {
        let ids = asked.ids("id")?;
        if !(1..=AT_ONCE).contains(&ids.len()) {
            return Err(Problem::violation("", "invalid_count", format!("select 1 to {AT_ONCE} jobs")));
        }
        return Ok(Chosen { ids, matching: None });
    }
    let wanted = wanted(visit, asked).await?;
    let matching = Matching::of(&JOB, search::criteria(visit.db(), &wanted).await?)?;
    let found = bulk::pick(visit.services(), visit.scope(), deed, &matching).await?;
    if found.ids.is_empty() {
        let message = match deed {
            Deed::Cancel => "no matching job can be cancelled: all have ended",
            Deed::Retry => "no matching job can be retried: none has failed or refused items",
        };
        return Err(Problem::violation("", "invalid_count", message));
    }
    Ok(Chosen { ids: found.ids, matching: Some(found.possible) })
}

/// `GET /console/job/cancel?id=…`, or `?all=true` with the filter of the list.
pub(crate) async fn ask_cancel(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, Deed::Cancel).await
}

/// `GET /console/job/retry?id=…`, or `?all=true` with the filter of the list.
pub(crate) async fn ask_retry(visit: Asking) -> Result<Response, Failure> {
    ask(&visit, Deed::Retry).await
}

async fn ask(visit: &Asking, deed: Deed) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let Chosen { ids, matching } = chosen(visit, asked, deed).await?;
    let jobs = counted(i64::try_from(ids.len()).unwrap_or(i64::MAX), "job", "jobs");
    let (verb, button, says) = match deed {
        Deed::Cancel => (
            "Cancel",
            "Cancel the jobs",
            "Completed changes are kept. Queued chunks are not executed, and running chunks are rolled back. This cannot be undone.",
        ),
        Deed::Retry => (
            "Retry",
            "Retry the jobs",
            "Refused items and failed chunks are tried again. Each job goes to the end of the queue.",
        ),
    };
    let explanation = html! {
        @if let Some(matching) = matching {
            (filters(asked, &FILTER, "the jobs of all e-shops"))
            @if matching > i64::try_from(AT_ONCE).unwrap_or(i64::MAX) {
                p { strong { (number(matching)) } " jobs match. The newest " (number(i64::try_from(AT_ONCE).unwrap_or(i64::MAX))) " are taken now." }
            }
        }
        p { (says) " Each job has its own audit record." }
    };
    let question = Question {
        title: &format!("{verb} {jobs}?"),
        explanation,
        button,
        is_grave: deed == Deed::Cancel,
        action: &format!("{HERE}/{}", deed.as_str()),
        back: &asked.address(HERE, &["id", "all"], &[]),
        fields: html! {
            @if matching.is_some() { input type="hidden" name="all" value="true"; }
            @else { @for id in &ids { input type="hidden" name="id" value=(id); } }
            (kept(asked, &FILTER))
        },
    };
    Ok(visit.ask(Section::Jobs, &question))
}

/// `POST /console/job/cancel`.
pub(crate) async fn cancel(act: Acting) -> Result<Response, Failure> {
    let Chosen { ids, .. } = chosen(&act.visit, &act.form, Deed::Cancel).await?;
    let report = bulk::cancel_all(act.visit.services(), &act.visit.may, &ids).await?;
    Ok(back(&act.form, Done::JobsCancelled, &report))
}

/// `POST /console/job/retry`.
pub(crate) async fn retry(act: Acting) -> Result<Response, Failure> {
    let Chosen { ids, .. } = chosen(&act.visit, &act.form, Deed::Retry).await?;
    let report = bulk::retry_all(act.visit.services(), &act.visit.may, &ids).await?;
    Ok(back(&act.form, Done::JobsRetried, &report))
}

fn back(form: &Asked, deed: Done, report: &Report) -> Response {
    let kept: Vec<(&str, &str)> = FILTER.iter().filter_map(|name| Some((*name, form.get(name)?))).collect();
    let list = Asked::default().address(HERE, &[], &kept);
    done_and_left(&list, deed, report.done.len(), report.left.len())
}
