//! The lines about the service, and about the organisations that fill its queues.

use longshore_kernel::access::Scope;
use longshore_kernel::figure::{counted, number, seconds};
use longshore_kernel::horizon::{self, Holder, Horizon};
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::{RedisHealth, RedisState};
use longshore_kernel::services::Services;
use longshore_kernel::set_back::{self, SetBack};
use longshore_kernel::standby::Waiting;

use super::{Kind, LATE, Line, Owner, Page, Severity, noisy};
use crate::standing::{Shown, Standing, Verdict};

/// Lines about the service, and about the organisations that fill its queues.
pub async fn lines(services: &Services, scope: &Scope, stands: &Standing) -> Result<Vec<Line>, Problem> {
    let set_back = async { Ok(set_back::pending(&services.db.lists).await?) };
    let standby = async { Ok(services.db.standby.look().await?) };
    let (set_back, standby, horizon, noisy) =
        tokio::try_join!(set_back, standby, vacuum(services, scope), noisy::lines(services, scope, stands))?;
    let queues = stands.queues.iter().flat_map(|queue| [of_queue(queue), of_pause(queue)]);
    let of_queues = of_missing_workers(&stands.queues).into_iter().chain(queues.flatten());
    let of_postgres = set_back.as_ref().map(of_set_back).into_iter().chain(standby.map(of_standby));
    let mut lines: Vec<Line> = of_postgres.chain(of_redis(&stands.redis)).chain(of_queues).collect();
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

/// Postgres was set back: outsiders know more than it. It is another line after the next set-back.
fn of_set_back(set_back: &SetBack) -> Line {
    let sentence = format!(
        "Postgres was set back: what was committed since {} may be lost ({} of it at most). Nothing is handed over to warehouses until longshore-api restored has run.",
        set_back.since.format("%Y-%m-%d %H:%M:%S UTC"),
        seconds(set_back.longest_loss().as_seconds_f64()),
    );
    let line = of_the_service(Kind::SetBack, &set_back.epoch.to_string(), sentence, Page::Overview);
    Line { word: "set back", ..line }
}

/// A write is answered when a standby has it, too.
fn of_standby(waiting: Waiting) -> Line {
    let sentence = format!(
        "Postgres waits for its standby: {} for {}. Writes are answered 503 until it is back.",
        counted(waiting.commits, "commit", "commits"),
        seconds(waiting.seconds),
    );
    let line = of_the_service(Kind::Standby, "", sentence, Page::Overview);
    Line { word: "waits for its standby", ..line }
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

/// The queues that no worker reads: one line, since a worker reads several.
fn of_missing_workers(queues: &[Shown]) -> Option<Line> {
    let is_missed = |queue: &&Shown| matches!(queue.verdict(), Verdict::Unattended | Verdict::Deserted);
    let missed: Vec<&Shown> = queues.iter().filter(is_missed).collect();
    let is_behind = missed.iter().any(|queue| queue.verdict() == Verdict::Unattended);
    let severity = if is_behind { Severity::Critical } else { Severity::Warning };
    let names: Vec<&str> = missed.iter().map(|queue| queue.wish.queue.name()).collect();
    let (sentence, page) = match missed[..] {
        [] => return None,
        [only] => {
            let name = only.wish.queue;
            (format!("Queue {name}: {}", only.sentence()), Page::Queue(name))
        }
        _ => {
            let open = missed.iter().map(|queue| queue.backlog()).sum::<u64>();
            let rest = match open {
                0 => "No work is waiting.".to_owned(),
                open => format!("{} open. Start a worker.", number(i64::try_from(open).unwrap_or(i64::MAX))),
            };
            (format!("No worker reads the queues {}: {rest}", listed(&names)), Page::Queues)
        }
    };
    let subject = format!("{} no_worker {severity}", names.join(" "));
    let line = of_the_service(Kind::Queue, &subject, sentence, page);
    Some(Line { severity, word: "no worker", ..line })
}

/// Names in a sentence.
fn listed(names: &[&str]) -> String {
    match names {
        [names @ .., last] if !names.is_empty() => format!("{} and {last}", names.join(", ")),
        _ => names.concat(),
    }
}

fn of_queue(queue: &Shown) -> Option<Line> {
    if queue.verdict() != Verdict::Waiting {
        return None;
    }
    let name = queue.wish.queue;
    let sentence = format!("Queue {name}: {}", queue.sentence());
    let subject = format!("{name} {} {}", Verdict::Waiting.as_str(), Severity::Warning);
    let line = of_the_service(Kind::Queue, &subject, sentence, Page::Queue(name));
    Some(Line { severity: Severity::Warning, word: queue.word(), ..line })
}

/// The pause of a queue. It is another one when the queue is paused again.
fn of_pause(queue: &Shown) -> Option<Line> {
    let name = queue.wish.queue;
    let sentence = format!("Queue {name}: {}", queue.pause_in_words());
    let begun = queue.pause.as_ref().map_or_else(String::new, |pause| pause.at.to_rfc3339());
    let line = of_the_service(Kind::Queue, &format!("{name} paused {begun}"), sentence, Page::Queue(name));
    queue.wish.paused.then_some(Line { severity: Severity::Warning, word: "paused", ..line })
}
