//! What belongs to an organisation: the one check of every reference to it and to what it owns
//! (`docs/reference/records.md#references`).

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::record::moved;
use longshore_kernel::access::Scope;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Violation;

/// Records that may be referred to by lists of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belonging {
    /// Organisations themselves, whichever.
    Organisation,
    /// Warehouses of one organisation.
    Warehouse,
    /// Wms of one organisation.
    Wms,
}

impl Belonging {
    fn table(self) -> &'static str {
        match self {
            Self::Organisation => "organisation",
            Self::Warehouse => "warehouse",
            Self::Wms => "wms",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Organisation => "does not exist",
            Self::Warehouse => "must be a warehouse of the organisation",
            Self::Wms => "must be a wms of the organisation",
        }
    }
}

/// An organisation that is not there, or not the caller's.
#[must_use]
pub fn no_such_organisation() -> Violation {
    Violation::new("organisation", "unknown_reference", Belonging::Organisation.message())
}

/// What is wrong with ids that must be those of records of an organisation: each that is none, by its path.
pub async fn strangers(
    connection: &mut PgConnection,
    belonging: Belonging,
    organisation: Option<OrganisationId>,
    path: &str,
    ids: &[Uuid],
) -> Result<Vec<Violation>, sqlx::Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let known = sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM organisation WHERE $1 = 'organisation' AND id = ANY($3)
           UNION ALL
           SELECT id FROM warehouse WHERE $1 = 'warehouse' AND id = ANY($3) AND organisation_id = $2
           UNION ALL
           SELECT id FROM wms WHERE $1 = 'wms' AND id = ANY($3) AND organisation_id = $2"#,
        belonging.table(),
        organisation as Option<OrganisationId>,
        ids,
    )
    .fetch_all(connection)
    .await?;
    let known: HashSet<Uuid> = known.into_iter().collect();
    let unknown = ids.iter().enumerate().filter(|(_, id)| !known.contains(id));
    let violation =
        |index| Violation::new(format!("{path}[{index}]"), "unknown_reference", belonging.message());
    Ok(unknown.map(|(index, _)| violation(index)).collect())
}

/// The organisation that a body names, if it is known, and what is wrong with it: the
/// organisation of a new record (`stored` is absent) must be there, and the caller's; that of a stored one never changes.
pub async fn owner(
    connection: &mut PgConnection,
    scope: &Scope,
    stored: Option<Uuid>,
    given: Option<Uuid>,
) -> Result<(Option<OrganisationId>, Vec<Violation>), sqlx::Error> {
    if let Some(stored) = stored {
        return Ok((Some(stored.into()), moved("organisation", given, stored).into_iter().collect()));
    }
    let Some(given) = given else { return Ok((None, Vec::new())) };
    let is_known = scope.has_organisation(given.into())
        && strangers(connection, Belonging::Organisation, None, "", &[given]).await?.is_empty();
    if is_known {
        return Ok((Some(given.into()), Vec::new()));
    }
    Ok((None, vec![no_such_organisation()]))
}

/// Locks the relation of wms and warehouses of an organisation. One lock covers both sides, so no order of locks is needed.
pub async fn lock_places(
    connection: &mut PgConnection,
    organisation: OrganisationId,
) -> Result<(), sqlx::Error> {
    sqlx::query!("SELECT FROM organisation WHERE id = $1 FOR NO KEY UPDATE", organisation.get())
        .execute(connection)
        .await
        .map(|_| ())
}
