//! The tables of fields compared with the database: a field is nullable in the document exactly if its column
//! is.

use longshore_shared::account::admin::fields::ADMIN;
use longshore_shared::account::audit::fields::AUDIT;
use longshore_shared::account::business_user::fields::BUSINESS_USER;
use longshore_shared::account::eshop::fields::ESHOP;
use longshore_shared::account::organisation::fields::ORGANISATION;
use longshore_shared::account::token::fields::ACCESS_TOKEN;
use longshore_shared::catalog::packaging::fields::PACKAGING_OPTION;
use longshore_shared::catalog::product::fields::PRODUCT;
use longshore_shared::job::fields::JOB;
use longshore_shared::list::resource::{Field, Kind, Resource};
use longshore_shared::shipping::carrier::fields::CARRIER;
use longshore_shared::shipping::service::fields::CARRIER_SERVICE;
use longshore_shared::warehouse::stock::fields::PRODUCT_STOCK;
use longshore_shared::warehouse::stock_advice::fields::STOCK_ADVICE;
use longshore_shared::warehouse::supplier::fields::SUPPLIER;
use longshore_shared::warehouse::warehouse::fields::WAREHOUSE;
use longshore_shared::warehouse::wms::fields::WMS;
use longshore_shared::webhook::subscription::fields::WEBHOOK;
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
        let table = resource.table.strip_prefix("(SELECT * FROM ").unwrap_or(resource.table);
        let table = table.split(' ').next().unwrap();
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
