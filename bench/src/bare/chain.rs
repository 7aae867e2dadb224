//! The floor of a change with a webhook: a handler inserts a row and answers; a queue carries the row's id; a
//! consumer reads the row and posts it. The parts and the connections between them are those of the service,
//! but they do nothing else: no token, no rules, no audit, no lease, no signature, no record of the delivery.
//!
//! One process has the roles of api and worker, with a connection for each.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use futures::TryFutureExt as _;
use longshore_kernel::config::DatabaseSettings;
use longshore_kernel::database::{Database, Use};
use longshore_kernel::ids::new_id;
use longshore_testkit::client;
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamReadOptions, StreamReadReply};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tracing::error;
use url::Url;
use uuid::Uuid;

/// Its table, which the owner of the database creates: the chain runs in the role of the service.
pub const TABLE: &str = "CREATE TABLE IF NOT EXISTS bare_chain (id uuid PRIMARY KEY, body bytea NOT NULL);
                         GRANT SELECT, INSERT ON bare_chain TO longshore_service";

/// The queue.
const STREAM: &str = "bare-chain";

/// The field of an entry: the id of a row.
const FIELD: &str = "id";

/// The state of the handler.
#[derive(Clone)]
struct Bare {
    db: PgPool,
    queue: MultiplexedConnection,
}

/// Serves `POST /` over [`TABLE`], and posts each body to a receiver with its id as `webhook-id`, until the
/// process ends.
///
/// # Errors
/// When the database settings are wrong, Redis is away, or the listener fails.
pub async fn serve(
    listener: TcpListener,
    settings: &DatabaseSettings,
    redis_url: &str,
    receiver: Url,
) -> anyhow::Result<()> {
    let db = Database::connect_lazy(settings, "longshore-bench", Use::Work)?.main.of_work();
    let waiting = client::redis(redis_url).await?;
    tokio::spawn(
        tell(db.clone(), waiting, receiver).inspect_err(|error| error!(%error, "the chain has broken")),
    );
    let queue = client::redis(redis_url).await?;
    let router = Router::new().route("/", post(insert)).with_state(Bare { db, queue });
    axum::serve(listener, router).await?;
    Ok(())
}

async fn insert(State(bare): State<Bare>, body: Bytes) -> StatusCode {
    let id = new_id();
    let inserted =
        sqlx::query("INSERT INTO bare_chain VALUES ($1, $2)").bind(id).bind(&body[..]).execute(&bare.db);
    if let Err(error) = inserted.await {
        error!(%error, "the chain cannot insert");
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    let mut queue = bare.queue;
    // as in the service, the caller does not wait for the queue
    tokio::spawn(async move {
        let added: redis::RedisResult<()> = queue.xadd(STREAM, "*", &[(FIELD, id.to_string())]).await;
        added.inspect_err(|error| error!(%error, "the chain cannot hand over"))
    });
    StatusCode::CREATED
}

async fn tell(db: PgPool, mut queue: MultiplexedConnection, receiver: Url) -> anyhow::Result<()> {
    let http = client::outside()?;
    // shorter than the time-out of the connection
    let wait = StreamReadOptions::default().block(5_000).count(64);
    let mut last = "0".to_owned();
    loop {
        let read: Option<StreamReadReply> = queue.xread_options(&[STREAM], &[&last], &wait).await?;
        for entry in read.into_iter().flat_map(|read| read.keys).flat_map(|stream| stream.ids) {
            let id: Option<Uuid> = entry.get::<String>(FIELD).and_then(|id| id.parse().ok());
            last = entry.id;
            let (db, http, receiver) = (db.clone(), http.clone(), receiver.clone());
            tokio::spawn(
                async move {
                    let body: Vec<u8> = sqlx::query_scalar("SELECT body FROM bare_chain WHERE id = $1")
                        .bind(id)
                        .fetch_one(&db)
                        .await?;
                    let id = id.unwrap_or_default().to_string();
                    http.post(receiver).header("webhook-id", id).body(body).send().await?;
                    anyhow::Ok(())
                }
                .inspect_err(|error| error!(%error, "the chain cannot tell")),
            );
        }
    }
}
