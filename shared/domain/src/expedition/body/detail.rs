//! What follows from the fields of an order: its addresses, and how a carrier is chosen for it.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Detail, DetailFields};
use crate::expedition::shipper::Consignment;
use crate::list::fields::expedition::{is_address, is_personal};
use crate::record::FieldChange;
use longshore_kernel::authentication::MASK;

impl Detail {
    /// An order that says nothing yet.
    #[must_use]
    pub fn blank(id: Uuid) -> Self {
        Self { id, b2b: Some(false), ..Self::default() }
    }

    /// Puts what a body gives in place, with what follows from it: the currency of a payment on delivery, and the delivery
    /// address, which is the billing one unless it says otherwise; no priority is 0.
    pub fn take(&mut self, given: DetailFields) {
        let asks = given.different_delivery_address;
        let (before, followed) = (self.delivery(), !self.different_delivery_address);
        crate::record::Record::give(self, given);
        let delivery = self.delivery();
        if asks.is_none() && delivery != before {
            // where it was the billing address, null says nothing of another one
            let differs = |(delivery, billing): (&Option<String>, &Option<String>)| {
                delivery != billing && !(followed && delivery.is_none())
            };
            self.different_delivery_address = delivery.iter().zip(&self.billing()).any(differs);
        }
        if !self.different_delivery_address {
            self.follow_billing();
        }
        if self.cod_currency.is_none() && self.cod_value.is_some() {
            self.cod_currency = Some(self.currency.clone());
        }
        self.priority.get_or_insert(0);
    }
}

impl Detail {
    /// What of it a carrier is chosen by.
    pub(in crate::expedition) fn consignment(&self) -> Consignment {
        Consignment {
            country: self.delivery_country.clone(),
            method: self.delivery_method.clone(),
            value: self.value.to_string(),
            currency: self.currency.clone(),
            is_cod: self.cod,
            is_b2b: self.b2b.unwrap_or(false),
            has_pickup_place: self.carrier_pickup_place.is_some()
                || self.carrier_pickup_place_code.is_some()
                || self.external_carrier_pickup_place.is_some()
                || self.external_carrier_pickup_place_code.is_some(),
        }
    }
}

/// Fields that no booking depends on: they may change after an order was sent, until it is handed over.
pub(in crate::expedition) fn is_amendable(field: &str) -> bool {
    is_address(field)
        || matches!(
            field,
            "differentDeliveryAddress"
                | "note"
                | "carrierNote"
                | "carrierPickupPlace"
                | "carrierPickupPlaceCode"
                | "externalCarrierPickupPlace"
                | "externalCarrierPickupPlaceCode"
                | "carrier"
                | "carrierService"
                | "carrierChoice"
                | "deliveryMethod"
                | "ref1"
                | "ref2"
                | "ref3"
                | "externalId"
                | "requiredExpeditionDate"
        )
}

/// A change as the audit shows it: values that are personal are masked.
pub(in crate::expedition) fn masked(change: FieldChange) -> FieldChange {
    if !is_personal(change.field) {
        return change;
    }
    let mask = |value: Value| if value.is_null() { value } else { json!(MASK) };
    FieldChange { field: change.field, old: mask(change.old), new: mask(change.new) }
}

/// The parts of an address that both have.
macro_rules! addresses {
    ($($billing:ident $delivery:ident,)*) => {
        impl Detail {
            fn billing(&self) -> Vec<Option<String>> {
                vec![$(self.$billing.clone()),*]
            }

            fn delivery(&self) -> Vec<Option<String>> {
                vec![$(self.$delivery.clone()),*]
            }

            fn follow_billing(&mut self) {
                $(self.$delivery = self.$billing.clone();)*
            }
        }
    };
}

addresses! {
    billing_first_name delivery_first_name,
    billing_last_name delivery_last_name,
    billing_degree delivery_degree,
    billing_company delivery_company,
    billing_street delivery_street,
    billing_house_nr delivery_house_nr,
    billing_zip delivery_zip,
    billing_city delivery_city,
    billing_country delivery_country,
    billing_state delivery_state,
    billing_email delivery_email,
    billing_phone delivery_phone,
}
