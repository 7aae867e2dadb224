//! Who fills a queue that is behind (`docs/reference/attention.md#lines`). Organisations take turns, so a backlog delays first the
//! organisation that has it; the operator still wants to know whose it is.

use crate::webhook::lane::backlog::{Backlog, COUNTED};
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{number, seconds};
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;

use super::{Kind, LATE, Line, Owner, Page, Severity};
use crate::standing::Standing;

/// An organisation has a line if at least half of what waits is its own, and at least so much.
const MANY: i64 = 100;
/// Jobs that are looked at: those that were accepted first.
const JOBS: i64 = 10_000;

/// The organisation with the most of what waits in a queue, among what was looked at.
#[derive(Clone, Debug)]
struct Most {
    organisation_id: OrganisationId,
    organisation: String,
    /// How much is its own.
    items: i64,
    /// Of how much.
    all: i64,
    /// Whether there may be more than was looked at.
    is_more: bool,
}

/// The lines about the queues that are behind and not paused. What others have is counted, too, as `GET /api/queue` does; the line
/// belongs to the organisation that it names, and is shown to those who see that.
pub(super) async fn lines(
    services: &Services,
    scope: &Scope,
    stands: &Standing,
) -> Result<Vec<Line>, Problem> {
    let of = |queue| most(&services.db, queue, stands);
    let (chunks, calls, deliveries) =
        tokio::try_join!(of(Queue::Chunk), of(Queue::Partner), of(Queue::Lane))?;
    let found = [(Queue::Chunk, chunks), (Queue::Partner, calls), (Queue::Lane, deliveries)];
    let lines = found.into_iter().filter_map(|(queue, found)| {
        let (oldest, most) = found?;
        if scope.has_organisation(most.organisation_id) { line(queue, oldest, &most) } else { None }
    });
    Ok(lines.collect())
}

/// Who has most in a queue that is behind, and by how many seconds it is.
async fn most(db: &Database, queue: Queue, stands: &Standing) -> Result<Option<(f64, Most)>, Problem> {
    let shown = stands.queues.iter().find(|shown| shown.wish.queue == queue && !shown.wish.paused);
    let oldest = shown.and_then(|shown| shown.recorded.oldest_seconds).filter(|oldest| *oldest > LATE);
    let Some(oldest) = oldest else { return Ok(None) };
    let most = match queue {
        Queue::Chunk => chunks(db).await?,
        Queue::Partner => calls(db).await?,
        Queue::Lane => deliveries(db, &stands.deliveries).await?,
        Queue::Handover | Queue::Upkeep => None,
    };
    Ok(most.map(|most| (oldest, most)))
}

/// Of the open chunks of jobs.
async fn chunks(db: &Database) -> Result<Option<Most>, Problem> {
    let found = sqlx::query_as!(
        Most,
        r#"SELECT o.id AS "organisation_id!", o.name AS "organisation!", w.items AS "items!", w.everything AS "all!", w.is_more AS "is_more!"
           FROM (SELECT organisation_id, sum(chunks_open)::bigint AS items,
                        (sum(sum(chunks_open)) OVER ())::bigint AS everything, sum(count(*)) OVER () >= $1 AS is_more
                 FROM (SELECT organisation_id, chunks_open FROM job
                       WHERE state IN ('queued', 'running', 'retrying') ORDER BY acceptance LIMIT $1) AS live
                 GROUP BY organisation_id) AS w
           JOIN organisation o ON o.id = w.organisation_id
           ORDER BY w.items DESC, o.id LIMIT 1"#,
        JOBS,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

/// Of the jobs that wait for their first call of a partner.
async fn calls(db: &Database) -> Result<Option<Most>, Problem> {
    let found = sqlx::query_as!(
        Most,
        r#"SELECT o.id AS "organisation_id!", o.name AS "organisation!", w.items AS "items!", w.everything AS "all!", w.is_more AS "is_more!"
           FROM (SELECT organisation_id, count(*) FILTER (WHERE waits) AS items,
                        (sum(count(*) FILTER (WHERE waits)) OVER ())::bigint AS everything, sum(count(*)) OVER () >= $1 AS is_more
                 FROM (SELECT organisation_id, source IS NOT NULL AND state = 'queued' AS waits FROM job
                       WHERE state IN ('queued', 'running', 'retrying') ORDER BY acceptance LIMIT $1) AS live
                 GROUP BY organisation_id) AS w
           JOIN organisation o ON o.id = w.organisation_id
           ORDER BY w.items DESC, o.id LIMIT 1"#,
        JOBS,
    )
    .fetch_optional(&db.lists)
    .await?;
    Ok(found)
}

/// Of the due deliveries to destinations that work.
async fn deliveries(db: &Database, due: &Backlog) -> Result<Option<Most>, Problem> {
    let Some(organisation_id) = due.busiest else { return Ok(None) };
    let name = sqlx::query_scalar!("SELECT name FROM organisation WHERE id = $1", organisation_id.get())
        .fetch_optional(&db.main)
        .await?;
    Ok(name.map(|organisation| {
        let (items, all) = (due.busiest_due, due.free());
        Most { organisation_id, organisation, items, all, is_more: due.is_more }
    }))
}

fn line(queue: Queue, oldest: f64, most: &Most) -> Option<Line> {
    if most.items < MANY || most.items * 2 < most.all {
        return None;
    }
    let (what, looked_at) = match queue {
        Queue::Partner => ("jobs that wait for their partner", format!("the first {} jobs", number(JOBS))),
        Queue::Lane => ("due deliveries", format!("{} of each webhook", number(COUNTED))),
        _ => ("open chunks", format!("the oldest {} jobs", number(JOBS))),
    };
    let counted = if most.is_more { format!(" (counted: {looked_at})") } else { String::new() };
    let sentence = format!(
        "{} has {} of the {} {what}{counted}; queue {queue} is behind by {}.",
        most.organisation,
        number(most.items),
        number(most.all),
        seconds(oldest)
    );
    let subject = format!("{} {queue}", most.organisation_id);
    let owner = Owner::Organisation(most.organisation_id);
    let page = Page::Record("organisation", most.organisation_id.into());
    let line = Line::new(Kind::NoisyOrganisation, &subject, owner, sentence, page);
    Some(Line { severity: Severity::Warning, word: "busy", ..line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(items: i64, all: i64, is_more: bool) -> Option<String> {
        let id = OrganisationId::nil();
        let most = Most { organisation_id: id, organisation: "Nordic".to_owned(), items, all, is_more };
        line(Queue::Chunk, 720.0, &most).map(|line| line.sentence)
    }

    #[test]
    fn the_organisation_with_most_of_what_waits_has_a_line() {
        let sentence = "Nordic has 8,412 of the 9,001 open chunks; queue chunk is behind by 12 min.";
        assert_eq!(said(8_412, 9_001, false), Some(sentence.to_owned()));
        let counted = said(8_412, 9_001, true).unwrap();
        assert!(counted.contains("open chunks (counted: the oldest 10,000 jobs); queue chunk"), "{counted}");
    }

    #[test]
    fn an_organisation_with_a_small_share_or_a_small_backlog_has_no_line() {
        assert_eq!(said(4_000, 9_001, false), None);
        assert_eq!(said(99, 99, false), None);
        assert!(said(100, 200, false).is_some());
    }
}
