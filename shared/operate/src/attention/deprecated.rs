//! Organisations that call operations which end soon (`docs/reference/attention.md#lines`), by the audit records of their calls.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use longshore_domain::attention::{Kind, Line, Owner, Page, Severity};
use longshore_domain::job::shares::LISTED;
use longshore_kernel::access::Scope;
use longshore_kernel::database::Database;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;
use longshore_kernel::refusals::DEPRECATED;

/// Days before its end from which an operation has lines, and after it.
const NEAR_DAYS: i32 = 90;
/// Days since the last call after which an organisation has none: there is a record a day of each account that calls.
const SILENT_DAYS: i32 = 7;
/// Newest records that are looked at.
const READ: i64 = 10_000;

/// An organisation and an operation that it calls.
#[derive(Clone, Debug)]
struct Calling {
    /// Absent where the callers belong to none, or to several.
    organisation_id: Option<OrganisationId>,
    organisation: Option<String>,
    operation: String,
    sunset: NaiveDate,
    /// Who was recorded last.
    actor: String,
}

/// The lines about them. What is narrower than an organisation has none: calls are of an account.
pub(super) async fn lines(db: &Database, scope: &Scope, now: DateTime<Utc>) -> Result<Vec<Line>, Problem> {
    if scope.eshop().is_some() || scope.wms().is_some() {
        return Ok(Vec::new());
    }
    let found = sqlx::query_as!(
        Calling,
        r#"WITH recorded AS (
               SELECT id, organisation_id, actor_name, changes FROM audit
               WHERE action COLLATE "C" = $2 AND job_id IS NULL AND in_scope($1, organisation_id)
                 AND id >= uuid_v7_floor(now() - make_interval(days => $3))
               ORDER BY action COLLATE "C" DESC, id DESC LIMIT $4
           ), calling AS (
               SELECT DISTINCT ON (r.organisation_id, o.operation)
                      r.organisation_id, r.actor_name, o.operation, o.sunset::date AS sunset
               FROM recorded r CROSS JOIN LATERAL jsonb_each_text(r.changes -> 'deprecated' -> 1) AS o (operation, sunset)
               WHERE o.sunset::date < now() + make_interval(days => $5)
               ORDER BY r.organisation_id, o.operation, r.id DESC
           ), turns AS (
               SELECT *, row_number() OVER (PARTITION BY organisation_id ORDER BY sunset, operation) AS turn FROM calling
           )
           SELECT t.organisation_id AS "organisation_id: OrganisationId", o.name AS "organisation?", t.operation AS "operation!",
                  t.sunset AS "sunset!", t.actor_name AS actor
           FROM turns t LEFT JOIN organisation o ON o.id = t.organisation_id
           ORDER BY t.turn, t.sunset, t.operation, t.organisation_id LIMIT $6"#,
        scope.organisations() as Option<&[OrganisationId]>,
        DEPRECATED,
        SILENT_DAYS,
        READ,
        NEAR_DAYS,
        LISTED,
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found.iter().map(|calling| line(calling, now)).collect())
}

fn line(calling: &Calling, now: DateTime<Utc>) -> Line {
    let Calling { organisation_id, organisation, operation, sunset, actor } = calling;
    let who = organisation.as_deref().unwrap_or("An account of no single organisation");
    let ends = if *sunset > now.date_naive() { "ends" } else { "was to end" };
    let sentence = format!("{who} still calls {operation}, which {ends} on {sunset}; the last was {actor}.");
    let subject = format!("{} {operation}", organisation_id.unwrap_or_default());
    let owner = organisation_id.map_or(Owner::Service, Owner::Organisation);
    let near = sunset.checked_sub_days(Days::new(u64::from(NEAR_DAYS.unsigned_abs())));
    let line = Line::new(Kind::DeprecatedOperation, &subject, owner, sentence, Page::Audit(DEPRECATED));
    Line {
        severity: Severity::Warning,
        word: "deprecated",
        cause: near.map(|near| near.and_time(NaiveTime::MIN).and_utc()),
        ..line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_calls_what_and_until_when_that_works() {
        let day = |month, day| NaiveDate::from_ymd_opt(2028, month, day).unwrap();
        let calling = Calling {
            organisation_id: Some(OrganisationId::nil()),
            organisation: Some("Harbour Gifts".to_owned()),
            operation: "PUT /api/product/activate/{id}".to_owned(),
            sunset: day(1, 31),
            actor: "ERP".to_owned(),
        };
        let at = |now: NaiveDate| line(&calling, now.and_time(NaiveTime::MIN).and_utc());
        let said = "Harbour Gifts still calls PUT /api/product/activate/{id}, which ends on 2028-01-31; the last was ERP.";
        assert_eq!(at(day(1, 30)).sentence, said);
        assert_eq!(at(day(1, 31)).sentence, said.replace("ends", "was to end"));
        assert_eq!(
            at(day(1, 30)).cause.map(|cause| cause.date_naive()),
            day(1, 31).checked_sub_days(Days::new(90))
        );
    }
}
