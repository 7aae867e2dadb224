//! Looks at jobs of many organisations that no organisation fills alone.
//!
//! A look reads a limited number of jobs, and lists a limited number of what it finds. In one order for all organisations, one with many would
//! hide what others have from a caller who sees several. So organisations have equal shares of what is read, at least one each
//! ([`newest_in_shares!`](crate::newest_in_shares)), and take turns at what is listed: its order begins with
//! `row_number() OVER (PARTITION BY organisation_id …)`.

/// Lines of a kind that are listed: the first of each organisation, then the second of each.
pub const LISTED: i64 = 20;

/// Pairs of an e-shop and a kind of job that are read.
pub const READ: i64 = 10_000;

/// Those of them that are compared with later jobs: the newest of each organisation.
pub const COMPARED: i64 = 1_000;

/// A query about the newest of certain jobs of each kind of each e-shop, if it is not older than some days: they are in
/// `newest (organisation_id, eshop_id, kind, id, created_at)`, organisations in shares.
///
/// `newest_in_shares!(record, jobs: condition, "ctes and query", organisations of the scope, e-shop of the scope, days, parameters from $6 …)`
///
/// In the query, $1 is the organisations, $3 the e-shop, and $4 the days. An index is needed on (organisation, e-shop, kind, creation) of the jobs of
/// the condition. The look skips from pair to pair through it, backwards, so that it meets the newest job of each pair first: older ones
/// are not read, and a pair whose newest job is too old takes nothing of what is compared.
#[macro_export]
macro_rules! newest_in_shares {
    ($record:ty, jobs: $jobs:literal, $rest:literal, $organisations:expr, $eshop:expr, $days:expr $(, $parameter:expr)* $(,)?) => {
        sqlx::query_as!(
            $record,
            r#"WITH RECURSIVE owner (id, nth) AS (
                   -- the organisations that have one, where the scope does not name them
                   (SELECT organisation_id, 1::bigint FROM job
                    WHERE $1::uuid[] IS NULL AND "# + $jobs + r#"
                    ORDER BY organisation_id, eshop_id, kind, created_at LIMIT 1)
                   UNION ALL
                   SELECT following.organisation_id, o.nth + 1
                   FROM owner o CROSS JOIN LATERAL (
                       SELECT organisation_id FROM job
                       WHERE "# + $jobs + r#" AND organisation_id > o.id
                       ORDER BY organisation_id, eshop_id, kind, created_at LIMIT 1) AS following
                   WHERE o.nth < $2
               ), last AS MATERIALIZED (
                   SELECT pair.* FROM (SELECT id FROM owner UNION ALL SELECT unnest($1::uuid[])) AS o
                   CROSS JOIN LATERAL (
                       SELECT organisation_id, eshop_id, kind, id, created_at FROM job
                       WHERE "# + $jobs + r#"
                         AND (organisation_id, eshop_id) >= (o.id, coalesce($3::uuid, '00000000-0000-0000-0000-000000000000'))
                         AND (organisation_id, eshop_id) <= (o.id, coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
                       ORDER BY organisation_id DESC, eshop_id DESC, kind DESC, created_at DESC LIMIT 1) AS pair
               ), pair (organisation_id, eshop_id, kind, id, created_at, nth) AS (
                   SELECT organisation_id, eshop_id, kind, id, created_at, 1::bigint FROM last
                   UNION ALL
                   SELECT previous.*, p.nth + 1
                   FROM pair p CROSS JOIN LATERAL (
                       SELECT organisation_id, eshop_id, kind, id, created_at FROM job
                       WHERE "# + $jobs + r#"
                         AND (organisation_id, eshop_id) >= (p.organisation_id, coalesce($3::uuid, '00000000-0000-0000-0000-000000000000'))
                         AND (organisation_id, eshop_id, kind) < (p.organisation_id, p.eshop_id, p.kind)
                       ORDER BY organisation_id DESC, eshop_id DESC, kind DESC, created_at DESC LIMIT 1) AS previous
                   WHERE p.nth < (SELECT $2 / greatest(count(*), 1) FROM last)
               ), recent AS MATERIALIZED (
                   SELECT organisation_id, eshop_id, kind, id, created_at,
                          row_number() OVER (PARTITION BY organisation_id ORDER BY created_at DESC, id) AS nth
                   FROM pair WHERE created_at > now() - make_interval(days => $4)
               ), newest AS (
                   SELECT organisation_id, eshop_id, kind, id, created_at FROM recent
                   WHERE nth <= (SELECT greatest($5 / greatest(count(*), 1), 1) FROM recent WHERE nth = 1)
               ), "# + $rest,
            $organisations as Option<&[longshore_kernel::ids::OrganisationId]>,
            $crate::job::shares::READ,
            $eshop as Option<longshore_kernel::ids::EshopId>,
            $days,
            $crate::job::shares::COMPARED
            $(, $parameter)*
        )
    };
}
