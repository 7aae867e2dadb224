//! Identifiers: a type for the id of each kind of record, and the one home of new ones.
//!
//! # In queries
//!
//! Postgres knows ids as `uuid`. A query takes one as `id.get()`, or as `id as ProductId`, which also goes for
//! `Option<ProductId>` and `&[ProductId]`: a slice is bound as it is. It gives one where a field of the type is filled from a
//! column that is not null (`query_as!` converts); other columns name their type: `eshop_id AS "eshop: EshopId"`,
//! `array_agg(id) AS "ids!: Vec<ProductId>"`.

use std::cmp::Ordering;
use std::fmt::{self, Debug, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};
use uuid::Uuid;

/// The id of a record of one kind. The kinds are the types in [`of`]; each has a short name, as [`ProductId`].
pub struct Id<T>(Uuid, PhantomData<fn() -> T>);

macro_rules! kinds {
    ($($what:literal: $kind:ident, $id:ident;)*) => {
        /// What an id is of.
        pub mod of {
            $(
                #[doc = concat!("The kind of ids of ", $what, ".")]
                #[derive(Clone, Copy, Debug)]
                pub enum $kind {}
            )*
        }

        $(
            #[doc = concat!("The id of ", $what, ".")]
            pub type $id = Id<of::$kind>;
        )*
    };
}

kinds! {
    "an organisation": Organisation, OrganisationId;
    "an e-shop": Eshop, EshopId;
    "a warehouse": Warehouse, WarehouseId;
    "a wms": Wms, WmsId;
    "a supplier": Supplier, SupplierId;
    "a carrier": Carrier, CarrierId;
    "a carrier service": CarrierService, CarrierServiceId;
    "a packaging option": PackagingOption, PackagingOptionId;
    "a product": Product, ProductId;
    "an image of a product": Image, ImageId;
    "a stock of a product in a warehouse": Stock, StockId;
    "a stock advice": StockAdvice, StockAdviceId;
    "an item of a stock advice": AdviceItem, AdviceItemId;
    "an integration setting": Setting, SettingId;
    "a job": Job, JobId;
    "a webhook": Webhook, WebhookId;
    "an event": Event, EventId;
    "a reader of events": EventReader, EventReaderId;
    "a delivery of an event": Delivery, DeliveryId;
    "a batch of deliveries": Batch, BatchId;
    "an admin": Admin, AdminId;
    "a business user": BusinessUser, BusinessUserId;
    "a session": Session, SessionId;
    "an access token": Token, TokenId;
    "an expedition": Expedition, ExpeditionId;
    "an item of an expedition": ExpeditionItem, ExpeditionItemId;
}

impl<T> Id<T> {
    /// A new one: ordered by time, as [`new_id`].
    #[must_use]
    pub fn new() -> Self {
        new_id().into()
    }

    /// Reads one as [`parse_id`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_id(text).map(Self::from)
    }

    /// The id that is before all others.
    #[must_use]
    pub const fn nil() -> Self {
        Self(Uuid::nil(), PhantomData)
    }

    /// The id of a number, for tests.
    #[must_use]
    pub const fn from_u128(number: u128) -> Self {
        Self(Uuid::from_u128(number), PhantomData)
    }

    /// Reads its bytes.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, uuid::Error> {
        Uuid::from_slice(bytes).map(Self::from)
    }

    /// The id without its kind.
    #[must_use]
    pub const fn get(self) -> Uuid {
        self.0
    }
}

/// The id of a record that has none yet: [`Id::nil`].
impl<T> Default for Id<T> {
    fn default() -> Self {
        Self::nil()
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> Debug for Id<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

impl<T> Display for Id<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl<T> FromStr for Id<T> {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Uuid>().map(Self::from)
    }
}

impl<T> From<Uuid> for Id<T> {
    fn from(id: Uuid) -> Self {
        Self(id, PhantomData)
    }
}

impl<T> From<Id<T>> for Uuid {
    fn from(id: Id<T>) -> Self {
        id.0
    }
}

impl<T> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Uuid::deserialize(deserializer).map(Self::from)
    }
}

impl<T> Type<Postgres> for Id<T> {
    fn type_info() -> PgTypeInfo {
        <Uuid as Type<Postgres>>::type_info()
    }
}

impl<T> PgHasArrayType for Id<T> {
    fn array_type_info() -> PgTypeInfo {
        Uuid::array_type_info()
    }
}

impl<T> Encode<'_, Postgres> for Id<T> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode_by_ref(&self.0, buffer)
    }
}

impl<'r, T> Decode<'r, Postgres> for Id<T> {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <Uuid as Decode<Postgres>>::decode(value).map(Self::from)
    }
}

/// A new version 7 UUID (RFC 9562): ordered by time, and within one process strictly increasing.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one home of ids")]
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// A random version 4 UUID, for what must not be guessed or ordered (claims, fencing).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one home of ids")]
pub fn random_id() -> Uuid {
    Uuid::new_v4()
}

/// Reads a UUID in the one form that the interface knows: 8-4-4-4-12 hexadecimal digits, in letters of any case
/// (`docs/reference/records.md#identifiers-and-timestamps`). It is written in small ones.
#[must_use]
pub fn parse_id(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    let mut buffer = Uuid::encode_buffer();
    id.hyphenated().encode_lower(&mut buffer).eq_ignore_ascii_case(text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hyphenated_form_is_an_id_in_letters_of_any_case() {
        let id = new_id();
        assert_eq!(parse_id(&id.to_string()), Some(id));
        assert_eq!(parse_id(&id.to_string().to_uppercase()), Some(id));
        assert_eq!(parse_id(&format!("urn:uuid:{id}")), None);
        assert_eq!(parse_id(&id.simple().to_string()), None);
        assert_eq!(parse_id(&format!("{{{id}}}")), None);
        assert_eq!(parse_id(""), None);
    }

    #[test]
    fn an_id_of_a_kind_is_written_and_read_as_a_bare_one() {
        let (id, bare) = (ProductId::new(), new_id());
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<ProductId>(&format!("\"{id}\"")).unwrap(), id);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string(), id.get().to_string());
        assert_eq!(ProductId::from(bare).get(), bare);
        assert!(id < ProductId::from(bare), "they are ordered as bare ones");
    }

    #[test]
    fn ids_of_one_process_increase() {
        let ids: Vec<_> = (0..10_000).map(|_| new_id()).collect();
        assert!(ids.is_sorted());
    }
}
