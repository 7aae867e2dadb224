//! Invoices of orders (`docs/reference/orders.md#invoice`): a PDF each at most. Their bytes are in the object store, as those of
//! images; nothing of them is read but how they begin.

use bytes::Bytes;
use futures::stream::BoxStream;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::body::masked;
use super::decision::wrong_status;
use super::order::{self, Order};
use super::write::{ENTITY, change_event, location};
use crate::catalog::image::{LARGEST, REMOVAL, too_large};
use crate::list;
use crate::list::fields::event::EXPEDITION_CHANGE;
use crate::list::fields::expedition::EXPEDITION;
use crate::record::{FieldChange, changes_json};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::{Answer, Outcome};
use longshore_kernel::change::{Change, Recorded};
use longshore_kernel::context::{Context, Origin};
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::{self, ExpeditionId};
use longshore_kernel::problem::{CONFLICT, Problem};
use longshore_kernel::queue::Queue;
use longshore_kernel::services::Services;
use longshore_kernel::{objects, record_change, tombstone};

/// The media type of an invoice.
pub const MEDIA_TYPE: &str = "application/pdf";
/// The mark of a PDF, and in how many of its first bytes readers look for it: scanners and web servers put lines before it.
const SIGNATURE: &[u8] = b"%PDF-";
const LOOKED_AT: usize = 1024;
/// Characters of the name of a file.
pub const NAME_LENGTH: usize = 255;
/// Its name where the file has none.
const UNNAMED: &str = "invoice.pdf";

fn key(id: Uuid) -> String {
    format!("expedition-invoice/{id}")
}

/// The path of the invoice of an order.
fn path(order: ExpeditionId) -> String {
    format!("{}/invoice", location(order))
}

/// A file that is uploaded.
#[derive(Clone, Debug)]
pub struct File {
    /// The part of the request that has it.
    pub member: &'static str,
    /// Its name, as the caller calls it.
    pub name: Option<String>,
    /// Its bytes.
    pub bytes: Bytes,
}

/// An invoice, as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    id: Uuid,
    /// The name of the uploaded file.
    pub original_name: String,
    /// Bytes it has.
    pub size: i32,
    sha256: Vec<u8>,
}

impl Stored {
    /// SHA-256 of its bytes, in hexadecimal digits, in quotes.
    #[must_use]
    pub fn etag(&self) -> String {
        format!("\"{}\"", hex::encode(&self.sha256))
    }

    /// As the record of its order shows it.
    fn shown(&self) -> Value {
        let mut shown = self.told();
        shown["originalName"] = json!(self.original_name);
        shown
    }

    /// As the audit and events show it. The name of its file may be that of a customer.
    fn told(&self) -> Value {
        json!({"name": format!("{}.pdf", self.id), "mimeType": MEDIA_TYPE, "size": self.size})
    }
}

/// Stores the invoice of an order that has not ended, in the place of the one that it has: 201 with the invoice.
///
/// Announce, put, record: a process that dies in between leaves an announcement that the upkeep clears.
pub async fn upload(
    services: &Services,
    context: &Context,
    order: ExpeditionId,
    file: File,
) -> Result<Answer, Problem> {
    let File { member, name, bytes } = file;
    if bytes.is_empty() {
        return Err(Problem::violation(member, "required", "is empty"));
    }
    if !bytes.get(..LOOKED_AT).unwrap_or(&bytes).windows(SIGNATURE.len()).any(|part| part == SIGNATURE) {
        let message = "must be a PDF; the content of the file is not";
        return Err(Problem::violation(member, "unsupported_file", message));
    }
    // looked at before anything is stored
    is_open(&find_order(services, context.scope(), order).await?)?;
    let stored = Stored {
        id: ids::new_id(),
        original_name: name.and_then(|name| named(&name)).unwrap_or_else(|| UNNAMED.to_owned()),
        size: i32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LARGEST).ok_or_else(too_large)?,
        sha256: sha256(&bytes).to_vec(),
    };
    let key = key(stored.id);
    objects::storing(&services.db.main, &key, async || {
        services.objects.put(&key, bytes.clone()).await?;
        record(services, context, order, &stored).await
    })
    .await
}

/// The name of a file, without the folders that some browsers put before it, and without what no header may have.
fn named(name: &str) -> Option<String> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let name: String = name.chars().filter(|c| !c.is_control()).take(NAME_LENGTH).collect();
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

async fn record(
    services: &Services,
    context: &Context,
    id: ExpeditionId,
    new: &Stored,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let order = lock(change.connection(), context.scope(), id).await?;
    is_open(&order)?;
    let old = stored(change.connection(), id).await?;
    let grows = new.size - old.as_ref().map_or(0, |old| old.size);
    if let Ok(bytes) = usize::try_from(grows) {
        change.must_have_room_for(order.organisation, bytes).await?;
    }
    if objects::claim(change.connection(), &key(new.id)).await?.is_lost() {
        return Err(Problem::new(&CONFLICT, "the upload took too long; try again"));
    }
    if let Some(old) = &old {
        objects::discard(change.connection(), &key(old.id)).await?;
    }
    sqlx::query!(
        "INSERT INTO expedition_invoice AS i (expedition_id, id, original_name, mime_type, size, sha256)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (expedition_id) DO UPDATE
         SET id = excluded.id, original_name = excluded.original_name, size = excluded.size, sha256 = excluded.sha256,
             created_at = excluded.created_at",
        id.get(),
        new.id,
        new.original_name,
        MEDIA_TYPE,
        new.size,
        new.sha256,
    )
    .execute(change.connection())
    .await?;
    let recorded = write(
        change.connection(),
        &context.origin,
        "expedition.invoice_add",
        &order,
        old.as_ref(),
        Some(new),
    )
    .await?;
    change.note(recorded);
    let answer = Answer {
        outcome: Outcome::Created,
        location: Some(path(id)),
        etag: Some(new.etag()),
        ..Answer::shown(new.shown().to_string())
    };
    let answer = change.answer(context.claim, answer).await?;
    if old.is_some() {
        services.queues.hand_over(Queue::Upkeep, [REMOVAL.to_owned()]);
    }
    Ok(answer)
}

/// The invoice of an order that the caller may see.
pub async fn find(services: &Services, scope: &Scope, id: ExpeditionId) -> Result<Stored, Problem> {
    let mut connection = services.db.main.acquire().await?;
    if list::find(&mut *connection, &EXPEDITION, scope, id.get()).await?.is_none() {
        return Err(tombstone::missing(&mut *connection, scope, ENTITY, id.get()).await);
    }
    stored(&mut connection, id).await?.ok_or_else(|| Problem::not_found("invoice"))
}

/// The bytes of an invoice that was found, as they come.
pub async fn read(
    services: &Services,
    found: &Stored,
) -> Result<BoxStream<'static, Result<Bytes, object_store::Error>>, Problem> {
    // deleted since it was found, or lost; the log has the key, and the next request gets the right answer
    let key = key(found.id);
    let bytes = services.objects.get(&key).await?;
    bytes.ok_or_else(|| Problem::internal(format!("the object {key} is not in the store")))
}

/// Deletes the invoice of an order that has not ended: 204. The upkeep removes its bytes, and is notified at once.
pub async fn delete(services: &Services, context: &Context, id: ExpeditionId) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let order = lock(change.connection(), context.scope(), id).await?;
    let old = stored(change.connection(), id).await?.ok_or_else(|| Problem::not_found("invoice"))?;
    is_open(&order)?;
    discard(change.connection(), id).await?;
    let origin = &context.origin;
    let recorded =
        write(change.connection(), origin, "expedition.invoice_remove", &order, Some(&old), None).await?;
    change.note(recorded);
    let answer = change.answer(context.claim, Answer::done()).await?;
    services.queues.hand_over(Queue::Upkeep, [REMOVAL.to_owned()]);
    Ok(answer)
}

/// Deletes the invoice of an order, with its bytes, before its order is deleted if that is: the quota counts it by its order.
pub(super) async fn discard(connection: &mut PgConnection, order: ExpeditionId) -> Result<(), sqlx::Error> {
    let deleted = sqlx::query_scalar!(
        "DELETE FROM expedition_invoice WHERE expedition_id = $1 RETURNING id",
        order.get()
    )
    .fetch_optional(&mut *connection)
    .await?;
    match deleted {
        Some(id) => objects::discard(connection, &key(id)).await,
        None => Ok(()),
    }
}

async fn stored(connection: &mut PgConnection, order: ExpeditionId) -> Result<Option<Stored>, sqlx::Error> {
    sqlx::query_as!(
        Stored,
        "SELECT id, original_name, size, sha256 FROM expedition_invoice WHERE expedition_id = $1",
        order.get(),
    )
    .fetch_optional(connection)
    .await
}

async fn lock(connection: &mut PgConnection, scope: &Scope, id: ExpeditionId) -> Result<Order, Problem> {
    match order::lock(connection, scope, &[id]).await?.pop() {
        Some(order) => Ok(order),
        None => Err(tombstone::missing(connection, scope, ENTITY, id.get()).await),
    }
}

/// The order, as it is at this moment.
async fn find_order(services: &Services, scope: &Scope, id: ExpeditionId) -> Result<Order, Problem> {
    let mut tx = services.db.main.transaction(None).await?;
    lock(&mut tx, scope, id).await
}

fn is_open(order: &Order) -> Result<(), Problem> {
    let status = order.state.status;
    if status.is_end() { Err(wrong_status(status, "it has ended")) } else { Ok(()) }
}

/// Writes what becomes of the invoice of an order to its version, its audit and its event.
async fn write(
    connection: &mut PgConnection,
    origin: &Origin,
    action: &str,
    order: &Order,
    old: Option<&Stored>,
    new: Option<&Stored>,
) -> Result<Recorded, sqlx::Error> {
    let url = |invoice: Option<&Stored>| json!(invoice.map(|_| path(order.id)));
    let name = |invoice: Option<&Stored>| json!(invoice.map(|invoice| &invoice.original_name));
    let changes = [
        ("invoice", json!(old.map(Stored::told)), json!(new.map(Stored::told))),
        ("invoiceUrl", url(old), url(new)),
        ("invoiceOriginalName", name(old), name(new)),
    ];
    let changes: Vec<FieldChange> = changes
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(field, old, new)| masked(FieldChange { field, old, new }))
        .collect();
    record_change!(
        connection,
        origin,
        action,
        ENTITY,
        Some(EXPEDITION_CHANGE),
        "WITH written AS (
             UPDATE expedition SET version = version + 1 WHERE id = $9
             RETURNING id, version, changed_at, organisation_id, eshop_id
         ), changed AS (
             SELECT id AS entity, version, changed_at AS at, organisation_id AS organisation, ARRAY[eshop_id] AS eshops,
                    $10::jsonb AS changes, $11::jsonb AS data
             FROM written
         )",
        order.id.get(),
        changes_json(&changes),
        change_event(order, order.state.status, &changes, Vec::new()),
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_has_no_folders_and_nothing_that_a_header_may_not_have() {
        for (given, name) in [
            ("invoice 7.pdf", Some("invoice 7.pdf")),
            (r"C:\Users\Ada\a.pdf", Some("a.pdf")),
            ("../../etc/passwd", Some("passwd")),
            ("a\r\nSet-Cookie: b.pdf", Some("aSet-Cookie: b.pdf")),
            ("faktura č. 7.pdf", Some("faktura č. 7.pdf")),
            ("folder/", None),
            ("  ", None),
        ] {
            assert_eq!(named(given).as_deref(), name, "{given}");
        }
        assert_eq!(named(&"ž".repeat(300)).map(|name| name.chars().count()), Some(NAME_LENGTH));
    }
}
