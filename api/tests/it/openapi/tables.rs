//! The tables of fields compared with the database: a field is nullable in the document exactly if its column
//! is.

use longshore_domain::list::fields::admin::ADMIN;
use longshore_domain::list::fields::audit::AUDIT;
use longshore_domain::list::fields::business_user::BUSINESS_USER;
use longshore_domain::list::fields::carrier::CARRIER;
use longshore_domain::list::fields::eshop::ESHOP;
use longshore_domain::list::fields::job::JOB;
use longshore_domain::list::fields::organisation::ORGANISATION;
use longshore_domain::list::fields::packaging::PACKAGING_OPTION;
use longshore_domain::list::fields::preference::CARRIER_PREFERENCE;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::list::fields::service::CARRIER_SERVICE;
use longshore_domain::list::fields::stock::PRODUCT_STOCK;
use longshore_domain::list::fields::stock_advice::STOCK_ADVICE;
use longshore_domain::list::fields::subscription::WEBHOOK;
use longshore_domain::list::fields::supplier::SUPPLIER;
use longshore_domain::list::fields::token::ACCESS_TOKEN;
use longshore_domain::list::fields::warehouse::WAREHOUSE;
use longshore_domain::list::fields::wms::WMS;
use longshore_domain::list::resource::{Field, Kind, Resource};
use sqlx::PgPool;

use crate::product::MIGRATIONS;

/// Resources that are tables; deliveries are a union of two.
const TABLES: &[&Resource] = &[
    &ORGANISATION,
    &ESHOP,
    &ACCESS_TOKEN,
    &ADMIN,
    &BUSINESS_USER,
    &AUDIT,
    &WAREHOUSE,
    &WMS,
    &PRODUCT,
    &PRODUCT_STOCK,
    &JOB,
    &WEBHOOK,
    &SUPPLIER,
    &STOCK_ADVICE,
    &PACKAGING_OPTION,
    &CARRIER,
    &CARRIER_SERVICE,
    &CARRIER_PREFERENCE,
];

/// Fields that are columns, including those of objects.
fn columns(fields: &'static [Field]) -> Vec<(&'static Field, &'static str)> {
    let mut found = Vec::new();
    for field in fields {
        if let Kind::Object(inner) = field.kind {
            found.extend(columns(inner));
        }
        let column = field.sql.strip_prefix("{t}.").filter(|rest| !rest.contains([' ', '(']));
        found.extend(column.map(|column| (field, column)));
    }
    found
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn a_field_may_be_null_exactly_where_its_column_may(pool: PgPool) {
    let mut checked = 0;
    for resource in TABLES {
        // some tables of fields show only some rows of a table
        let table = resource.tables[0].trim_start_matches("(SELECT * FROM ").split(' ').next().unwrap();
        for (field, column) in columns(resource.fields) {
            let not_null: bool = sqlx::query_scalar(
                "SELECT attnotnull FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2",
            )
            .bind(table)
            .bind(column)
            .fetch_one(&pool)
            .await
            .unwrap();
            assert_eq!(field.nullable, !not_null, "{}.{}", resource.name, field.name);
            checked += 1;
        }
    }
    assert!(checked > 80, "{checked}");
}
