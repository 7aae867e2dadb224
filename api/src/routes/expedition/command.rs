//! Operations on an order: 200 with the record.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::expedition::command::{self, Command};
use longshore_domain::expedition::together::Batcher;
use longshore_http::extract::{Failure, Id, IfMatch, May, OptionalJson, permit};
use longshore_kernel::ids::ExpeditionId;
use longshore_kernel::services::Services;

use crate::routes::view;

type Write = May<permit::WriteExpeditions>;

/// `PUT /api/expedition/{id}/send`: the body may be absent.
pub async fn send_expedition(
    State(services): State<Arc<Services>>,
    State(orders): State<Batcher>,
    may: Write,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    let command = command::read(body, command::send_body())?;
    Ok(view::answer(&orders.run(&services, &may, id, &command, &if_match).await?)?)
}

/// `PUT /api/expedition/{id}/process`.
pub async fn process_expedition(
    State(services): State<Arc<Services>>,
    State(orders): State<Batcher>,
    may: Write,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    Ok(view::answer(&orders.run(&services, &may, id, &Command::Process, &if_match).await?)?)
}

/// `PUT /api/expedition/{id}/rollback`.
pub async fn roll_back_expedition(
    State(services): State<Arc<Services>>,
    State(orders): State<Batcher>,
    may: Write,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    Ok(view::answer(&orders.run(&services, &may, id, &Command::Rollback, &if_match).await?)?)
}

/// `PUT /api/expedition/{id}/cancel`: the body may be absent.
pub async fn cancel_expedition(
    State(services): State<Arc<Services>>,
    State(orders): State<Batcher>,
    may: Write,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
    OptionalJson(body): OptionalJson,
) -> Result<Response, Failure> {
    let command = command::read(body, command::cancel_body())?;
    Ok(view::answer(&orders.run(&services, &may, id, &command, &if_match).await?)?)
}

/// `PATCH /api/expedition/{id}/rebook`.
pub async fn rebook_expedition(
    State(services): State<Arc<Services>>,
    State(orders): State<Batcher>,
    may: Write,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    Ok(view::answer(&orders.run(&services, &may, id, &Command::Rebook, &if_match).await?)?)
}

/// `PATCH /api/expedition/{id}/unbook`.
pub async fn unbook_expedition(
    State(services): State<Arc<Services>>,
    State(orders): State<Batcher>,
    may: Write,
    Id(id): Id<ExpeditionId>,
    if_match: IfMatch,
) -> Result<Response, Failure> {
    Ok(view::answer(&orders.run(&services, &may, id, &Command::Unbook, &if_match).await?)?)
}
