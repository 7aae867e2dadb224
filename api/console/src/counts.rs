//! The counts under the bar of every page: what needs attention, jobs, deliveries and orders by state. Each leads to its list, if the
//! visitor may see that.

use longshore_domain::attention::Severity;
use longshore_domain::job::backlog::Live;
use longshore_http::app::App;
use longshore_kernel::access::{Caller, Permission};
use longshore_operate::counts::{Counts, FAILED};
use longshore_operate::snapshots::Snapshots;
use maud::{Markup, html};

use super::piece::{number, up_to};

/// The `id` of their element, which live pages keep up to date.
pub(super) const ID: &str = "counts";

/// The counts of a caller, from those that the process keeps; nothing for one who may not see them.
pub(super) async fn read(app: &App, caller: &Caller) -> Markup {
    let counts = if sees_any(caller) {
        app.kept::<Snapshots>().counts(&app.services, &caller.scope).await
    } else {
        None
    };
    counts.map_or_else(|| html! {}, |counts| draw(&counts, caller))
}

/// The last counts of a caller, where nothing may be waited for.
pub(super) fn last(app: &App, caller: &Caller) -> Markup {
    let counts = app.kept::<Snapshots>().last_counts(&caller.scope).filter(|_| sees_any(caller));
    counts.map_or_else(|| html! {}, |counts| draw(&counts, caller))
}

fn sees_any(caller: &Caller) -> bool {
    // one who must set up a second factor sees nothing else
    !caller.must_set_up && can(caller, Permission::ReadJobs)
}

fn can(caller: &Caller, permission: Permission) -> bool {
    permission.roles().contains(&caller.role)
}

fn draw(counts: &Counts, caller: &Caller) -> Markup {
    html! {
        nav.counts aria-label="Counts" title={"Counted at " (counts.at.format("%H:%M:%S")) " UTC"} {
            @if can(caller, Permission::ReadQueues) {
                a.bad[counts.worst == Some(Severity::Critical)].warn[counts.worst == Some(Severity::Warning)] href="/console/attention" {
                    @match counts.attention {
                        0 => "Nothing new",
                        1 => { strong { "1" } " needs attention" },
                        many => { strong { (many) } " need attention" },
                    }
                }
            }
            (jobs(&counts.jobs, counts.failed_jobs))
            @if can(caller, Permission::ReadWebhooks) {
                span {
                    span.muted { "Deliveries" }
                    (count("/console/delivery?state=pending&waits=due&sort=oldest", &counts.due.in_words(), "due", false))
                    (count("/console/delivery?state=pending&waits=retry&sort=oldest", &counts.retrying.in_words(), "to retry", false))
                    (count("/console/delivery?state=exhausted&hours=24", &number(counts.exhausted), "exhausted in 24 h", counts.exhausted > 0))
                }
            }
            @if can(caller, Permission::ReadExpeditions) {
                span {
                    span.muted { "Orders" }
                    (count("/console/order?status=incorrect", &up_to(counts.incorrect_orders, FAILED), "incorrect", counts.incorrect_orders > 0))
                }
            }
        }
    }
}

fn jobs(live: &Live, failed: i64) -> Markup {
    html! {
        span {
            span.muted { "Jobs" }
            (count("/console/job?state=queued", &live.queued.in_words(), "queued", false))
            (count("/console/job?state=running", &live.running.in_words(), "running", false))
            (count("/console/job?state=retrying", &live.retrying.in_words(), "retrying", false))
            (count("/console/job?state=failed&hours=24", &up_to(failed, FAILED), "failed in 24 h", failed > 0))
        }
    }
}

fn count(list: &str, figure: &str, word: &str, is_bad: bool) -> Markup {
    html! { a.bad[is_bad] href=(list) { strong { (figure) } " " (word) } " " }
}
