//! Failed jobs, grouped by error.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_domain::job::failures::{self, Group, LOOKED_AT, REFUSING, RETRIED_AT_ONCE, Reason};
use longshore_http::extract::{Failure, Segment, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::problem::Problem;
use maud::{Markup, html};

use super::layout::Section;
use super::piece::{counted, empty, number, plain, time};
use super::visit::{Act, Done, Question, Visit, done};

const HERE: &str = "/console/failure";

/// `GET /console/failure`.
pub(super) async fn show(visit: Visit<permit::ReadJobs>) -> Result<Response, Failure> {
    let (groups, reasons) = tokio::try_join!(
        failures::groups(visit.db(), visit.scope(), None),
        failures::reasons(visit.db(), visit.scope()),
    )?;
    let content = html! {
        h1 { "Failures" }
        p.muted {
            "Failed jobs grouped by error (newest "
            (number(LOOKED_AT)) "). Errors that differ only in numbers and ids are in one group; those of different HTTP statuses are not."
        }
        @if groups.is_empty() {
            (empty("No failed jobs.", "Failed jobs are listed here by error and can be retried together."))
        } @else {
            (table(&visit, &groups))
        }
        (refused(&reasons, visit.now()))
    };
    Ok(visit.page(Section::Failures, "Failures", &content))
}

fn table(visit: &Visit<permit::ReadJobs>, groups: &[Group]) -> Markup {
    let may = visit.can(Permission::WriteJobs);
    let now = visit.now();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Failures, table" {
            table.list {
                thead { tr {
                    th { "Error" } th { "Kind" } th.number { "Jobs" } th.number { "Organisations" } th { "First" } th { "Last" }
                    @if may { th { span.hidden { "Retry" } } }
                } }
                tbody {
                    @for group in groups {
                        tr {
                            td.text { a href={"/console/job/" (group.newest)} { (group.error) } }
                            td { (plain(&group.kind)) }
                            td.number { (number(group.jobs)) }
                            td.number { (number(group.organisations)) }
                            td { (time(group.first, now)) }
                            td { (time(group.last, now)) }
                            @if may {
                                td { a.button href={(HERE) "/" (group.key) "/retry"} data-ask="" {
                                    "Retry all" span.hidden { " of " (plain(&group.kind)) ": " (group.error) }
                                } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Refused items of successful jobs; each job's page can retry them.
fn refused(reasons: &[Reason], now: DateTime<Utc>) -> Markup {
    html! {
        section aria-labelledby="refused-title" {
            h2 #refused-title { "Refused items" }
            p.muted {
                "Refused items of successful jobs grouped by code (newest " (number(REFUSING)) " jobs). The page of a job has all of its reasons."
            }
            @if reasons.is_empty() {
                (empty("No recent item errors.", "Refused items of successful jobs are counted here."))
            } @else {
                div.scroll tabindex="0" role="region" aria-label="Refused items, table" {
                    table.list {
                        thead { tr {
                            th { "Reason" } th { "Kind" } th.number { "Items" } th.number { "Jobs" } th { "Last" } th { "Last message" }
                        } }
                        tbody {
                            @for reason in reasons {
                                tr {
                                    td { a href={"/console/job/" (reason.newest)} { (reason.code) } }
                                    td { (plain(&reason.kind)) }
                                    td.number { (AtLeast { count: reason.items, is_more: reason.is_more }.in_words()) }
                                    td.number { (number(reason.jobs)) }
                                    td { (time(reason.last, now)) }
                                    td.text { (reason.message) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// `GET /console/failure/{key}/retry`.
pub(super) async fn ask_retry(
    Segment(key): Segment,
    visit: Visit<permit::WriteJobs>,
) -> Result<Response, Failure> {
    let groups = failures::groups(visit.db(), visit.scope(), Some(&key)).await?;
    let group = groups.first().ok_or_else(|| Problem::not_found("group of failures"))?;
    let question = Question {
        title: &format!("Retry {}?", counted(group.jobs.min(RETRIED_AT_ONCE), "job", "jobs")),
        explanation: html! {
            p { "Failed " strong { (plain(&group.kind)) } " jobs with this error: " }
            blockquote { (group.error) }
            p { "Each job goes to the end of the queue. Each retry has its own audit record." }
            @if group.jobs > RETRIED_AT_ONCE {
                p { "The group has " (number(group.jobs)) "; the oldest " (number(RETRIED_AT_ONCE)) " will be retried now." }
            }
        },
        button: "Retry",
        is_grave: false,
        action: &format!("{HERE}/{key}/retry"),
        back: HERE,
        fields: html! {},
    };
    Ok(visit.ask(Section::Failures, &question))
}

/// `POST /console/failure/{key}/retry`.
pub(super) async fn retry(Segment(key): Segment, act: Act<permit::WriteJobs>) -> Result<Response, Failure> {
    let retried = failures::retry_group(act.visit.services(), &act.visit.may, &key).await?;
    Ok(done(HERE, Done::GroupRetried, Some(retried.again)))
}
