//! What an order shows (`docs/reference/orders.md#order`). The API calls orders expeditions.

use crate::list::fields::carrier::CARRIER;
use crate::list::fields::eshop::ESHOP;
use crate::list::fields::expedition_item::ITEM;
use crate::list::fields::organisation::ORGANISATION;
use crate::list::fields::product::PRODUCT;
use crate::list::fields::service::CARRIER_SERVICE;
use crate::list::fields::warehouse::WAREHOUSE;
use crate::list::fields::wms::WMS;
use crate::list::resource::{Field, Link, LookUp, Resource, Tenancy};
use longshore_kernel::words;

words! {
    /// The status of an order.
    pub enum ExpeditionStatus ("status of expeditions") {
        /// Created, or taken back.
        OnHold = "on_hold",
        /// Sent, and refused by a rule or by the warehouse.
        Incorrect = "incorrect",
        /// Sent; the allocator has not come to it, or its reservation is paused.
        AwaitingReservation = "awaiting_reservation",
        /// Not all of it is in stock.
        WaitingForGoods = "waiting_for_goods",
        /// All of it is booked; it waits to be confirmed.
        StockOk = "stock_ok",
        /// All of it is booked; the warehouse may begin.
        AwaitingProcessing = "awaiting_processing",
        /// It is picked.
        TakeOut = "take_out",
        /// It is packed.
        Completion = "completion",
        /// Packed: its pieces have left the stock.
        WaitingForTheCarrier = "waiting_for_the_carrier",
        /// On its way.
        CarrierPickedUp = "carrier_picked_up",
        /// At the pickup place.
        ReadyToTakeover = "ready_to_takeover",
        /// It had no more news.
        ProbablyDelivered = "probably_delivered",
        /// Delivered: the end.
        Delivered = "delivered",
        /// Cancelling was asked for; the warehouse has not answered.
        WaitingForCancel = "waiting_for_cancel",
        /// Cancelled: the end.
        Canceled = "canceled",
    }
}

words! {
    /// The state of an order between the service and the system of its warehouse
    /// (`docs/reference/orders.md#hand-over`).
    pub enum HandoverState ("state of hand-overs") {
        /// Due; no call of this number has begun.
        Pending = "pending",
        /// A call has begun: the warehouse may have it.
        Sending = "sending",
        /// The warehouse has it.
        Accepted = "accepted",
        /// Holding or cancelling was asked for; the warehouse has not answered.
        Withdrawing = "withdrawing",
        /// The warehouse has refused it.
        Refused = "refused",
        /// The warehouse has given it back.
        Withdrawn = "withdrawn",
    }
}

impl HandoverState {
    /// Whether the warehouse has the order, or may have it.
    #[must_use]
    pub fn is_handed_over(self) -> bool {
        matches!(self, Self::Sending | Self::Accepted | Self::Withdrawing)
    }
}

impl ExpeditionStatus {
    /// The line of a warehouse: each status, in order, from the first that hands the order to it.
    pub const LINE: [Self; 7] = [
        Self::AwaitingProcessing,
        Self::TakeOut,
        Self::Completion,
        Self::WaitingForTheCarrier,
        Self::CarrierPickedUp,
        Self::ReadyToTakeover,
        Self::Delivered,
    ];

    /// Its place on the line. One without further news is at the pickup place, as far as is known.
    #[must_use]
    pub fn place(self) -> Option<usize> {
        let known = if self == Self::ProbablyDelivered { Self::ReadyToTakeover } else { self };
        Self::LINE.iter().position(|status| *status == known)
    }

    /// Whether its pieces are booked: the twin of the function of the same name in SQL.
    #[must_use]
    pub fn is_booked(self) -> bool {
        matches!(
            self,
            Self::StockOk
                | Self::AwaitingProcessing
                | Self::TakeOut
                | Self::Completion
                | Self::WaitingForCancel
        )
    }

    /// Whether it waits for pieces: the twin of the function of the same name in SQL.
    #[must_use]
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::AwaitingReservation | Self::WaitingForGoods)
    }

    /// Whether the warehouse has it, or may have it, given where its hand-over is: the twin of the function of the same name in
    /// SQL.
    #[must_use]
    pub fn is_handed_over(self, handover: Option<HandoverState>) -> bool {
        self == Self::WaitingForCancel
            || self.place().is_some_and(|place| place > 0)
            || handover.is_some_and(HandoverState::is_handed_over)
    }

    /// Whether nothing comes after it.
    #[must_use]
    pub fn is_end(self) -> bool {
        matches!(self, Self::Delivered | Self::Canceled)
    }

    /// Whether its pieces have left the stock.
    #[must_use]
    pub fn is_packed(self) -> bool {
        self.place() >= Self::WaitingForTheCarrier.place()
    }

    /// Whether a body may change it: it has not been sent, or was refused.
    #[must_use]
    pub fn is_editable(self) -> bool {
        matches!(self, Self::OnHold | Self::Incorrect)
    }

    /// Whether a body may change who gets it and who ships it, although it has been sent: no warehouse has it.
    #[must_use]
    pub fn is_amendable(self, handover: Option<HandoverState>) -> bool {
        (self.is_waiting() || self.is_booked()) && !self.is_handed_over(handover)
    }
}

/// Parts of an address.
#[must_use]
pub fn is_address(field: &str) -> bool {
    let is_other = matches!(field, "deliveryMethod" | "deliveryCost" | "deliveryCostCurrency");
    (field.starts_with("billing") || field.starts_with("delivery")) && !is_other
}

/// Fields that say something of a person.
#[must_use]
pub fn is_personal(field: &str) -> bool {
    (is_address(field) && !field.ends_with("Country"))
        || matches!(
            field,
            "note"
                | "carrierNote"
                | "carrierPickupPlaceCode"
                | "externalCarrierPickupPlaceCode"
                | "carrierOptions"
                | "invoiceOriginalName"
        )
}

/// What is true of an order, or of an item with what it has of its order, that the wms `{w}` may see: the order is in it, and
/// is handed over.
pub(super) const OF_WMS: &str = "{t}.wms_id = {w} AND is_handed_over({t}.status, {t}.handover_state)";

/// Orders.
pub static EXPEDITION: Resource = Resource {
    name: "expedition",
    // left, so that what needs no detail, such as a count by status, does not look for it
    tables: &[
        "(expedition LEFT JOIN expedition_detail USING (id, eshop_id) LEFT JOIN expedition_handover USING (id))",
    ],
    order: "createdAt",
    version: "{t}.version",
    tenancy: Tenancy { eshop: Some("{t}.eshop_id = {e}"), wms: Some(OF_WMS), ..Tenancy::BY_ORGANISATION },
    fields: FIELDS,
    look_up: LookUp::new(),
};

const ITEMS: &Link =
    &Link { table: super::expedition_item::TABLE, of: "{l}.expedition_id = {t}.id", id: "{l}.product_id" };

const BUNDLES: &Link =
    &Link { table: "expedition_bundle", of: "{l}.expedition_id = {t}.id", id: "{l}.product_id" };

const BUNDLE: &[Field] =
    &[Field::one("product", "{t}.product_id", &PRODUCT), Field::integer("quantity", "{t}.quantity")];

const PARCELS: &Link = &Link { table: "expedition_parcel", of: "{l}.expedition_id = {t}.id", id: "{l}.id" };

const PARCEL: &[Field] = &[
    Field::text("extPackageNumber", "{t}.ext_package_number"),
    Field::text("extPackageTrackingNumber", "{t}.ext_package_tracking_number").or_null(),
    Field::text("extCarrierTrackingNumber", "{t}.ext_carrier_tracking_number").or_null(),
    Field::text("trackingUrl", "{t}.tracking_url").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
];

/// What an order has of its invoice.
macro_rules! of_invoice {
    ($column:literal) => {
        concat!("(SELECT v.", $column, " FROM expedition_invoice v WHERE v.expedition_id = {t}.id)")
    };
}

/// Its invoice.
const INVOICE: &[Field] = &[
    Field::text("name", of_invoice!("id || '.pdf'")),
    Field::text("originalName", of_invoice!("original_name")),
    Field::text("mimeType", of_invoice!("mime_type")),
    Field::integer("size", of_invoice!("size")),
];

/// How a carrier was chosen.
const CHOICE: &[Field] =
    &[Field::id("preference", "{t}.carrier_preference_id"), Field::timestamp("at", "{t}.carrier_chosen_at")];

const FIELDS: &[Field] = &[
    Field::id("id", "{t}.id"),
    Field::one("organisation", "{t}.organisation_id", &ORGANISATION),
    Field::one("eshop", "{t}.eshop_id", &ESHOP),
    Field::text("status", "{t}.status").among(&ExpeditionStatus::WORDS),
    Field::timestamp("statusSince", "{t}.status_since"),
    Field::boolean("reservationPaused", "{t}.reservation_paused"),
    Field::one("waitsFor", "(SELECT s.product_id FROM product_stock s WHERE s.id = {t}.waits_for_id)", &PRODUCT).or_null(),
    Field::one("warehouse", "{t}.warehouse_id", &WAREHOUSE),
    Field::one("wms", "{t}.wms_id", &WMS),
    Field::text("orderNumber", "{t}.order_number"),
    Field::text("externalId", "{t}.external_id").or_null(),
    Field::number("value", "{t}.value"),
    Field::text("currency", "{t}.currency"),
    Field::one("carrier", "{t}.carrier_id", &CARRIER).or_null(),
    Field::one("carrierService", "{t}.carrier_service_id", &CARRIER_SERVICE).or_null(),
    Field::object("carrierChoice", CHOICE).or_null().shown_as(
        "(CASE WHEN {t}.carrier_preference_id IS NOT NULL THEN json_build_object('preference', {t}.carrier_preference_id,
              'at', to_char({t}.carrier_chosen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"')) END)",
    ),
    Field::text("deliveryMethod", "{t}.delivery_method").or_null(),
    Field::id("carrierPickupPlace", "{t}.carrier_pickup_place").or_null(),
    Field::text("carrierPickupPlaceCode", "{t}.carrier_pickup_place_code").or_null(),
    Field::id("externalCarrierPickupPlace", "{t}.external_carrier_pickup_place").or_null(),
    Field::text("externalCarrierPickupPlaceCode", "{t}.external_carrier_pickup_place_code").or_null(),
    Field::text("billingFirstName", "{t}.billing_first_name").or_null(),
    Field::text("billingLastName", "{t}.billing_last_name").or_null(),
    Field::text("billingDegree", "{t}.billing_degree").or_null(),
    Field::text("billingCompany", "{t}.billing_company").or_null(),
    Field::text("billingStreet", "{t}.billing_street").or_null(),
    Field::text("billingHouseNr", "{t}.billing_house_nr").or_null(),
    Field::text("billingZip", "{t}.billing_zip").or_null(),
    Field::text("billingCity", "{t}.billing_city").or_null(),
    Field::text("billingCountry", "{t}.billing_country").or_null(),
    Field::text("billingState", "{t}.billing_state").or_null(),
    Field::text("billingEmail", "{t}.billing_email").or_null(),
    Field::text("billingPhone", "{t}.billing_phone").or_null(),
    Field::text("billingRegistrationNumber", "{t}.billing_registration_number").or_null(),
    Field::text("billingVatNumber", "{t}.billing_vat_number").or_null(),
    Field::boolean("differentDeliveryAddress", "{t}.different_delivery_address"),
    Field::text("deliveryFirstName", "{t}.delivery_first_name").or_null(),
    Field::text("deliveryLastName", "{t}.delivery_last_name").or_null(),
    Field::text("deliveryDegree", "{t}.delivery_degree").or_null(),
    Field::text("deliveryCompany", "{t}.delivery_company").or_null(),
    Field::text("deliveryStreet", "{t}.delivery_street").or_null(),
    Field::text("deliveryHouseNr", "{t}.delivery_house_nr").or_null(),
    Field::text("deliveryZip", "{t}.delivery_zip").or_null(),
    Field::text("deliveryCity", "{t}.delivery_city").or_null(),
    Field::text("deliveryCountry", "{t}.delivery_country").or_null(),
    Field::text("deliveryState", "{t}.delivery_state").or_null(),
    Field::text("deliveryEmail", "{t}.delivery_email").or_null(),
    Field::text("deliveryPhone", "{t}.delivery_phone").or_null(),
    // what clients of this API family ask: the country itself
    Field::text("billingCountry.code", "{t}.billing_country").or_null().hidden(),
    Field::text("deliveryCountry.code", "{t}.delivery_country").or_null().hidden(),
    Field::boolean("cod", "{t}.cod"),
    Field::number("codValue", "{t}.cod_value").or_null(),
    Field::text("codCurrency", "{t}.cod_currency").or_null(),
    Field::text("codVariableSymbol", "{t}.cod_variable_symbol").or_null(),
    Field::date("requiredExpeditionDate", "{t}.required_expedition_date").or_null(),
    Field::timestamp("eshopOrderDate", "{t}.eshop_order_date").or_null(),
    Field::integer("priority", "{t}.priority"),
    Field::boolean("waitBeforeProcessing", "{t}.wait_before_processing").or_null(),
    Field::boolean("editBeforeProcessing", "{t}.edit_before_processing").or_null(),
    Field::boolean("ignoreAddressValidation", "{t}.ignore_address_validation"),
    Field::boolean("fragile", "{t}.fragile"),
    Field::boolean("b2b", "{t}.b2b").or_null(),
    Field::number("deliveryCost", "{t}.delivery_cost").or_null(),
    Field::text("deliveryCostCurrency", "{t}.delivery_cost_currency").or_null(),
    Field::text("note", "{t}.note").or_null(),
    Field::text("carrierNote", "{t}.carrier_note").or_null(),
    Field::text("customerGroup", "{t}.customer_group").or_null(),
    Field::text("invoiceNumber", "{t}.invoice_number").or_null(),
    Field::text("ref1", "{t}.ref1").or_null(),
    Field::text("ref2", "{t}.ref2").or_null(),
    Field::text("ref3", "{t}.ref3").or_null(),
    Field::json("carrierOptions", "{t}.carrier_options").or_null(),
    Field::ids("services", "{t}.services"),
    Field::id("partner", "{t}.partner").or_null(),
    Field::text("trackingNumber", "{t}.tracking_number").or_null(),
    Field::text("trackingUrl", "{t}.tracking_url").or_null(),
    Field::text("genericTrackingUrl", "{t}.generic_tracking_url").or_null(),
    Field::text("externalTrackingNumber", "{t}.external_tracking_number").or_null(),
    Field::text("externalPackageNumber", "{t}.external_package_number").or_null(),
    Field::integer("packagesCount", "{t}.packages_count").or_null(),
    Field::json("removedVirtualProducts", "{t}.removed_virtual_products"),
    Field::id("user", "{t}.user_id").or_null(),
    Field::boolean("expeditedCompletely", "{t}.expedited_completely").or_null(),
    Field::boolean("partiallyDelivered", "(NOT {t}.expedited_completely)").or_null().extra(),
    Field::boolean("addressValidationExecuted", "{t}.address_validation_executed"),
    Field::integer("countOfItems", "{t}.count_of_items"),
    Field::integer("countOfSku", "{t}.count_of_sku"),
    Field::integer("sumOfQuantity", "{t}.sum_of_quantity"),
    Field::timestamp("packedAt", "{t}.packed_at").or_null(),
    Field::timestamp("sentAt", "{t}.sent_at").or_null(),
    Field::timestamp("deliveredAt", "{t}.delivered_at").or_null(),
    Field::json("errors", "{t}.errors").or_null().on_request(),
    Field::json(
        "handover",
        "CASE WHEN {t}.handover_state IS NOT NULL THEN json_build_object('state', {t}.handover_state,
             'number', {t}.handover_number,
             'since', to_char({t}.handover_since AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'),
             'attempts', {t}.handover_attempts,
             'nextAttemptAt', to_char({t}.handover_next_attempt_at AT TIME ZONE 'UTC',
                                      'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'),
             'error', {t}.handover_error, 'wmsInternalId', {t}.wms_internal_id,
             'inDoubt', {t}.handover_in_doubt, 'contentsUnknown', {t}.handover_contents_unknown) END",
    )
    .or_null(),
    Field::text("handover.state", "{t}.handover_state").or_null().among(&HandoverState::WORDS).hidden(),
    Field::timestamp("handover.since", "CASE WHEN {t}.handover_state IS NOT NULL THEN {t}.handover_since END")
        .or_null()
        .hidden(),
    Field::text("handover.error", "{t}.handover_error").or_null().hidden(),
    Field::boolean("handover.inDoubt", "{t}.handover_in_doubt").or_null().hidden(),
    Field::boolean("handover.contentsUnknown", "{t}.handover_contents_unknown").or_null().hidden(),
    Field::rows("items", ITEMS, ITEM, super::expedition_item::SHOWN).nesting("product", &PRODUCT).on_request(),
    Field::rows(
        "bundles",
        BUNDLES,
        BUNDLE,
        "(SELECT coalesce(json_agg(json_build_object('product', b.product_id, 'quantity', b.quantity, 'items',
                     ARRAY(SELECT i.id FROM expedition_item i
                           WHERE i.expedition_id = b.expedition_id AND i.bundle_position = b.position ORDER BY i.position))
                 ORDER BY b.position), '[]')
          FROM expedition_bundle b WHERE b.expedition_id = {t}.id)",
    )
    .on_request(),
    Field::rows(
        "parcels",
        PARCELS,
        PARCEL,
        "(SELECT coalesce(json_agg(json_build_object('extPackageNumber', p.ext_package_number,
                     'extPackageTrackingNumber', p.ext_package_tracking_number,
                     'extCarrierTrackingNumber', p.ext_carrier_tracking_number, 'trackingUrl', p.tracking_url,
                     'createdAt', to_char(p.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'),
                     'changedAt', to_char(p.changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'))
                 ORDER BY p.created_at, p.ext_package_number), '[]')
          FROM expedition_parcel p WHERE p.expedition_id = {t}.id)",
    )
    .on_request(),
    // the audit is the one home of its history
    Field::json(
        "audits",
        "(SELECT coalesce(json_agg(json_build_object('id', a.id, 'statusTo', a.changes -> 'status' -> 1,
                     'createdAt', to_char(a.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"+00:00\"'),
                     'updatedBy', a.actor_name) ORDER BY a.id), '[]')
          FROM audit a WHERE a.entity_id = {t}.id AND a.changes ? 'status')",
    )
    .on_request(),
    Field::object("invoice", INVOICE).or_null().shown_as(
        "(SELECT json_build_object('name', v.id || '.pdf', 'originalName', v.original_name, 'mimeType', v.mime_type,
                                   'size', v.size)
          FROM expedition_invoice v WHERE v.expedition_id = {t}.id)",
    ),
    Field::text(
        "invoiceUrl",
        "(SELECT '/api/expedition/' || v.expedition_id || '/invoice' FROM expedition_invoice v
          WHERE v.expedition_id = {t}.id)",
    )
    .or_null(),
    // not in criteria: generators of clients spell it like `invoice.originalName`
    Field::text("invoiceOriginalName", of_invoice!("original_name")).or_null().alone(),
    Field::boolean("withInvoice", "(EXISTS (SELECT FROM expedition_invoice v WHERE v.expedition_id = {t}.id))").hidden(),
    // of later stages; expressions of the row: Postgres sorts by no constant
    Field::boolean("withComplaint", "({t}.id IS NULL)"),
    Field::id("splitFrom", "(CASE WHEN {t}.id IS NULL THEN {t}.id END)").or_null(),
    Field::id("backorderOf", "(CASE WHEN {t}.id IS NULL THEN {t}.id END)").or_null(),
    Field::timestamp("createdAt", "{t}.created_at"),
    Field::timestamp("modifiedAt", "{t}.modified_at"),
    Field::timestamp("changedAt", "{t}.changed_at"),
    Field::integer("version", "{t}.version"),
];
