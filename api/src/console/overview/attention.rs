//! What needs somebody now, the worst first.

use longshore_shared::job::attention::{self as jobs, COUNTED, STUCK_MINUTES};
use longshore_shared::job::queue::Verdict;
use longshore_shared::job::queue::control::Shown;
use longshore_shared::platform::problem::Problem;
use longshore_shared::webhook::health;
use longshore_shared::webhook::lane::backlog;
use maud::{Markup, html};

use crate::console::piece::{Tone, badge, empty, seconds, up_to};
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

pub(super) async fn read(visit: &Visit<permit::ReadQueues>, queues: &[Shown]) -> Result<Markup, Problem> {
    let (jobs, webhooks, lanes) = tokio::try_join!(
        jobs::read(visit.db(), visit.scope()),
        health::attention(visit.db(), visit.scope()),
        backlog::read(visit.db()),
    )?;
    let mut matters: Vec<Matter> = queues.iter().filter_map(of_queue).collect();
    if let (Some(job), Some(since)) = (jobs.stuck_job, jobs.stuck_since) {
        let idle = seconds((visit.now() - since).as_seconds_f64());
        let count = up_to(jobs.stuck, COUNTED);
        matters.push(Matter {
            tone: Tone::Bad,
            word: "stuck",
            sentence: format!(
                "{count} running jobs have not moved for {STUCK_MINUTES} minutes; the longest for {idle}."
            ),
            address: format!("/console/job/{job}"),
        });
    }
    let mut add = |count: i64, tone, word, sentence: &str, address: &str| {
        if count > 0 {
            let sentence = format!("{} {sentence}", up_to(count, COUNTED));
            matters.push(Matter { tone, word, sentence, address: address.to_owned() });
        }
    };
    add(jobs.failed, Tone::Bad, "failed", "jobs of the last day failed.", "/console/failure");
    add(
        webhooks.disabled,
        Tone::Bad,
        "disabled",
        "webhooks are disabled.",
        "/console/webhook?health=disabled",
    );
    add(webhooks.failing, Tone::Warn, "failing", "webhooks are failing.", "/console/webhook?health=failing");
    add(
        jobs.retrying,
        Tone::Warn,
        "retrying",
        "jobs wait for their next attempt.",
        "/console/job?state=retrying",
    );
    if lanes.oldest_seconds > LATE {
        let sentence = format!(
            "{} deliveries are due, the oldest for {}.",
            up_to(lanes.due, i64::MAX),
            seconds(lanes.oldest_seconds)
        );
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
