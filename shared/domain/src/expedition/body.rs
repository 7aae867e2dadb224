//! What a body says of an order (`docs/reference/orders.md#order`): its fields, and its items as they came.

mod detail;
mod rule;

use chrono::{DateTime, NaiveDate, Utc};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(super) use self::detail::{is_amendable, masked};
pub(super) use self::rule::order_number;
use self::rule::{carrier_options, digits, items, variable_symbol};
use crate::account::person::email;
use crate::record_fields;
use longshore_kernel::amount::{Amount, amount};
use longshore_kernel::country::country;
use longshore_kernel::currency::currency;
use longshore_kernel::ids::EshopId;
use longshore_kernel::input::{Given, Object, Reader, array, boolean, date, id, int32, text, timestamp};
use longshore_kernel::problem::{Problem, Violation};

/// Items that a body may have, and that it may come to once its bundles are taken apart.
pub const MAX_ITEMS: usize = 1_000;
/// Pieces of an item.
pub const MAX_QUANTITY: i32 = 1_000_000;
/// Pieces of an order.
pub const MAX_PIECES: i64 = 10_000_000;
/// The highest priority.
pub const MAX_PRIORITY: i32 = 1_000;
/// Services that an order may name.
pub const MAX_SERVICES: usize = 100;
/// Packages of an order.
pub const MAX_PACKAGES: i32 = 999;
/// Characters of a note.
pub const NOTE_LENGTH: usize = 10_000;
/// Characters of an order number.
pub const NUMBER_LENGTH: usize = 32;

/// The fields of a body, and their columns, which have the names of the fields.
macro_rules! order_fields {
    ($($(#[$doc:meta])* $field:ident, $name:literal: $gives:ty => $stores:ty, $rule:expr;)*) => {
        record_fields! {
            /// What is stored of a body.
            Detail
            /// What a body gives of an order.
            DetailFields
            { $($(#[$doc])* $field, $name: $gives => $stores, $rule;)* }
        }

        impl Detail {
            /// The names of its fields.
            pub(super) const NAMES: &'static [&'static str] = &[$($name),*];

            /// Its fields, by the names of the API.
            pub(super) fn shown(&self) -> Map<String, Value> {
                let mut shown = Map::new();
                $(shown.insert($name.to_owned(), json!(self.$field));)*
                shown
            }

            /// Its columns.
            #[must_use]
            pub fn columns(&self) -> Map<String, Value> {
                let mut columns = Map::new();
                $(columns.insert(stringify!($field).to_owned(), json!(self.$field));)*
                columns
            }

            /// It, by the columns that were read.
            pub fn of_columns(id: Uuid, version: i64, mut columns: Map<String, Value>) -> Result<Self, Problem> {
                Ok(Self { id, version, $($field: column(&mut columns, stringify!($field))?,)* })
            }
        }
    };
}

order_fields! {
    /// Where it is shipped from; one of the e-shop's.
    warehouse_id, "warehouse": Option<Uuid> => Uuid, id();
    /// Which wms ships it; one of the warehouse's.
    wms_id, "wms": Option<Uuid> => Uuid, id();
    /// The number that the e-shop gave it; unique in the e-shop, never changes.
    order_number, "orderNumber": Option<String> => String, order_number();
    /// The e-shop's own id; unique in the e-shop.
    external_id, "externalId": Given<String> => Option<String>, text(1..=255);
    /// What the customer pays.
    value, "value": Option<Amount> => Amount, amount();
    /// In which currency, ISO 4217.
    currency, "currency": Option<String> => String, currency();
    /// Who ships it.
    carrier_id, "carrier": Given<Uuid> => Option<Uuid>, id();
    /// By which service of the carrier.
    carrier_service_id, "carrierService": Given<Uuid> => Option<Uuid>, id();
    /// What the e-shop calls the way of shipping.
    delivery_method, "deliveryMethod": Given<String> => Option<String>, text(0..=255);
    /// Pickup place.
    carrier_pickup_place, "carrierPickupPlace": Given<Uuid> => Option<Uuid>, id();
    /// Code of the pickup place.
    carrier_pickup_place_code, "carrierPickupPlaceCode": Given<String> => Option<String>, text(0..=100);
    /// Pickup place of another network.
    external_carrier_pickup_place, "externalCarrierPickupPlace": Given<Uuid> => Option<Uuid>, id();
    /// Code of that place.
    external_carrier_pickup_place_code, "externalCarrierPickupPlaceCode": Given<String> => Option<String>, text(0..=100);
    /// Who pays.
    billing_first_name, "billingFirstName": Given<String> => Option<String>, text(0..=255);
    /// Who pays.
    billing_last_name, "billingLastName": Given<String> => Option<String>, text(0..=255);
    /// Academic degree.
    billing_degree, "billingDegree": Given<String> => Option<String>, text(0..=255);
    /// Company.
    billing_company, "billingCompany": Given<String> => Option<String>, text(0..=255);
    /// Street.
    billing_street, "billingStreet": Given<String> => Option<String>, text(0..=255);
    /// House number.
    billing_house_nr, "billingHouseNr": Given<String> => Option<String>, text(0..=255);
    /// Zip; may be given as an integer.
    billing_zip, "billingZip": Given<String> => Option<String>, digits();
    /// City.
    billing_city, "billingCity": Given<String> => Option<String>, text(0..=255);
    /// Country, ISO 3166-1 alpha-2.
    billing_country, "billingCountry": Given<String> => Option<String>, country();
    /// State.
    billing_state, "billingState": Given<String> => Option<String>, text(0..=255);
    /// E-mail address.
    billing_email, "billingEmail": Given<String> => Option<String>, email();
    /// Phone number.
    billing_phone, "billingPhone": Given<String> => Option<String>, text(0..=255);
    /// Registration number of the company; may be given as an integer.
    billing_registration_number, "billingRegistrationNumber": Given<String> => Option<String>, digits();
    /// VAT number of the company.
    billing_vat_number, "billingVatNumber": Given<String> => Option<String>, text(0..=255);
    /// Whether it goes to another address than the billing one.
    different_delivery_address, "differentDeliveryAddress": Option<bool> => bool, boolean();
    /// Who receives it.
    delivery_first_name, "deliveryFirstName": Given<String> => Option<String>, text(0..=255);
    /// Who receives it.
    delivery_last_name, "deliveryLastName": Given<String> => Option<String>, text(0..=255);
    /// Academic degree.
    delivery_degree, "deliveryDegree": Given<String> => Option<String>, text(0..=255);
    /// Company.
    delivery_company, "deliveryCompany": Given<String> => Option<String>, text(0..=255);
    /// Street.
    delivery_street, "deliveryStreet": Given<String> => Option<String>, text(0..=255);
    /// House number.
    delivery_house_nr, "deliveryHouseNr": Given<String> => Option<String>, text(0..=255);
    /// Zip; may be given as an integer.
    delivery_zip, "deliveryZip": Given<String> => Option<String>, digits();
    /// City.
    delivery_city, "deliveryCity": Given<String> => Option<String>, text(0..=255);
    /// Country, ISO 3166-1 alpha-2.
    delivery_country, "deliveryCountry": Given<String> => Option<String>, country();
    /// State.
    delivery_state, "deliveryState": Given<String> => Option<String>, text(0..=255);
    /// E-mail address.
    delivery_email, "deliveryEmail": Given<String> => Option<String>, email();
    /// Phone number.
    delivery_phone, "deliveryPhone": Given<String> => Option<String>, text(0..=255);
    /// Whether it is paid on delivery.
    cod, "cod": Option<bool> => bool, boolean();
    /// What is paid on delivery.
    cod_value, "codValue": Given<Amount> => Option<Amount>, amount();
    /// In which currency; by default, that of the order.
    cod_currency, "codCurrency": Given<String> => Option<String>, currency();
    /// Variable symbol of the payment, up to 20 digits.
    cod_variable_symbol, "codVariableSymbol": Given<String> => Option<String>, variable_symbol();
    /// The day on which it should leave.
    required_expedition_date, "requiredExpeditionDate": Given<NaiveDate> => Option<NaiveDate>, date();
    /// When it was ordered in the e-shop.
    eshop_order_date, "eshopOrderDate": Given<DateTime<Utc>> => Option<DateTime<Utc>>, timestamp();
    /// Orders of a higher priority are served first.
    priority, "priority": Given<i32> => Option<i32>, int32(0..=MAX_PRIORITY);
    /// Whether it waits for a confirmation once it is booked; null: as the e-shop says.
    wait_before_processing, "waitBeforeProcessing": Given<bool> => Option<bool>, boolean();
    /// Whether an import leaves it on hold; null: as the e-shop says.
    edit_before_processing, "editBeforeProcessing": Given<bool> => Option<bool>, boolean();
    /// Whether it may be sent with an incomplete address.
    ignore_address_validation, "ignoreAddressValidation": Option<bool> => bool, boolean();
    /// Whether it is fragile.
    fragile, "fragile": Option<bool> => bool, boolean();
    /// Whether the customer is a business.
    b2b, "b2b": Given<bool> => Option<bool>, boolean();
    /// What the customer paid for the delivery.
    delivery_cost, "deliveryCost": Given<Amount> => Option<Amount>, amount();
    /// In which currency.
    delivery_cost_currency, "deliveryCostCurrency": Given<String> => Option<String>, currency();
    /// Note.
    note, "note": Given<String> => Option<String>, text(0..=NOTE_LENGTH);
    /// Note for the carrier.
    carrier_note, "carrierNote": Given<String> => Option<String>, text(0..=255);
    /// Group of the customer.
    customer_group, "customerGroup": Given<String> => Option<String>, text(0..=255);
    /// Number of the invoice.
    invoice_number, "invoiceNumber": Given<String> => Option<String>, text(0..=255);
    /// Free reference.
    ref1, "ref1": Given<String> => Option<String>, text(0..=255);
    /// Free reference.
    ref2, "ref2": Given<String> => Option<String>, text(0..=255);
    /// Free reference.
    ref3, "ref3": Given<String> => Option<String>, text(0..=255);
    /// What the carrier wants to know.
    carrier_options, "carrierOptions": Given<Value> => Option<Value>, carrier_options();
    /// Services, kept and not looked up.
    services, "services": Option<Vec<Uuid>> => Vec<Uuid>, array(0..=MAX_SERVICES, id());
    /// Partner, kept and not looked up.
    partner, "partner": Given<Uuid> => Option<Uuid>, id();
    /// Tracking number.
    tracking_number, "trackingNumber": Given<String> => Option<String>, text(0..=255);
    /// Where the package can be tracked.
    tracking_url, "trackingUrl": Given<String> => Option<String>, text(0..=2_000);
    /// The same, independent of the carrier.
    generic_tracking_url, "genericTrackingUrl": Given<String> => Option<String>, text(0..=2_000);
    /// Tracking number of another system.
    external_tracking_number, "externalTrackingNumber": Given<String> => Option<String>, text(0..=255);
    /// Package number of another system.
    external_package_number, "externalPackageNumber": Given<String> => Option<String>, text(0..=255);
    /// Number of packages.
    packages_count, "packagesCount": Given<i32> => Option<i32>, int32(0..=MAX_PACKAGES);
}

fn column<T: DeserializeOwned>(columns: &mut Map<String, Value>, name: &str) -> Result<T, Problem> {
    serde_json::from_value(columns.remove(name).unwrap_or(Value::Null)).map_err(Problem::internal)
}

/// The members of a body that name a carrier by its code, as rows of an import may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CarrierCodes {
    /// Code of the carrier.
    pub carrier: Option<i32>,
    /// Code of the service, of that carrier.
    pub service: Option<i32>,
}

/// An item of a body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewItem {
    /// Its product, by id or by SKU.
    pub product: Option<Uuid>,
    /// The SKU; beside an id, that of the same product, as a record that was read has both.
    pub product_sku: Option<String>,
    /// Pieces.
    pub quantity: i32,
    /// It is of no pieces, as what a shop has refunded: the order does not have it.
    pub is_left_out: bool,
    /// Everything else, by column.
    pub columns: Map<String, Value>,
}

/// A body: what it gives, and what is wrong with it. A refused field counts as absent; a refused item is blank.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The e-shop.
    pub eshop: Option<EshopId>,
    /// Its fields.
    pub fields: DetailFields,
    /// Its items.
    pub items: Option<Vec<NewItem>>,
    /// Carriers that are named by their codes.
    pub codes: CarrierCodes,
    /// Whether it is to be sent at once.
    pub send: Option<bool>,
    /// Violated rules.
    pub violations: Vec<Violation>,
}

impl Body {
    /// Whether it says anything of the carrier or its service.
    pub(super) fn names_carrier(&self) -> bool {
        self.fields.carrier_id.is_given()
            || self.fields.carrier_service_id.is_given()
            || self.codes.carrier.is_some()
            || self.codes.service.is_some()
    }

    /// Whether the carrier is the one of its id, given or stored, and not that of a code.
    pub(super) fn names_carrier_by_id(&self) -> bool {
        self.codes.carrier.is_none() || self.fields.carrier_id.is_given()
    }

    /// The same for the service of the carrier.
    pub(super) fn names_service_by_id(&self) -> bool {
        self.codes.service.is_none() || self.fields.carrier_service_id.is_given()
    }
}

/// What a create must say, beside the e-shop and the items.
const REQUIRED_TO_CREATE: &[&str] = &["orderNumber", "value", "currency"];

impl Body {
    /// Reads the fields that every form has; `rest` takes the others.
    pub(super) fn members<T>(
        object: &mut Object<'_>,
        is_new: bool,
        rest: impl FnOnce(&mut Object<'_>, &mut Self) -> T,
    ) -> (Self, T) {
        object.empty_is_null();
        let required = if is_new { REQUIRED_TO_CREATE } else { &[] };
        let mut read = Self {
            fields: <Detail as crate::record::Record>::read(object, required),
            items: object.required_if(is_new, "items", items()),
            ..Self::default()
        };
        // accepted, and filled in by the service
        object.take_others(|name| name == "removedVirtualProducts");
        let others = rest(object, &mut read);
        (read, others)
    }

    /// Reads a body, with everything that is wrong with it.
    pub(super) fn read<T: Default>(
        body: Value,
        is_new: bool,
        rest: impl FnOnce(&mut Object<'_>, &mut Self) -> T,
    ) -> (Self, T) {
        let mut reader = Reader::default();
        let (mut read, mut others) = Default::default();
        if let Some(mut object) = reader.object(body) {
            (read, others) = Self::members(&mut object, is_new, rest);
            object.finish();
        }
        let read: Self = read;
        (Self { violations: reader.into_violations(), ..read }, others)
    }
}

impl NewItem {
    /// Its columns, as an item of the order at that place; none where its product is named by its SKU.
    pub(super) fn row(&self, position: usize) -> Option<Value> {
        let mut row = self.columns.clone();
        row.insert("product_id".to_owned(), json!(self.product?));
        row.insert("position".to_owned(), json!(position));
        row.insert("quantity".to_owned(), json!(self.quantity));
        Some(Value::Object(row))
    }
}
