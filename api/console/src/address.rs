//! The addresses of pages that other modules refer to.

use longshore_domain::attention::Page;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

/// The address of what shows a line.
#[must_use]
pub fn of(page: &Page) -> String {
    match page {
        Page::Overview => "/console".to_owned(),
        Page::Queues => "/console/queue".to_owned(),
        Page::Queue(queue) => format!("/console/queue/{queue}"),
        Page::Failures => "/console/failure".to_owned(),
        Page::Jobs(state) => format!("/console/job?state={state}"),
        Page::PausedIntegrations => "/console/schedule?state=paused".to_owned(),
        Page::Warehouses => "/console/wms".to_owned(),
        Page::Orders => "/console/order/attention".to_owned(),
        Page::Webhooks(None) => "/console/webhook".to_owned(),
        Page::Webhooks(Some(health)) => format!("/console/webhook?health={health}"),
        Page::WebhooksAt(host) => {
            format!("/console/webhook?{}", Serializer::new(String::new()).append_pair("text", host).finish())
        }
        Page::Audit(action) => format!("/console/audit?whose=all&action={action}"),
        Page::Record(record, id) => of_record(record, *id),
    }
}

/// The page of a record, by its type in the audit; the audit of the record where that type has no page.
pub(super) fn of_record(entity_type: &str, id: Uuid) -> String {
    match entity_type {
        "product" | "eshop" | "organisation" | "webhook" | "job" | "delivery" => {
            format!("/console/{entity_type}/{id}")
        }
        "expedition" => format!("/console/order/{id}"),
        // the search leads from a stock to its product, from a setting to its e-shop, and to the lists that have the others
        "product_stock" | "integration_setting" | "carrier_preference" | "access_token" => {
            format!("/console/find?q={id}")
        }
        "event_reader" => format!("/console/reader/{id}"),
        "wms" | "wms_setting" => format!("/console/wms/{id}"),
        _ => format!("/console/audit?entity={id}"),
    }
}
