//! What needs somebody now, the worst first.

use longshore_shared::job::attention::{self as jobs, COUNTED, STUCK_MINUTES};
use longshore_shared::job::queue::Verdict;
use longshore_shared::job::queue::control::Shown;
use longshore_shared::platform::problem::Problem;
use longshore_shared::webhook::health;
use longshore_shared::webhook::lane::backlog::Backlog;
use maud::{Markup, html};

use crate::console::piece::{Tone, badge, empty, number, seconds, up_to};
use crate::console::queue::in_words;
use crate::console::visit::Visit;
use crate::extract::permit;

/// Something that has been due for so long, in seconds, is late.
const LATE: f64 = 60.0;

struct Matter {
    tone: Tone,
    word: &'static str,
    sentence: String,
    address: String,
}

pub(super) async fn read(
    visit: &Visit<permit::ReadQueues>,
    queues: &[Shown],
    due: Backlog,
) -> Result<Markup, Problem> {
    let (jobs, webhooks) = tokio::try_join!(
        jobs::read(visit.db(), visit.scope()),
        health::attention(visit.db(), visit.scope()),
    )?;
    let mut matters: Vec<Matter> = queues.iter().filter_map(of_queue).collect();
    if let (Some(job), Some(since)) = (jobs.stuck_job, jobs.stuck_since) {
        let idle = seconds((visit.now() - since).as_seconds_f64());
        let sentence = if jobs.stuck == 1 {
            format!("1 running job has not moved for {idle}.")
        } else {
            let count = up_to(jobs.stuck, COUNTED);
            format!(
                "{count} running jobs have not moved for {STUCK_MINUTES} minutes; the longest for {idle}."
            )
        };
        matters.push(Matter {
            tone: Tone::Bad,
            word: "stuck",
            sentence,
            address: format!("/console/job/{job}"),
        });
    }
    let mut add = |count: i64, tone, word, [one, many]: [&str; 2], address: &str| {
        if count > 0 {
            let sentence = format!("{} {}", up_to(count, COUNTED), if count == 1 { one } else { many });
            matters.push(Matter { tone, word, sentence, address: address.to_owned() });
        }
    };
    let failed = ["job of the last day failed.", "jobs of the last day failed."];
    add(jobs.failed, Tone::Bad, "failed", failed, "/console/failure");
    let disabled = ["webhook is disabled.", "webhooks are disabled."];
    add(webhooks.disabled, Tone::Bad, "disabled", disabled, "/console/webhook?health=disabled");
    let failing = ["webhook is failing.", "webhooks are failing."];
    add(webhooks.failing, Tone::Warn, "failing", failing, "/console/webhook?health=failing");
    let retrying = ["job waits for its next attempt.", "jobs wait for their next attempt."];
    add(jobs.retrying, Tone::Warn, "retrying", retrying, "/console/job?state=retrying");
    if due.oldest_seconds > LATE {
        let oldest = seconds(due.oldest_seconds);
        let sentence = format!("Deliveries due: {}, the oldest for {oldest}.", number(due.due));
        matters.push(Matter {
            tone: Tone::Warn,
            word: "late",
            sentence,
            address: "/console/webhook".to_owned(),
        });
    }
    matters.sort_by_key(|matter| matter.tone != Tone::Bad);
    Ok(draw(&matters))
}

fn of_queue(queue: &Shown) -> Option<Matter> {
    if matches!(queue.verdict(), Verdict::Working | Verdict::Idle) {
        return None;
    }
    let (tone, word, sentence) = in_words(queue);
    let sentence = format!("Queue {}: {sentence}", queue.name);
    Some(Matter { tone, word, sentence, address: "/console/queue".to_owned() })
}

fn draw(matters: &[Matter]) -> Markup {
    html! {
        section.attention aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            @if matters.is_empty() {
                (empty("Nothing needs you.", "Whatever comes up is listed here, the worst first."))
            } @else {
                ul {
                    @for matter in matters {
                        li { a href=(matter.address) { (badge(matter.tone, matter.word)) span { (matter.sentence) } } }
                    }
                }
            }
        }
    }
}
