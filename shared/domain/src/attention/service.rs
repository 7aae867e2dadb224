//! The lines about the service, and about the organisations that fill its queues.

use longshore_kernel::access::Scope;
use longshore_kernel::figure::{counted, number, seconds};
use longshore_kernel::horizon::{self, Holder, Horizon};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::{RedisHealth, RedisState};
use longshore_kernel::services::Services;

use super::{Kind, LATE, Line, Owner, Page, Severity, noisy};
use crate::standing::{Shown, Standing, Verdict};

/// Lines about the service, and about the organisations that fill its queues.
pub async fn lines(services: &Services, scope: &Scope, stands: &Standing) -> Result<Vec<Line>, Problem> {
    let (horizon, noisy) = tokio::try_join!(vacuum(services, scope), noisy::lines(services, scope, stands))?;
    let queues = stands.queues.iter().flat_map(|queue| [of_queue(queue), of_pause(queue)]);
    let mut lines: Vec<Line> = of_redis(&stands.redis).into_iter().chain(queues.flatten()).collect();
    let due = stands.deliveries;
    if due.oldest_seconds > LATE {
        let oldest = seconds(due.oldest_seconds);
        // those whose destination fails are not late by the service
        let all = if due.is_more { "At least " } else { "" };
        let sentence =
            format!("{all}{} due, the oldest for {oldest}.", counted(due.free(), "delivery", "deliveries"));
        let line = of_the_service(Kind::LateDeliveries, "", sentence, Page::Webhooks(None));
        lines.push(Line { severity: Severity::Warning, word: "late", ..line });
    }
    lines.extend(noisy);
    lines.extend(horizon.holders.iter().find(|holder| holder.is_long()).map(of_vacuum));
    Ok(lines)
}

fn of_the_service(kind: Kind, subject: &str, sentence: String, page: Page) -> Line {
    Line::new(kind, subject, Owner::Service, sentence, page)
}

/// What holds back vacuum, only for callers with access to everything: it names sessions and roles of Postgres.
async fn vacuum(services: &Services, scope: &Scope) -> Result<Horizon, Problem> {
    if scope.organisations().is_some() {
        return Ok(Horizon::default());
    }
    horizon::look(&services.db.lists).await
}

fn of_vacuum(holder: &Holder) -> Line {
    let since = holder.seconds.map_or_else(String::new, |held| format!(" for {}", seconds(held)));
    let login = holder.login.as_ref().map_or_else(String::new, |login| format!(" of {login}"));
    let sentence = format!(
        "Vacuum of Postgres is held back{since} by {} transactions: {} {}{login}.",
        number(holder.transactions),
        holder.kind,
        holder.name
    );
    let subject = format!("{} {}", holder.kind, holder.name);
    let line = of_the_service(Kind::Vacuum, &subject, sentence, Page::Overview);
    Line { severity: Severity::Warning, word: "vacuum held back", ..line }
}

/// The problem that Redis cannot, or soon cannot, carry the queues; one line, and not one for each queue.
fn of_redis(redis: &RedisHealth) -> Option<Line> {
    let memory = redis.memory.map_or_else(String::new, |memory| format!(" ({})", memory.in_words()));
    let (severity, word, sentence) = match redis.state {
        RedisState::Unreachable => {
            let sentence =
                "Redis cannot be reached. Requests are accepted; jobs and webhooks wait in Postgres.";
            (Severity::Critical, "Redis away", sentence.to_owned())
        }
        RedisState::RefusesWrites => {
            let error = redis.error.as_deref().unwrap_or_default();
            let sentence = format!(
                "Redis refuses writes{memory}: {error}. Requests are accepted; jobs and webhooks wait in Postgres."
            );
            (Severity::Critical, "Redis refuses writes", sentence)
        }
        RedisState::Up if redis.memory.is_some_and(|memory| memory.is_nearly_full()) => {
            let sentence =
                format!("Redis is nearly full{memory}. A full Redis refuses writes, and no work starts.");
            (Severity::Warning, "nearly full", sentence)
        }
        RedisState::Up => return None,
    };
    Some(Line { severity, word, ..of_the_service(Kind::Redis, word, sentence, Page::Queues) })
}

fn of_queue(queue: &Shown) -> Option<Line> {
    let verdict = queue.verdict();
    let severity = match verdict {
        Verdict::Unattended => Severity::Critical,
        Verdict::Deserted | Verdict::Paused | Verdict::Waiting => Severity::Warning,
        // of Redis there is one line
        Verdict::Working | Verdict::Idle | Verdict::NotDue | Verdict::Away | Verdict::Refused => return None,
    };
    let sentence = format!("Queue {}: {}", queue.wish.queue, queue.sentence());
    let subject = if verdict == Verdict::Paused {
        pause_of(queue)
    } else {
        format!("{} {} {severity}", queue.wish.queue, verdict.as_str())
    };
    let line = of_the_service(Kind::Queue, &subject, sentence, Page::Queues);
    Some(Line { severity, word: queue.word(), ..line })
}

/// The pause of a queue, if its verdict names something worse.
fn of_pause(queue: &Shown) -> Option<Line> {
    let is_unsaid = queue.wish.paused && queue.verdict() != Verdict::Paused;
    let sentence = format!("Queue {}: {}", queue.wish.queue, queue.pause_in_words());
    let line = of_the_service(Kind::Queue, &pause_of(queue), sentence, Page::Queues);
    is_unsaid.then_some(Line { severity: Severity::Warning, word: "paused", ..line })
}

/// A pause is another one when the queue is paused again.
fn pause_of(queue: &Shown) -> String {
    let begun = queue.pause.as_ref().map_or_else(String::new, |pause| pause.at.to_rfc3339());
    format!("{} paused {begun}", queue.wish.queue)
}
