//! Records that are created and changed by a body of their fields (`longshore_domain::record`). They differ in their type only, so
//! a line of `urls.rs` names it: `resource::create::<Supplier>` is the operation `create_supplier`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use longshore_domain::account::eshop::Eshop;
use longshore_domain::account::organisation::Organisation;
use longshore_domain::catalog::packaging::PackagingOption;
use longshore_domain::record::{self, Editable};
use longshore_domain::shipping::carrier::Carrier;
use longshore_domain::shipping::preference::CarrierPreference;
use longshore_domain::shipping::service::CarrierService;
use longshore_domain::warehouse::supplier::Supplier;
use longshore_domain::warehouse::warehouse::Warehouse;
use longshore_domain::warehouse::wms::Wms;
use longshore_http::app::App;
use longshore_http::extract::may::Permit;
use longshore_http::extract::{Failure, Id, IfMatch, IfNoneMatch, JsonBody, ListRequest, May, Once, permit};
use longshore_kernel::services::Services;

use super::{list as lists, view};

/// A record, and who may create and change it. `permit::Read` is enough to see it.
pub trait Resource: Editable {
    /// The permission to write it.
    type Write: Permit;
}

impl Resource for Organisation {
    type Write = permit::WriteOrganisations;
}

impl Resource for Eshop {
    type Write = permit::WriteEshops;
}

impl Resource for Warehouse {
    type Write = permit::WriteOrganisations;
}

impl Resource for Wms {
    type Write = permit::WriteEshops;
}

impl Resource for Supplier {
    type Write = permit::WriteAdvices;
}

impl Resource for PackagingOption {
    type Write = permit::WriteOrganisations;
}

impl Resource for Carrier {
    type Write = permit::WriteCarriers;
}

impl Resource for CarrierService {
    type Write = permit::WriteCarriers;
}

impl Resource for CarrierPreference {
    type Write = permit::WritePreferences;
}

/// `POST /api/…`: 201 with the record, executed once for each idempotency key.
pub async fn create<R: Resource>(
    State(services): State<Arc<Services>>,
    may: May<R::Write>,
    once: Once,
    body: JsonBody,
) -> Result<Response, Failure> {
    view::once(&once, &services, may.0, &body.hash, async |context| {
        record::create::<R>(&services, context, body.value).await
    })
    .await
}

/// `GET /api/…/{id}`, of a record whose version changes with its content.
pub async fn get<R: Resource>(
    State(app): State<App>,
    may: May<permit::Read>,
    Id(id): Id,
    if_none_match: IfNoneMatch,
) -> Result<Response, Failure> {
    Ok(view::versioned(&app, R::RESOURCE, may.scope(), id, &if_none_match).await?)
}

/// `PUT /api/…/{id}`: changes the given fields; 200 with the record.
pub async fn update<R: Resource>(
    State(services): State<Arc<Services>>,
    may: May<R::Write>,
    Id(id): Id,
    if_match: IfMatch,
    body: JsonBody,
) -> Result<Response, Failure> {
    let check = |version| if_match.check(version);
    Ok(view::answer(&record::update::<R>(&services, &may, id, body.value, check).await?)?)
}

/// `POST /api/…/list`.
pub async fn list<R: Resource>(
    State(services): State<Arc<Services>>,
    may: May<permit::Read>,
    asked: ListRequest,
) -> Result<Response, Failure> {
    lists::answer(&services, R::RESOURCE, may.scope(), asked).await
}
