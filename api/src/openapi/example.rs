//! The records that all examples use: an organisation with an e-shop, a warehouse, a product. Those of events are in the domain.

pub(super) use longshore_domain::webhook::event::example::{
    ESHOP, EXPEDITION, EXPEDITION_ITEM, JOB, ORGANISATION, PRODUCT, PRODUCT_STOCK, STOCK_ADVICE, SUPPLIER,
    TOKEN, WAREHOUSE, WMS, job,
};

/// A webhook of the e-shop.
pub(super) const WEBHOOK: &str = "0192a1b2-7000-7000-8000-000000000007";
/// A delivery of the webhook.
pub(super) const DELIVERY: &str = "0192a1b2-7000-7000-8000-000000000008";
/// An event.
pub(super) const EVENT: &str = "0192a1b2-7000-7000-8000-00000000000a";
/// The redelivery of the delivery.
pub(super) const REDELIVERY: &str = "0192a1b2-7000-7000-8000-00000000000c";
/// The item of the stock advice.
pub(super) const STOCK_ADVICE_ITEM: &str = "0192a1b2-7000-7000-8000-000000000022";
/// A packaging option.
pub(super) const PACKAGING_OPTION: &str = "0192a1b2-7000-7000-8000-000000000023";
/// An image of the product.
pub(super) const IMAGE: &str = "0192a1b2-7000-7000-8000-000000000024";
/// A carrier.
pub(super) const CARRIER: &str = "0192a1b2-7000-7000-8000-000000000025";
/// A service of the carrier.
pub(super) const CARRIER_SERVICE: &str = "0192a1b2-7000-7000-8000-000000000026";
/// The integration setting of the e-shop.
pub(super) const INTEGRATION_SETTING: &str = "0192a1b2-7000-7000-8000-000000000027";
/// A record without its own resource.
pub(super) const ANY: &str = "0192a1b2-7000-7000-8000-00000000000d";
/// An admin of the organisation.
pub(super) const ADMIN: &str = "0192a1b2-7000-7000-8000-00000000000e";
/// A business user of the organisation.
pub(super) const BUSINESS_USER: &str = "0192a1b2-7000-7000-8000-00000000000f";
/// A session of the admin.
pub(super) const SESSION: &str = "0192a1b2-7000-7000-8000-000000000010";
/// A line of what needs attention.
pub(super) const ATTENTION: &str = "0192a1b2-7000-7000-8000-000000000011";
/// When the records were created.
pub(super) const CREATED: &str = "2026-01-31T12:00:00.123456+00:00";
/// When they were last changed.
pub(super) const CHANGED: &str = "2026-01-31T12:30:00.654321+00:00";
/// A carrier preference of the e-shop.
pub(super) const CARRIER_PREFERENCE: &str = "0192a1b2-7000-7000-8000-00000000002b";
/// An order that only the warehouse has.
pub(super) const LOST_ORDER: &str = "0192a1b2-7000-7000-8000-00000000002d";
/// A reader of events.
pub(super) const READER: &str = "0192a1b2-7000-7000-8000-00000000002c";
/// A movement of the stock.
pub(super) const STOCK_MOVEMENT: &str = "0192a1b2-7000-7000-8000-00000000002a";
