//! The types of events, in one table.

use longshore_kernel::change::EventType;

/// An organisation changed.
pub const ORGANIZATION_CHANGE: EventType = EventType {
    name: "organization_change",
    when: "the organisation of the e-shop was changed",
    status: false,
    shared: true,
};
/// A product changed.
pub const PRODUCT_CHANGE: EventType = EventType {
    name: "product_change",
    when: "a product of the e-shop was created or changed",
    status: false,
    shared: true,
};
/// A stock changed.
pub const PRODUCT_STOCK_CHANGE: EventType = EventType {
    name: "product_stock_change",
    when: "a stock of a product of the e-shop was changed",
    status: false,
    shared: true,
};
/// The status of a stock advice changed.
pub const STOCK_ADVICE_STATUS_CHANGE: EventType = EventType {
    name: "stock_advice_status_change",
    when: "the status of a stock advice changed",
    status: true,
    shared: true,
};
/// The status of an order changed.
pub const EXPEDITION_STATUS_CHANGE: EventType = EventType {
    name: "expedition_status_change",
    when: "the status of an order changed",
    status: true,
    shared: false,
};
/// The bookings of an order changed.
pub const EXPEDITION_BOOKED_CHANGE: EventType = EventType {
    name: "expedition_booked_change",
    when: "an order was booked or unbooked",
    status: true,
    shared: false,
};
/// An order changed, and its status did not.
pub const EXPEDITION_CHANGE: EventType = EventType {
    name: "expedition_change",
    when: "an order changed and its status did not",
    status: true,
    shared: false,
};
/// An order was deleted.
pub const EXPEDITION_DELETED: EventType =
    EventType { name: "expedition_deleted", when: "an order was deleted", status: false, shared: false };
/// A sync ended.
pub const SYNC_FINISHED: EventType =
    EventType { name: "sync_finished", when: "a sync of the e-shop ended", status: false, shared: false };
/// A job ended.
pub const JOB_FINISHED: EventType = EventType {
    name: "job_finished",
    when: "a job of the e-shop ended, or one of its organisation and no e-shop",
    status: false,
    shared: false,
};
/// Postgres was set back: what was heard may be of changes that are lost. Every webhook gets it.
pub const RESTORED: EventType = EventType {
    name: "restored",
    when: "the service was restored from a backup",
    status: false,
    shared: false,
};
/// A webhook was tested, and not with an example of another type.
pub const TEST: EventType =
    EventType { name: "test", when: "a test of the webhook was requested", status: false, shared: false };

/// Every type of event.
pub const TYPES: &[EventType] = &[
    ORGANIZATION_CHANGE,
    PRODUCT_CHANGE,
    PRODUCT_STOCK_CHANGE,
    STOCK_ADVICE_STATUS_CHANGE,
    EXPEDITION_STATUS_CHANGE,
    EXPEDITION_BOOKED_CHANGE,
    EXPEDITION_CHANGE,
    EXPEDITION_DELETED,
    SYNC_FINISHED,
    JOB_FINISHED,
    RESTORED,
    TEST,
];

/// Subscribes to every type.
pub const ALL: &str = "*";

/// The name of every type.
pub const NAMES: &[&str] = &names::<{ TYPES.len() }>();

/// What a webhook may subscribe to: each type of event, and all.
pub const SUBSCRIBABLE: &[&str] = &names::<{ TYPES.len() + 1 }>();

/// The names of the types, and [`ALL`] in the places after them.
const fn names<const COUNT: usize>() -> [&'static str; COUNT] {
    let mut names = [ALL; COUNT];
    let mut place = 0;
    while place < TYPES.len() {
        names[place] = TYPES[place].name;
        place += 1;
    }
    names
}
