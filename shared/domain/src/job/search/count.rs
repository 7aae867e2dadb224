//! How many jobs are in each state, counted in bounded time however many there are.
//!
//! For those who see everything, each state has an index. The jobs of an organisation and of an e-shop are read by their own index,
//! without those of others, and the newest are counted. The order names what is compared, so that no other index has it. Both are
//! planned as look-ups by key are: where the first of many are wanted, a plan for few would make a bitmap of all of them.

use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::figure::AtLeast;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::Problem;

use crate::job::kind::JobState;

/// Jobs that are counted: of each state, or the newest of a caller. Beyond that, it is "many".
pub const COUNTED: i64 = 1_000;

/// How many jobs are in each state.
#[derive(Clone, Debug, Default)]
pub struct Counts(Vec<OfState>);

/// How many jobs are in one of them.
#[derive(Clone, Copy, Debug)]
struct OfState {
    state: JobState,
    jobs: i64,
    is_more: bool,
}

impl Counts {
    /// Those in a state.
    #[must_use]
    pub fn of(&self, state: JobState) -> AtLeast {
        self.0.iter().find(|of| of.state == state).map(OfState::count).unwrap_or_default()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> AtLeast {
        self.0.iter().map(OfState::count).sum()
    }
}

impl OfState {
    fn count(&self) -> AtLeast {
        AtLeast { count: self.jobs, is_more: self.is_more }
    }
}

/// Counts the jobs of a scope by their state.
pub async fn counts(db: &Database, scope: &Scope) -> Result<Counts, Problem> {
    match scope.organisations() {
        None => of_all(db).await,
        Some(organisations) => of_newest(db, organisations, scope.eshop()).await,
    }
}

/// All jobs: the first of each state. Of those that have not ended, the ones that have waited longest.
async fn of_all(db: &Database) -> Result<Counts, Problem> {
    let found = sqlx::query_as!(
        OfState,
        r#"WITH live AS MATERIALIZED (
               SELECT state FROM job WHERE state IN ('queued', 'running', 'retrying') ORDER BY acceptance LIMIT $1
           )
           SELECT s.state AS "state!: JobState", c.jobs AS "jobs!", c.jobs >= $1 AS "is_more!"
           FROM unnest(ARRAY['succeeded', 'failed', 'cancelled']) AS s (state) CROSS JOIN LATERAL (
               SELECT count(*) AS jobs FROM (
                   SELECT FROM job
                   WHERE state BETWEEN s.state AND s.state AND state IN ('succeeded', 'failed', 'cancelled')
                   ORDER BY state DESC, created_at DESC, id DESC LIMIT $1
               ) AS ended
           ) AS c
           UNION ALL
           SELECT s.state, (SELECT count(*) FROM live WHERE live.state = s.state), (SELECT count(*) FROM live) >= $1
           FROM unnest(ARRAY['queued', 'running', 'retrying']) AS s (state)
           UNION ALL
           SELECT 'receiving', count(*), count(*) >= $1
           FROM (SELECT FROM job WHERE state = 'receiving' ORDER BY receiving_until LIMIT $1) AS receiving"#,
        COUNTED,
    )
    .fetch_all(&db.main)
    .await?;
    Ok(Counts(found))
}

/// The newest jobs of organisations, or of an e-shop.
async fn of_newest(
    db: &Database,
    organisations: &[OrganisationId],
    eshop: Option<EshopId>,
) -> Result<Counts, Problem> {
    let found = sqlx::query_as!(
        OfState,
        r#"WITH newest AS MATERIALIZED (
               (SELECT j.state FROM unnest($1::uuid[]) AS o (id) CROSS JOIN LATERAL (
                    SELECT state FROM job
                    WHERE $2::uuid IS NULL AND organisation_id BETWEEN o.id AND o.id
                    ORDER BY organisation_id DESC, created_at DESC, id DESC LIMIT $3
                ) AS j)
               UNION ALL
               -- of several organisations
               (SELECT j.state FROM (
                    SELECT state, organisations FROM job
                    WHERE $2::uuid IS NULL AND organisations IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT $3
                ) AS j WHERE j.organisations <@ $1)
               UNION ALL
               (SELECT state FROM job
                WHERE eshop_id BETWEEN $2 AND $2 AND organisation_id = ANY ($1) ORDER BY eshop_id DESC, created_at DESC, id DESC LIMIT $3)
               LIMIT $3
           )
           SELECT s.state AS "state!: JobState", (SELECT count(*) FROM newest n WHERE n.state = s.state) AS "jobs!",
                  (SELECT count(*) FROM newest) >= $3 AS "is_more!"
           FROM unnest($4::text[]) AS s (state)"#,
        organisations as &[OrganisationId],
        eshop as Option<EshopId>,
        COUNTED,
        &JobState::ALL.map(JobState::as_str) as &[&str],
    )
    .fetch_all(&db.main)
    .await?;
    Ok(Counts(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_those_of_each_state() {
        let of = |state, jobs, is_more| OfState { state, jobs, is_more };
        let mut counts = Counts(vec![of(JobState::Succeeded, 900, false), of(JobState::Failed, 900, false)]);
        assert_eq!(counts.all().in_words(), "1,800");
        counts.0.push(of(JobState::Cancelled, COUNTED, true));
        assert_eq!(counts.all().in_words(), "2,800+");
        assert_eq!(counts.of(JobState::Queued), AtLeast::default());
    }
}
