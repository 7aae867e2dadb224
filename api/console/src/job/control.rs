//! Cancelling a job, and retrying its failed items.

use axum::response::Response;
use longshore_domain::job::control::{self, release};
use longshore_domain::job::inspection::{self, Job};
use longshore_domain::job::preview::application;
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};
use serde_json::json;

use crate::layout::Section;
use crate::piece::{number, plain};
use crate::visit::{Act, Done, Question, Visit, done};

async fn find(visit: &Visit<permit::WriteJobs>, id: JobId) -> Result<Job, Problem> {
    inspection::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("job"))
}

/// `GET /console/job/{id}/cancel`.
pub(crate) async fn ask_cancel(
    Id(id): Id<JobId>,
    visit: Visit<permit::WriteJobs>,
) -> Result<Response, Failure> {
    let job = find(&visit, id).await?;
    let explanation = html! {
        p { "The job " strong { (plain(&job.kind)) } " has done " (number(job.done)) " of " (number(job.total)) " items." }
        p { "Completed changes are kept. Queued chunks are not executed, and running chunks are rolled back. This cannot be undone." }
    };
    Ok(ask(&visit, id, "Cancel the job?", explanation, "Cancel the job", true, "cancel"))
}

/// `POST /console/job/{id}/cancel`.
pub(crate) async fn cancel(Id(id): Id<JobId>, act: Act<permit::WriteJobs>) -> Result<Response, Failure> {
    control::cancel(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(&format!("/console/job/{id}"), Done::Cancelled, None))
}

/// `GET /console/job/{id}/retry`.
pub(crate) async fn ask_retry(
    Id(id): Id<JobId>,
    visit: Visit<permit::WriteJobs>,
) -> Result<Response, Failure> {
    let job = find(&visit, id).await?;
    let explanation = html! {
        p { "Job " strong { (plain(&job.kind)) } ", " (number(job.failed)) " items were refused or not executed. They will be tried again; completed items stay as they are." }
        p { "The job goes to the end of the queue." }
    };
    Ok(ask(&visit, id, "Retry the job?", explanation, "Retry the job", false, "retry"))
}

/// `POST /console/job/{id}/retry`.
pub(crate) async fn retry(Id(id): Id<JobId>, act: Act<permit::WriteJobs>) -> Result<Response, Failure> {
    control::retry(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(&format!("/console/job/{id}"), Done::Retried, None))
}

/// `GET /console/job/{id}/apply`.
pub(crate) async fn ask_apply(
    Id(id): Id<JobId>,
    visit: Visit<permit::WriteJobs>,
) -> Result<Response, Failure> {
    let job = find(&visit, id).await?;
    let explanation = html! {
        p { "A job does with the " (number(job.total)) " items what the dry run found." }
        p { "An item whose record has changed since is refused." }
    };
    Ok(ask(&visit, id, "Apply the dry run?", explanation, "Apply", true, "apply"))
}

/// `POST /console/job/{id}/apply`.
pub(crate) async fn apply(Id(id): Id<JobId>, act: Act<permit::WriteJobs>) -> Result<Response, Failure> {
    let answer = application::apply(act.visit.services(), &act.visit.may, id, json!({})).await?;
    Ok(done(&super::page(&answer)?, Done::Applied, None))
}

/// `GET /console/job/{id}/release`.
pub(crate) async fn ask_release(
    Id(id): Id<JobId>,
    visit: Visit<permit::ReleaseWithheld>,
) -> Result<Response, Failure> {
    let left = release::left(visit.services(), visit.scope(), id).await?;
    let page = format!("/console/job/{id}");
    let question = Question {
        title: "Release what is withheld?",
        explanation: html! {
            p { "The job executes " (number(left)) " rows that its guard has withheld, as they were sent." }
        },
        button: "Release",
        is_grave: true,
        action: &format!("{page}/release"),
        back: &page,
        fields: html! { input type="hidden" name="upTo" value=(left); },
    };
    Ok(visit.ask(Section::Jobs, &question))
}

/// `POST /console/job/{id}/release`.
pub(crate) async fn release(
    Id(id): Id<JobId>,
    act: Act<permit::ReleaseWithheld>,
) -> Result<Response, Failure> {
    let up_to: Option<i64> = act.form.among("upTo", |text| text.parse().ok())?;
    let body = json!({"upTo": up_to.unwrap_or_default()});
    release::release(act.visit.services(), &act.visit.may, id, body).await?;
    Ok(done(&format!("/console/job/{id}"), Done::Released, None))
}

fn ask(
    visit: &Visit<permit::WriteJobs>,
    id: JobId,
    title: &str,
    explanation: Markup,
    button: &str,
    is_grave: bool,
    action: &str,
) -> Response {
    let back = format!("/console/job/{id}");
    let action = format!("{back}/{action}");
    let question =
        Question { title, explanation, button, is_grave, action: &action, back: &back, fields: html! {} };
    visit.ask(Section::Jobs, &question)
}
