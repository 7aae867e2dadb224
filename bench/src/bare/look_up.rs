//! The floor of a look-up of a product: the same query on the same kind of pool behind a bare axum handler,
//! without tokens, scopes, error shapes, request ids or entity tags.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use longshore_domain::list;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_kernel::access::Scope;
use longshore_kernel::config::DatabaseSettings;
use longshore_kernel::database::{Database, Use};
use longshore_kernel::ids::parse_id;
use tokio::net::TcpListener;
use uuid::Uuid;

/// The state of the handler.
#[derive(Clone)]
struct Bare {
    db: Database,
    scope: Arc<Scope>,
}

/// Serves `GET /api/product/{id}` for one organisation, until the process ends.
///
/// # Errors
/// When the database settings are wrong or the listener fails.
pub async fn serve(
    listener: TcpListener,
    settings: &DatabaseSettings,
    organisation: Uuid,
) -> anyhow::Result<()> {
    let db = Database::connect_lazy(settings, "longshore-bench", Use::Work)?;
    let bare = Bare { db, scope: Arc::new(Scope::Organisations([organisation.into()].into())) };
    let router = Router::new().route("/api/product/{id}", get(get_product)).with_state(bare);
    axum::serve(listener, router).await?;
    Ok(())
}

async fn get_product(State(bare): State<Bare>, request: Request) -> Response {
    let Some(id) = request.uri().path().rsplit('/').next().and_then(parse_id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match list::find(&bare.db.main, &PRODUCT, &bare.scope, id).await {
        Ok(Some(record)) => ([(CONTENT_TYPE, "application/json")], record.json).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
