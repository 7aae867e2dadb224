//! The table of all resources, with their descriptions.

use longshore_domain::list::resource::Resource;

use super::record::Described;
use super::{account, catalog, expedition, job, reader, receipt, shipping, warehouse, webhook};

/// All resources.
pub(super) const ALL: &[&Described] = &[
    &account::ORGANISATION,
    &account::ESHOP,
    &account::SESSION,
    &account::ACCESS_TOKEN,
    &account::ADMIN,
    &account::BUSINESS_USER,
    &account::AUDIT,
    &expedition::EXPEDITION,
    &expedition::EXPEDITION_ITEM,
    &expedition::RESERVATION,
    &expedition::MOVEMENT,
    &receipt::OUTBOUND,
    &receipt::INBOUND,
    &expedition::LOST_ORDER,
    &warehouse::WAREHOUSE,
    &warehouse::WMS,
    &warehouse::PRODUCT_STOCK,
    &warehouse::SUPPLIER,
    &warehouse::STOCK_ADVICE,
    &catalog::PRODUCT,
    &catalog::PACKAGING_OPTION,
    &shipping::CARRIER,
    &shipping::CARRIER_SERVICE,
    &shipping::CARRIER_PREFERENCE,
    &webhook::WEBHOOK,
    &webhook::DELIVERY,
    &reader::READER,
    &job::JOB,
    &job::CHANGE,
    &job::PREVIEW,
];

/// The description of a resource.
pub(super) fn described(resource: &Resource) -> Option<&'static Described> {
    ALL.iter().copied().find(|described| std::ptr::eq(described.resource, resource))
}
