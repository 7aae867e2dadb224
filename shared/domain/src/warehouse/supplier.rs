//! Suppliers: the senders of goods (`docs/reference/warehouses.md#supplier`). `organisation` never changes.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::account::belonging::owner;
use crate::list::fields::supplier::SUPPLIER;
use crate::record::{Editable, FieldChange, Judged, changes_json};
use crate::record_fields;
use longshore_kernel::access::Scope;
use longshore_kernel::change::Recorded;
use longshore_kernel::context::Origin;
use longshore_kernel::country::country;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::{Given, boolean, id, text};
use longshore_kernel::problem::{Problem, Violation};
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;

/// Characters that a note may have.
pub const MAX_NOTE: usize = 10_000;

record_fields! {
    /// A supplier as it is stored.
    Supplier
    /// What a body gives of a supplier.
    SupplierFields
    {
        /// Whose it is; never changes.
        organisation, "organisation": Option<Uuid> => Uuid, id();
        /// Name.
        name, "name": Option<String> => String, text(1..=255);
        /// Whether goods still come from it.
        active, "active": Option<bool> => bool, boolean();
        /// Name of the company.
        company_name, "companyName": Given<String> => Option<String>, text(0..=255);
        /// First name of the contact.
        first_name, "firstName": Given<String> => Option<String>, text(0..=255);
        /// Last name of the contact.
        last_name, "lastName": Given<String> => Option<String>, text(0..=255);
        /// Degree before the name.
        degree, "degree": Given<String> => Option<String>, text(0..=255);
        /// Degree after the name.
        degree2, "degree2": Given<String> => Option<String>, text(0..=255);
        /// Street.
        street, "street": Given<String> => Option<String>, text(0..=255);
        /// House number.
        house_nr, "houseNr": Given<String> => Option<String>, text(0..=255);
        /// City.
        city, "city": Given<String> => Option<String>, text(0..=255);
        /// Postal code.
        zip, "zip": Given<String> => Option<String>, text(0..=255);
        /// ISO 3166-1 alpha-2.
        country, "country": Given<String> => Option<String>, country();
        /// Phone number.
        phone, "phone": Given<String> => Option<String>, text(0..=255);
        /// E-mail address.
        email, "email": Given<String> => Option<String>, text(0..=255);
        /// Registration number.
        registration_number, "registrationNumber": Given<String> => Option<String>, text(0..=255);
        /// VAT number.
        vat_number, "vatNumber": Given<String> => Option<String>, text(0..=255);
        /// Free note.
        note, "note": Given<String> => Option<String>, text(0..=MAX_NOTE);
        /// Reference field.
        ref1, "ref1": Given<String> => Option<String>, text(0..=255);
        /// Reference field.
        ref2, "ref2": Given<String> => Option<String>, text(0..=255);
        /// Reference field.
        ref3, "ref3": Given<String> => Option<String>, text(0..=255);
    }
}

impl Editable for Supplier {
    const RESOURCE: &'static crate::list::resource::Resource = &SUPPLIER;
    const PATH: &'static str = "/api/supplier";
    const ENTITY: &'static str = "supplier";
    const REQUIRED: &'static [&'static str] = &["organisation", "name"];

    fn blank(id: Uuid) -> Self {
        Self { id, active: true, ..Self::default() }
    }

    fn quota(&self) -> Option<(Kind, OrganisationId)> {
        Some((Kind::Supplier, self.organisation.into()))
    }

    async fn lock(
        connection: &mut PgConnection,
        scope: &Scope,
        id: Uuid,
    ) -> Result<Option<Self>, sqlx::Error> {
        sqlx::query_as!(
            Self,
            "SELECT id, organisation_id AS organisation, name, active, company_name, first_name, last_name, degree, degree2, street, house_nr,
                    city, zip, country, phone, email, registration_number, vat_number,
                    note, ref1, ref2, ref3, version
             FROM supplier WHERE in_scope($1, organisation_id) AND id = $2
             FOR NO KEY UPDATE",
            scope.organisations() as Option<&[OrganisationId]>,
            id,
        )
        .fetch_optional(connection)
        .await
    }

    async fn judge(
        connection: &mut PgConnection,
        Judged { old, given, scope, .. }: Judged<'_, Self>,
    ) -> Result<Vec<Violation>, Problem> {
        let stored = old.map(|old| old.organisation);
        Ok(owner(connection, scope, stored, given.organisation).await?.1)
    }

    /// A supplier that comes is shown by its organisation, whose version it raises.
    async fn write(
        &self,
        connection: &mut PgConnection,
        origin: &Origin,
        action: &str,
        changes: &[FieldChange],
    ) -> Result<Recorded, sqlx::Error> {
        record_change!(
            connection,
            origin,
            action,
            Self::ENTITY,
            None,
            "WITH written AS (
                 INSERT INTO supplier AS s (id, organisation_id, name, active, company_name, first_name, last_name, degree, degree2, street,
                     house_nr, city, zip, country, phone, email,
                     registration_number, vat_number, note, ref1, ref2, ref3)
                 VALUES ($9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
                     $25, $26, $27, $28, $29, $30)
                 ON CONFLICT (id) DO UPDATE
                 SET name = excluded.name, active = excluded.active, company_name =
                     excluded.company_name, first_name = excluded.first_name,
                     last_name = excluded.last_name, degree = excluded.degree,
                     degree2 = excluded.degree2, street = excluded.street, house_nr
                     = excluded.house_nr, city = excluded.city, zip = excluded.zip,
                     country = excluded.country, phone = excluded.phone, email =
                     excluded.email, registration_number =
                     excluded.registration_number, vat_number = excluded.vat_number,
                     note = excluded.note, ref1 = excluded.ref1, ref2 =
                     excluded.ref2, ref3 = excluded.ref3,
                     version = s.version + 1
                 RETURNING id, version, changed_at, organisation_id, version = 1 AS is_new
             ), touched AS (
                 UPDATE organisation SET version = version + 1
                 WHERE id IN (SELECT organisation_id FROM written WHERE is_new)
             ), changed AS (
                 SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, '{}'::uuid[] AS eshops, $31::jsonb AS changes,
                        '{}'::jsonb AS data
                 FROM written
             )",
            self.id,
            self.organisation,
            self.name,
            self.active,
            self.company_name.as_deref() as Option<&str>,
            self.first_name.as_deref() as Option<&str>,
            self.last_name.as_deref() as Option<&str>,
            self.degree.as_deref() as Option<&str>,
            self.degree2.as_deref() as Option<&str>,
            self.street.as_deref() as Option<&str>,
            self.house_nr.as_deref() as Option<&str>,
            self.city.as_deref() as Option<&str>,
            self.zip.as_deref() as Option<&str>,
            self.country.as_deref() as Option<&str>,
            self.phone.as_deref() as Option<&str>,
            self.email.as_deref() as Option<&str>,
            self.registration_number.as_deref() as Option<&str>,
            self.vat_number.as_deref() as Option<&str>,
            self.note.as_deref() as Option<&str>,
            self.ref1.as_deref() as Option<&str>,
            self.ref2.as_deref() as Option<&str>,
            self.ref3.as_deref() as Option<&str>,
            changes_json(changes),
        )
        .await
    }
}
