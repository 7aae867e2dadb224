//! The fields of a setting, read by their rules.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::job::guard::{self, GUARD, Guard};
use longshore_kernel::authentication::{self, Authentication, MASK};
use longshore_kernel::config::OutboundSettings;
use longshore_kernel::destination::{destination, is_same_origin};
use longshore_kernel::echo::Echo;
use longshore_kernel::ids::{EshopId, parse_id};
use longshore_kernel::input::{
    self, Object, Reader, Rule, Schema, array, boolean, custom, drafts, id, int32, object, one_of, secret,
    text,
};
use longshore_kernel::problem::Violation;

/// What a sync by the clock waits for, unless the setting says otherwise.
pub const INTERVAL_MINUTES: i32 = 60;

/// The longest that it may wait: a week.
pub const LONGEST_INTERVAL: i32 = 7 * 24 * 60;

/// The maximum reserve.
pub const LARGEST_RESERVE: i32 = 1_000_000;

/// Inventories, and warehouses, that a setting may name.
pub const MOST: usize = 100;

/// Credentials of a feed.
pub const FEED_TYPES: &[&str] = &["none", "basic", "bearer"];

/// A partner that the worker can speak to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Integration {
    /// BaseLinker's API.
    Baselinker,
    /// A URL that serves products or stocks as NDJSON or JSON.
    Feed,
}

impl Integration {
    /// Every spelling.
    pub const NAMES: &[&str] = &["baselinker", "feed"];

    /// Its spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Baselinker => "baselinker",
            Self::Feed => "feed",
        }
    }

    /// Reads its spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Baselinker, Self::Feed].into_iter().find(|kind| kind.as_str() == text)
    }

    /// How its credentials are shown.
    pub(super) fn masked(self, credentials: &Authentication) -> Value {
        match self {
            // it knows tokens only, and does not call them a type
            Self::Baselinker => json!({"token": MASK}),
            Self::Feed => Authentication::masked(credentials.kind()),
        }
    }
}

/// A part of the partner's catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inventory {
    /// The partner's id of it.
    pub inventory_id: String,
}

impl From<String> for Inventory {
    fn from(inventory_id: String) -> Self {
        Self { inventory_id }
    }
}

/// Which of our warehouses a warehouse of the partner is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    /// The partner's id of it.
    pub warehouse_id: String,
    /// Ours.
    pub warehouse: Uuid,
    /// The wms in it; absent: its default.
    pub wms: Option<Uuid>,
}

/// A sync by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sync {
    /// Whether it runs.
    pub enabled: bool,
    /// How often.
    pub interval_minutes: i32,
}

/// The same for stocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StockSync {
    /// Whether it runs.
    pub enabled: bool,
    /// How often.
    pub interval_minutes: i32,
    /// Pieces to subtract from the quantity that is sent to the partner.
    pub reserve: i32,
}

/// What a setting says, but for its credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingFields {
    /// The partner.
    #[serde(rename = "integrationType")]
    pub integration: Integration,
    /// Whether it is used at all.
    pub active: bool,
    /// Where the partner is, if not where it always is.
    pub base_url: Option<String>,
    /// What of its catalogue is read.
    pub inventories: Vec<Inventory>,
    /// Its warehouses.
    pub warehouses: Vec<Mapping>,
    /// Products by the clock.
    pub product_sync: Sync,
    /// Stocks by the clock.
    pub stock_sync: StockSync,
    /// How much a pull may destroy.
    pub guard: Option<Guard>,
}

impl SettingFields {
    /// Whether credentials for it are meant for another one, too: the same partner at the same place.
    pub(super) fn is_at_the_place_of(&self, other: &Self) -> bool {
        let same_place = match (&self.base_url, &other.base_url) {
            (Some(one), Some(other)) => is_same_origin(one, other),
            (None, None) => true,
            _ => false,
        };
        self.integration == other.integration && same_place
    }

    /// The mapped warehouse that is called so by the partner, or by its id.
    pub(in crate::partner) fn mapping(&self, name: &str) -> Option<&Mapping> {
        let own = parse_id(name);
        let called = self.warehouses.iter().filter(|m| m.warehouse_id == name || Some(m.warehouse) == own);
        // the partner's name comes first
        called.max_by_key(|mapping| mapping.warehouse_id == name)
    }

    /// Whether what the partner accepted counts: at another path, another feed may answer.
    pub(super) fn is_same_partner(&self, other: &Self) -> bool {
        (self.integration, &self.base_url) == (other.integration, &other.base_url)
    }
}

/// What a request says: credentials may be masked.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) wanted: SettingFields,
    pub(super) credentials: Authentication,
    /// Whether it says what the guard is: if not, that of a setting that is there stays.
    pub(super) says_guard: bool,
    /// Read-only members.
    pub(super) echo: Echo,
}

/// What a setting shows and no body changes.
const READ_ONLY: &[&str] = &[
    "id",
    "organisation",
    "nextProductSync",
    "nextStockSync",
    "blockedUntil",
    "lastError",
    "createdAt",
    "changedAt",
];

impl Given {
    /// Reads the body of a request about the setting of an e-shop: what it says, unless it is refused, the warehouses
    /// that it names in any case, and what is wrong with it.
    pub(super) fn read(
        outbound: &OutboundSettings,
        eshop: EshopId,
        body: Value,
    ) -> (Option<Self>, Vec<Mapping>, Vec<Violation>) {
        let rule = object(|object| Some(Self::members(object, outbound, eshop)));
        let ((given, mappings), refused) = Reader::draft(body, rule);
        (given.filter(|_| refused.is_empty()), mappings, refused)
    }

    fn members(
        object: &mut Object<'_>,
        outbound: &OutboundSettings,
        eshop: EshopId,
    ) -> (Option<Self>, Vec<Mapping>) {
        if object.optional("eshop", id()).is_some_and(|given| given != eshop.get()) {
            object.refuse("eshop", "not_allowed", "must be the e-shop of the path");
        }
        let kind = object.required("integrationType", one_of(Integration::NAMES));
        let integration = kind.and_then(Integration::parse);
        let active = object.optional_or("active", boolean(), true);
        let credentials = credentials(object, integration);
        let base_url = object.nullable("baseUrl", destination(outbound)).value();
        if integration == Some(Integration::Feed) && base_url.is_none() {
            object.refuse("baseUrl", "required", "is required for a feed");
        }
        let inventories = object.optional("inventories", inventories()).unwrap_or_default();
        let warehouses = object.optional("warehouses", warehouses()).unwrap_or_default();
        let never = Sync { enabled: false, interval_minutes: INTERVAL_MINUTES };
        let product_sync =
            object.optional("productSync", input::object(|object| Some(sync(object)))).unwrap_or(never);
        let stock_sync = object
            .optional("stockSync", input::object(|object| Some(stock_sync(object))))
            .unwrap_or(StockSync { enabled: false, interval_minutes: INTERVAL_MINUTES, reserve: 0 });
        let says_guard = object.has(GUARD);
        let guard = object.nullable(GUARD, guard::rule()).value();
        let guard = if says_guard { guard } else { Some(Guard::of_new_settings()) };
        let echo = Echo::of(object, false, |name| READ_ONLY.contains(&name));
        let mappings = warehouses.clone();
        let given = integration.zip(credentials).map(|(integration, credentials)| Self {
            wanted: SettingFields {
                integration,
                active,
                base_url,
                inventories,
                warehouses,
                product_sync,
                stock_sync,
                guard,
            },
            credentials,
            says_guard,
            echo,
        });
        (given, mappings)
    }
}

/// What the body of a request accepts.
#[must_use]
pub fn schema() -> Schema {
    Object::schema(|object| Given::members(object, &OutboundSettings::default(), EshopId::nil()))
}

fn credentials(object: &mut Object<'_>, integration: Option<Integration>) -> Option<Authentication> {
    match integration {
        Some(Integration::Baselinker) => object.required("credentials", secret(input::object(token))),
        Some(Integration::Feed) if object.has("credentials") => {
            object.required("credentials", authentication::read(FEED_TYPES))
        }
        Some(Integration::Feed) => Some(Authentication::None),
        // any of these, as long as the partner is not known
        None => {
            let any = authentication::schema(FEED_TYPES, false);
            object.optional("credentials", custom(any, |_: &mut Reader, _: Value| None))
        }
    }
}

fn token(object: &mut Object<'_>) -> Option<Authentication> {
    object.required("token", authentication::visible()).map(|token| Authentication::Bearer { token })
}

/// Parts of the partner's catalogue, each once.
pub fn inventories() -> impl Rule<Out = Vec<Inventory>> {
    let inventory = object(|object| object.required("inventoryId", text(1..=255)).map(Inventory::from));
    array(0..=MOST, inventory).then(|reader: &mut Reader, read: Vec<Inventory>| {
        reader.differ("inventoryId", read.iter().map(|inventory| inventory.inventory_id.as_str()));
        Some(read)
    })
}

/// Warehouses of the partner, each once.
pub fn warehouses() -> impl Rule<Out = Vec<Mapping>> {
    let mapping = object(|object| {
        let warehouse_id = object.required("warehouseId", text(1..=255)).unwrap_or_default();
        let warehouse = object.required("warehouse", id()).unwrap_or_default();
        let wms = object.nullable("wms", id()).value();
        Some(Mapping { warehouse_id, warehouse, wms })
    });
    drafts(0..=MOST, mapping).then(|reader: &mut Reader, read: Vec<Mapping>| {
        reader.differ("warehouseId", read.iter().map(|mapping| mapping.warehouse_id.as_str()));
        Some(read)
    })
}

fn stock_sync(object: &mut Object<'_>) -> StockSync {
    let Sync { enabled, interval_minutes } = sync(object);
    let reserve = object.optional_or("reserve", int32(0..=LARGEST_RESERVE), 0);
    StockSync { enabled, interval_minutes, reserve }
}

fn sync(object: &mut Object<'_>) -> Sync {
    let enabled = object.optional_or("enabled", boolean(), false);
    let interval_minutes =
        object.optional_or("intervalMinutes", int32(1..=LONGEST_INTERVAL), INTERVAL_MINUTES);
    Sync { enabled, interval_minutes }
}
