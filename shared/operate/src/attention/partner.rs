//! Jobs that make no progress at their partner (`docs/reference/attention.md#lines`): a call that is not answered, or attempts that
//! fail. A job fails only after its last attempt, hours later.

use chrono::{DateTime, Utc};
use longshore_domain::job::chunk::MAX_ATTEMPTS;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::{counted, seconds};
use longshore_kernel::ids::{EshopId, JobId, OrganisationId};
use longshore_kernel::problem::Problem;

use super::{Kind, Line, Owner, Severity};

/// Minutes without a page after which a job has a line. A page may take two minutes, and an attempt asks three times for it.
const SILENT_MINUTES: i32 = 5;
/// Chunks that are looked at: of those that run, and of those that wait for their time, which waits longest from now.
const LOOKED_AT: i64 = 1_000;
/// E-shops and kinds of job that are named.
const NAMED: i64 = 20;

/// Jobs of a kind and an e-shop that make no progress at their partner.
#[derive(Clone, Debug)]
pub struct Unanswered {
    /// What they do.
    pub kind: String,
    /// Their organisation.
    pub organisation_id: OrganisationId,
    /// Their e-shop.
    pub eshop_id: EshopId,
    /// Name of that.
    pub eshop: String,
    /// How many.
    pub jobs: i64,
    /// The one that has made none for longest.
    pub job: JobId,
    /// Since when it has made none.
    pub since: DateTime<Utc>,
    /// Since when the last of them has made none.
    pub last: DateTime<Utc>,
    /// Attempts of that one since its last progress, with the current one; none while it waits for a known moment.
    pub attempts: i32,
    /// Why the last of these failed.
    pub error: Option<String>,
}

impl Unanswered {
    /// For how long, in what attempt, and what the last error was.
    #[must_use]
    pub fn in_words(&self, now: DateTime<Utc>) -> String {
        let idle = seconds((now - self.since).as_seconds_f64());
        let jobs =
            if self.jobs == 1 { String::new() } else { format!(" ({})", counted(self.jobs, "job", "jobs")) };
        let attempt = match self.attempts {
            ..=0 => String::new(),
            attempt => format!(", attempt {attempt} of {MAX_ATTEMPTS}"),
        };
        let error = self.error.as_deref().unwrap_or("no answer yet");
        format!(
            "{} of {}{jobs} has made no progress at its partner for {idle}{attempt}: {error}",
            self.kind, self.eshop
        )
    }
}

/// The lines about them.
pub(super) async fn lines(db: &Database, scope: &Scope, now: DateTime<Utc>) -> Result<Vec<Line>, Problem> {
    Ok(read(db, scope, None).await?.iter().map(|silent| line(silent, now)).collect())
}

/// Looks for them, of one e-shop or of all, among the chunks that run or wait.
///
/// A pull has made no progress since its last page, or since it started. The attempt that runs counts only while none has failed since
/// then: else each would begin anew. A send-out has no pages, and has made none since an attempt failed. What waits for its turn is
/// not looked at: a call runs, or the last attempt failed.
pub async fn read(db: &Database, scope: &Scope, eshop: Option<EshopId>) -> Result<Vec<Unanswered>, Problem> {
    let found = sqlx::query_as!(
        Unanswered,
        r#"WITH looked_at AS (
               (SELECT job_id, state, calls_partner, attempts, error, started_at, waits_since FROM job_chunk
                WHERE state = 'running' AND leased_until > now() ORDER BY leased_until DESC LIMIT (SELECT $4::bigint))
               UNION ALL
               (SELECT job_id, state, calls_partner, attempts, error, started_at, waits_since FROM job_chunk
                WHERE state = 'queued' ORDER BY next_attempt_at DESC LIMIT (SELECT $4::bigint))
           ), calling AS MATERIALIZED (
               SELECT * FROM looked_at WHERE calls_partner AND (state = 'running' OR error IS NOT NULL)
           ), silent AS (
               SELECT j.id, j.kind, j.eshop_id, c.attempts, c.error,
                      CASE WHEN j.kind = 'stock.send' THEN c.waits_since
                           ELSE greatest(f.changed_at, j.started_at, j.accepted_at,
                                         CASE WHEN c.waits_since IS NULL THEN c.started_at END) END AS since
               FROM calling c
               JOIN job j ON j.id = ANY (ARRAY[c.job_id])
               LEFT JOIN LATERAL (SELECT changed_at FROM partner_fetch WHERE job_id = c.job_id LIMIT 1) AS f ON true
               WHERE j.source IS NOT NULL AND in_scope($1, j.organisation_id) AND in_eshop($2, j.eshop_id) AND in_eshop($3, j.eshop_id)
           )
           SELECT n.kind AS "kind!", s.organisation_id AS "organisation_id!: OrganisationId", s.id AS "eshop_id!: EshopId",
                  s.name AS "eshop!", count(*) AS "jobs!", (array_agg(n.id ORDER BY n.since, n.id))[1] AS "job!: JobId",
                  min(n.since) AS "since!", max(n.since) AS "last!",
                  (array_agg(n.attempts ORDER BY n.since, n.id))[1] AS "attempts!",
                  (array_agg(n.error ORDER BY n.since, n.id))[1] AS error
           FROM silent n JOIN eshop s ON s.id = ANY (ARRAY[n.eshop_id])
           WHERE n.since < now() - make_interval(mins => $5)
           GROUP BY n.kind, s.id ORDER BY min(n.since), s.id, n.kind LIMIT $6"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        eshop as Option<EshopId>,
        LOOKED_AT,
        SILENT_MINUTES,
        NAMED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

fn line(silent: &Unanswered, now: DateTime<Utc>) -> Line {
    let subject = format!("{} {}", silent.eshop_id, silent.kind);
    let owner = Owner::Organisation(silent.organisation_id);
    let page = format!("/console/job/{}", silent.job);
    let line = Line::new(Kind::SilentPartner, &subject, owner, silent.in_words(now), page);
    Line { severity: Severity::Warning, word: "partner", cause: Some(silent.last), ..line }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_silent_partner_is_named_with_the_attempt_and_what_failed() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let silent = Unanswered {
            kind: "product.sync".to_owned(),
            organisation_id: OrganisationId::nil(),
            eshop_id: EshopId::nil(),
            eshop: "Harbour".to_owned(),
            jobs: 1,
            job: JobId::nil(),
            since: now - TimeDelta::minutes(7),
            last: now,
            attempts: 1,
            error: None,
        };
        let first = "product.sync of Harbour has made no progress at its partner for 7 min, attempt 1 of 10: no answer yet";
        assert_eq!(silent.in_words(now), first);
        let blocked = Unanswered { jobs: 2, attempts: 0, error: Some("it is blocked".to_owned()), ..silent };
        let sentence =
            "product.sync of Harbour (2 jobs) has made no progress at its partner for 7 min: it is blocked";
        assert_eq!(blocked.in_words(now), sentence);
    }
}
