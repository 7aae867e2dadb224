//! Images of products (`docs/reference/products.md#images`).
//!
//! The bytes are in the object store; [`longshore_kernel::objects`] describes how they and the record stay consistent. The format
//! is detected from the bytes: nothing is decoded, only the dimensions are read, so a small file cannot expand to
//! gigabytes.
//!
//! An image never changes, and its id never comes back: its entity tag is the hash of its bytes.

pub mod picture;
pub mod upload_body;

use bytes::Bytes;
use futures::stream::BoxStream;
use serde_json::json;
use uuid::Uuid;

use self::picture::Picture;
use crate::catalog::product;
use longshore_kernel::access::Scope;
use longshore_kernel::answer::{Answer, Outcome};
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::crypto::sha256;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::problem::{CONFLICT, Problem, TOO_LARGE};
use longshore_kernel::queue::Queue;
use longshore_kernel::quota::Kind;
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use longshore_kernel::{ids, objects, tombstone};

/// Its entity type, on tombstones.
const ENTITY: &str = "image";

/// Bytes that an image may have.
pub const LARGEST: usize = 10 * 1024 * 1024;

/// Images that a product may have.
pub const MOST: i64 = 20;

/// The task of the upkeep that removes bytes.
pub const REMOVAL: &str = "objects";

fn key(id: Uuid) -> String {
    format!("product-image/{id}")
}

fn location(product: Uuid, id: Uuid) -> String {
    format!("{}/{id}", product::location(product))
}

/// The file is larger than an image or an invoice may be.
#[must_use]
pub fn too_large() -> Problem {
    Problem::new(&TOO_LARGE, format!("the file is larger than {LARGEST} bytes"))
}

/// An image on its way to a caller.
pub struct StoredImage {
    /// Media type.
    pub content_type: String,
    /// Bytes it has.
    pub size: i32,
    /// SHA-256 of its bytes, in hexadecimal digits, in quotes.
    pub etag: String,
    id: Uuid,
}

impl std::fmt::Debug for StoredImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoredImage({})", self.id)
    }
}

/// Stores a picture of a product. `member` names the part of the request that holds it.
///
/// Announce, put, record: a process that dies in between leaves an announcement that the upkeep clears.
pub async fn upload(
    services: &Services,
    context: &Context,
    product: Uuid,
    member: &'static str,
    bytes: Bytes,
) -> Result<Answer, Problem> {
    let picture = Picture::recognise(&bytes)
        .map_err(|reason| Problem::violation(member, reason.code(), reason.to_string()))?;
    let scope = context.scope();
    must_have_room(count(services, scope, product).await?)?;
    let id = ids::new_id();
    objects::storing(&services.db.main, &key(id), async || {
        put(services, context, product, id, &picture, bytes).await
    })
    .await
}

async fn put(
    services: &Services,
    context: &Context,
    product: Uuid,
    id: Uuid,
    picture: &Picture,
    bytes: Bytes,
) -> Result<Answer, Problem> {
    let hash = sha256(&bytes);
    let length = bytes.len();
    let size = i32::try_from(length).map_err(|_| too_large())?;
    services.objects.put(&key(id), bytes).await?;
    let mut change = Change::begin(services).await?;
    // the product is locked first: a concurrent upload counts only after this one
    lock(&mut change, context.scope(), product).await?;
    let images = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM product_image WHERE product_id = $1"#,
        product
    )
    .fetch_one(change.connection())
    .await?;
    must_have_room(images)?;
    let organisation = sqlx::query_scalar!("SELECT organisation_id FROM product WHERE id = $1", product)
        .fetch_one(change.connection())
        .await?;
    change.must_have_room(organisation.into(), Kind::Image).await?;
    change.must_have_room_for(organisation.into(), length).await?;
    if objects::claim(change.connection(), &key(id)).await?.is_lost() {
        return Err(Problem::new(&CONFLICT, "the upload took too long; try again"));
    }
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "product.image_add",
        product::ENTITY,
        Some(product::EVENT),
        "WITH made AS (
             INSERT INTO product_image (id, product_id, content_type, size, width, height, sha256)
             VALUES ($9, $10, $11, $12, $13, $14, $15)
         ), old AS (
             SELECT array_agg(id ORDER BY id) AS images FROM product_image WHERE product_id = $10
         ), written AS (
             UPDATE product
             SET version = version + 1
             WHERE id = $10
             RETURNING id, version, changed_at, organisation_id, product_sku
         ), changed AS (
             SELECT w.id AS entity, w.version, w.changed_at AS at, organisation_id AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = w.id) AS eshops,
                    jsonb_build_object('images', jsonb_build_array(coalesce(to_jsonb(old.images), '[]'),
                        to_jsonb(coalesce(old.images, '{}') || $9))) AS changes,
                    event_data(w.id, jsonb_build_object('organisation', organisation_id, 'productSku', product_sku),
                        '{images}', jsonb_build_object('images', to_jsonb(coalesce(old.images, '{}') || $9))) AS data
             FROM written w, old
         )",
        id,
        product,
        picture.content_type(),
        size,
        picture.width,
        picture.height,
        hash.as_slice(),
    )
    .await?;
    change.note(recorded);
    let body = json!({
        "id": id,
        "url": location(product, id),
        "contentType": picture.content_type(),
        "size": size,
        "width": picture.width,
        "height": picture.height,
        "sha256": hex::encode(hash),
    });
    let answer = Answer {
        outcome: Outcome::Created,
        location: Some(location(product, id)),
        etag: Some(format!("\"{}\"", hex::encode(hash))),
        ..Answer::shown(body.to_string())
    };
    change.answer(context.claim, answer).await
}

/// One image of a product that the caller may see.
pub async fn find(
    services: &Services,
    scope: &Scope,
    product: Uuid,
    id: Uuid,
) -> Result<StoredImage, Problem> {
    let found = sqlx::query!(
        "SELECT i.content_type, i.size, i.sha256 FROM product_image i JOIN product p ON p.id = i.product_id
         WHERE i.id = $4 AND p.id = $3 AND in_scope($1, p.organisation_id)
           AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop WHERE product_id = p.id AND eshop_id = $2))",
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        product,
        id,
    )
    .fetch_optional(&services.db.main)
    .await?;
    match found {
        Some(row) => Ok(StoredImage {
            content_type: row.content_type,
            size: row.size,
            etag: format!("\"{}\"", hex::encode(row.sha256)),
            id,
        }),
        None => Err(missing(services, scope, product, id).await),
    }
}

/// The bytes of an image that was found, as they come.
pub async fn read(
    services: &Services,
    found: &StoredImage,
) -> Result<BoxStream<'static, Result<Bytes, object_store::Error>>, Problem> {
    // deleted since it was found, or lost; the log has the key, and the next request gets the right answer
    services
        .objects
        .get(&key(found.id))
        .await?
        .ok_or_else(|| Problem::internal(format!("the object {} is not in the store", key(found.id))))
}

/// Deletes an image. The upkeep removes its bytes, and is notified at once.
pub async fn delete(
    services: &Services,
    context: &Context,
    product: Uuid,
    id: Uuid,
) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let scope = context.scope();
    if lock(&mut change, scope, product).await.is_err() || !has(&mut change, product, id).await? {
        return Err(missing(services, scope, product, id).await);
    }
    objects::discard(change.connection(), &key(id)).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "product.image_remove",
        product::ENTITY,
        Some(product::EVENT),
        "WITH old AS (
             SELECT array_agg(id ORDER BY id) AS images FROM product_image WHERE product_id = $10
         ), gone AS (
             DELETE FROM product_image WHERE id = $9 AND product_id = $10 RETURNING id
         ), written AS (
             UPDATE product
             SET version = version + 1
             WHERE id = $10
             RETURNING id, version, changed_at, organisation_id, product_sku
         ), buried AS (
             INSERT INTO tombstone (entity_type, entity_id, organisation_id, deleted_by)
             SELECT $11, gone.id, organisation_id, $3 FROM gone, written
         ), changed AS (
             SELECT w.id AS entity, w.version, w.changed_at AS at, organisation_id AS organisation,
                    ARRAY(SELECT eshop_id FROM product_eshop WHERE product_id = w.id) AS eshops,
                    jsonb_build_object('images',
                        jsonb_build_array(to_jsonb(old.images), to_jsonb(array_remove(old.images, $9)))) AS changes,
                    event_data(w.id, jsonb_build_object('organisation', organisation_id, 'productSku', product_sku),
                        '{images}', jsonb_build_object('images', to_jsonb(array_remove(old.images, $9)))) AS data
             FROM written w, old
         )",
        id,
        product,
        ENTITY,
    )
    .await?;
    change.note(recorded);
    let answer = change.answer(context.claim, Answer::done()).await?;
    services.queues.hand_over(Queue::Upkeep, [REMOVAL.to_owned()]);
    Ok(answer)
}

/// Why an image is not there. The tombstone has the organisation, so callers who may not see the product learn nothing.
async fn missing(services: &Services, scope: &Scope, product: Uuid, id: Uuid) -> Problem {
    match count(services, scope, product).await {
        Ok(_) => tombstone::missing(&services.db.main, scope, ENTITY, id).await,
        Err(problem) => problem,
    }
}

/// Images of a product that the caller may see.
async fn count(services: &Services, scope: &Scope, product: Uuid) -> Result<i64, Problem> {
    sqlx::query_scalar!(
        r#"SELECT (SELECT count(*) FROM product_image WHERE product_id = p.id) AS "count!" FROM product p
           WHERE id = $3 AND in_scope($1, organisation_id)
             AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop WHERE product_id = p.id AND eshop_id = $2))"#,
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        product,
    )
    .fetch_optional(&services.db.main)
    .await?
    .ok_or_else(|| Problem::not_found(product::ENTITY))
}

fn must_have_room(images: i64) -> Result<(), Problem> {
    if images < MOST {
        Ok(())
    } else {
        Err(Problem::new(&CONFLICT, format!("the product already has {MOST} images, which is the maximum")))
    }
}

/// Locks a product of the scope, as every change of it does.
async fn lock(change: &mut Change<'_>, scope: &Scope, product: Uuid) -> Result<(), Problem> {
    let locked = sqlx::query!(
        "SELECT FROM product
         WHERE id = $3 AND in_scope($1, organisation_id)
           AND ($2::uuid IS NULL OR EXISTS (SELECT FROM product_eshop WHERE product_id = product.id AND eshop_id = $2))
         FOR NO KEY UPDATE",
        scope.organisations() as Option<&[OrganisationId]>,
        scope.eshop() as Option<EshopId>,
        product,
    )
    .execute(change.connection())
    .await?;
    if locked.rows_affected() == 1 { Ok(()) } else { Err(Problem::not_found(product::ENTITY)) }
}

async fn has(change: &mut Change<'_>, product: Uuid, id: Uuid) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM product_image WHERE id = $1 AND product_id = $2) AS "has!""#,
        id,
        product,
    )
    .fetch_one(change.connection())
    .await
}
