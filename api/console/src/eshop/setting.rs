//! The integration setting of an e-shop: what it says, changing it, pausing it, and a sync at once. All go through the use-cases
//! of the API.

use axum::response::Response;
use chrono::{DateTime, Utc};
use longshore_domain::job::connection::Test;
use longshore_domain::partner::pull;
use longshore_domain::partner::setting::{self, Integration, store, trial};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::access::Permission;
use longshore_kernel::ids::EshopId;
use longshore_kernel::problem::Problem;
use longshore_operate::eshop::{self, Setting};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::connection;
use crate::form::{Asked, VERSION, integer, unchanged};
use crate::layout::Section;
use crate::piece::{self, Tone, alert, badge, checked, empty, full_time, number, options, switch, time};
use crate::secret;
use crate::visit::{Act, Done, Question, Visit, done};

type Asking = Visit<permit::WriteSettings>;
type Acting = Act<permit::WriteSettings>;

/// The fields of the form, as the body of the API names them.
const FIELDS: [&str; 13] = [
    "integrationType",
    "active",
    "baseUrl",
    "inventories",
    "credentials.type",
    "credentials.username",
    "credentials.password",
    "credentials.token",
    "productSync.enabled",
    "productSync.intervalMinutes",
    "stockSync.enabled",
    "stockSync.intervalMinutes",
    "stockSync.reserve",
];

/// What is said where another one has stored the setting since the form was opened.
const CHANGED: &str = "the setting was changed since this form was opened: check it, and send it again";

/// Members of a stored setting that a body may change and the form does not show.
const KEPT: &str = "warehouses";

fn page(id: EshopId) -> String {
    format!("/console/eshop/{id}")
}

/// The section of the page of the e-shop.
pub(super) fn draw<P>(
    visit: &Visit<P>,
    id: EshopId,
    setting: Option<&Setting>,
    test: Option<&Test>,
    now: DateTime<Utc>,
) -> Markup {
    let path = page(id);
    html! {
        section #setting aria-labelledby="setting-title" {
            header.title {
                h2 #setting-title { "Integration setting" }
                div.buttons {
                    @if visit.can(Permission::WriteJobs) && setting.is_some_and(|setting| setting.active) {
                        a.button href={(path) "/sync"} data-ask="" { "Sync now" }
                    }
                    @if visit.can(Permission::WriteSettings) {
                        @if setting.is_some() { a.button href={(path) "/test"} data-ask="" { "Test" } }
                        @match setting {
                            Some(setting) if setting.active => a.button href={(path) "/pause"} data-ask="" { "Pause" },
                            Some(_) => a.button.primary href={(path) "/resume"} data-ask="" { "Resume" },
                            None => {},
                        }
                        a.button href={(path) "/setting"} { @if setting.is_some() { "Edit" } @else { "Connect" } }
                    }
                }
            }
            @match setting {
                None => (empty("No integration setting.", "The e-shop pushes its products and stocks itself, or has not been connected yet.")),
                Some(setting) => { (connection::draw(test, now)) (facts(setting, now)) },
            }
        }
    }
}

fn facts(setting: &Setting, now: DateTime<Utc>) -> Markup {
    html! {
        dl.details {
            div { dt { "Partner" } dd { (setting.integration) " " @if !setting.active { (badge(Tone::Warn, "paused")) } } }
            div { dt { "Address" } dd { @match &setting.base_url { Some(url) => code { (url) }, None => span.muted { "that of the partner" } } } }
            div { dt { "Products" } dd { (clock(setting.product_minutes, setting.next_product_sync, now)) } }
            div { dt { "Stocks sent" } dd { (clock(setting.stock_minutes, setting.next_stock_sync, now)) } }
            div { dt { "Stored" } dd { (full_time(setting.changed_at, now)) } }
            div { dt { "Id" } dd { (piece::id(setting.id)) } }
        }
    }
}

fn clock(minutes: Option<i32>, next: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Markup {
    html! {
        @match minutes {
            None => span.muted { "not by the clock" },
            Some(minutes) => {
                "every " (number(minutes)) " min"
                @match next {
                    Some(at) if at <= now => ", due now",
                    Some(at) => { ", next " (time(at, now)) },
                    None => {},
                }
            }
        }
    }
}

/// `GET /console/eshop/{id}/setting`.
pub(crate) async fn edit(Id(id): Id<EshopId>, mut visit: Asking) -> Result<Response, Failure> {
    let stored = stored(&visit, id).await?;
    let form = visit.filled(shown(stored.as_ref()));
    let eshop =
        eshop::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("e-shop"))?;
    let title = format!("Integration of {}", eshop.name);
    let path = page(id);
    let content = html! {
        p.trail { (piece::eshop(id, &eshop.name)) " / integration setting" }
        h1 { (title) }
        (visit.form(&format!("{path}/setting"), "Store", &path, &fields(&visit, &form, stored.as_ref())))
    };
    Ok(visit.page(Section::Syncs, &title, &content))
}

/// `POST /console/eshop/{id}/setting`.
pub(crate) async fn store(Id(id): Id<EshopId>, act: Acting) -> Result<Response, Failure> {
    let stored = stored(&act.visit, id).await?;
    let version = act.form.version();
    let body = body(&act.form, stored.as_ref());
    store::store(act.visit.services(), &act.visit.may, id, body, unchanged(version, CHANGED)).await?;
    Ok(done(&page(id), Done::SettingStored, None))
}

/// The stored setting, as the API shows it.
async fn stored(visit: &Asking, id: EshopId) -> Result<Option<Value>, Problem> {
    match setting::find(visit.services(), visit.scope(), id).await {
        Ok(answer) => {
            let body = answer.body.as_deref().unwrap_or("{}");
            serde_json::from_str(body).map(Some).map_err(Problem::internal)
        }
        // none is stored yet, or no longer; the e-shop is another thing
        Err(problem) if matches!(problem.kind().status, 404 | 410) => {
            let eshop = eshop::find(visit.db(), visit.scope(), id).await?;
            eshop.map(|_| None).ok_or_else(|| Problem::not_found("e-shop"))
        }
        Err(problem) => Err(problem),
    }
}

/// The fields of a form that shows a setting; secrets are not shown.
fn shown(stored: Option<&Value>) -> Asked {
    let Some(stored) = stored else {
        return Asked::of(vec![("integrationType", "feed".to_owned()), ("active", "true".to_owned())]);
    };
    let text = |pointer: &str| match stored.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let inventories: Vec<&str> = stored["inventories"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|inventory| inventory["inventoryId"].as_str())
        .collect();
    Asked::of(vec![
        (VERSION, text("/version")),
        ("integrationType", text("/integrationType")),
        ("active", text("/active")),
        ("baseUrl", text("/baseUrl")),
        ("inventories", inventories.join(", ")),
        ("productSync.enabled", text("/productSync/enabled")),
        ("productSync.intervalMinutes", text("/productSync/intervalMinutes")),
        ("stockSync.enabled", text("/stockSync/enabled")),
        ("stockSync.intervalMinutes", text("/stockSync/intervalMinutes")),
        ("stockSync.reserve", text("/stockSync/reserve")),
    ])
}

/// The body of the API that a form says. What is left empty of the credentials keeps the stored ones, their kind too.
fn body(form: &Asked, stored: Option<&Value>) -> Value {
    let mut body = Map::new();
    let is_on = |name: &str| form.get(name) == Some("true");
    // what is no number is refused by the rule of the API, at its path
    let figure = |name: &str| form.get(name).map(integer);
    body.insert("integrationType".to_owned(), json!(form.get("integrationType")));
    body.insert("active".to_owned(), json!(is_on("active")));
    body.insert("baseUrl".to_owned(), json!(form.get("baseUrl")));
    let names =
        form.get("inventories").unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    body.insert("inventories".to_owned(), names.map(|name| json!({"inventoryId": name})).collect());
    if let Some(kept) = stored.and_then(|stored| stored.get(KEPT)) {
        body.insert(KEPT.to_owned(), kept.clone());
    }
    for (member, figures) in
        [("productSync", &["intervalMinutes"][..]), ("stockSync", &["intervalMinutes", "reserve"])]
    {
        let mut sync = Map::new();
        sync.insert("enabled".to_owned(), json!(is_on(&format!("{member}.enabled"))));
        for name in figures {
            sync.extend(figure(&format!("{member}.{name}")).map(|value| ((*name).to_owned(), value)));
        }
        body.insert(member.to_owned(), sync.into());
    }
    body.extend(credentials(form, stored).map(|credentials| ("credentials".to_owned(), credentials)));
    body.into()
}

fn credentials(form: &Asked, stored: Option<&Value>) -> Option<Value> {
    // masked, which keeps them; not for another partner
    let stored = stored
        .filter(|stored| stored["integrationType"] == json!(form.get("integrationType")))
        .and_then(|stored| stored.get("credentials"));
    // that of BaseLinker is a token, and has no kind
    let has_kind = form.get("integrationType") != Some(Integration::Baselinker.as_str());
    let form =
        Asked(form.0.iter().filter(|(name, _)| has_kind || name != "credentials.type").cloned().collect());
    let Some(mut given) = secret::given(&form, "credentials", stored) else { return stored.cloned() };
    if !has_kind {
        given.remove("type");
    }
    Some(given.into())
}

fn fields(visit: &Asking, form: &Asked, stored: Option<&Value>) -> Markup {
    let kinds = Integration::NAMES.iter().map(|name| (*name, *name));
    let refused = &visit.refused;
    html! {
        input type="hidden" name=(VERSION) value=[form.get(VERSION)];
        (alert(refused, &FIELDS))
        fieldset {
            legend { "Partner" }
            (options(form, refused, "integrationType", "Kind", kinds))
            (checked(form, refused, "baseUrl", "Address", "url"))
            (switch(form, "active", "Call the partner"))
        }
        (secret::credentials(visit, form, stored, ["credentials", "Credentials", "Kind (feed)"]))
        fieldset {
            legend { "Products" }
            (switch(form, "productSync.enabled", "Fetch by the clock"))
            (checked(form, refused, "productSync.intervalMinutes", "Minutes between", "number"))
            (checked(form, refused, "inventories", "Inventories (ids, separated by commas; empty: all)", "text"))
        }
        fieldset {
            legend { "Stocks" }
            (switch(form, "stockSync.enabled", "Send by the clock"))
            (checked(form, refused, "stockSync.intervalMinutes", "Minutes between", "number"))
            (checked(form, refused, "stockSync.reserve", "Pieces kept back", "number"))
        }
    }
}

/// A question about the setting of an e-shop.
async fn ask(
    visit: &Asking,
    id: EshopId,
    verb: &str,
    explanation: &str,
    step: &str,
) -> Result<Response, Failure> {
    let eshop =
        eshop::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("e-shop"))?;
    let path = page(id);
    let question = Question {
        title: &format!("{verb} the integration of {}?", eshop.name),
        explanation: html! { p { (explanation) } },
        button: verb,
        is_grave: false,
        action: &format!("{path}/{step}"),
        back: &path,
        fields: html! {},
    };
    Ok(visit.ask(Section::Syncs, &question))
}

/// `GET /console/eshop/{id}/test`.
pub(crate) async fn ask_test(Id(id): Id<EshopId>, visit: Asking) -> Result<Response, Failure> {
    ask(&visit, id, "Test", connection::EXPLANATION, "test").await
}

/// `POST /console/eshop/{id}/test`.
pub(crate) async fn test(Id(id): Id<EshopId>, act: Acting) -> Result<Response, Failure> {
    trial::test(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(&page(id), Done::ConnectionTested, None))
}

/// `GET /console/eshop/{id}/pause`.
pub(crate) async fn ask_pause(Id(id): Id<EshopId>, visit: Asking) -> Result<Response, Failure> {
    let said = "The partner is not called until the integration is resumed: no sync starts by the clock or on demand.";
    ask(&visit, id, "Pause", said, "pause").await
}

/// `POST /console/eshop/{id}/pause`.
pub(crate) async fn pause(Id(id): Id<EshopId>, act: Acting) -> Result<Response, Failure> {
    set_active(&act, id, false).await?;
    Ok(done(&page(id), Done::SettingPaused, None))
}

/// `GET /console/eshop/{id}/resume`.
pub(crate) async fn ask_resume(Id(id): Id<EshopId>, visit: Asking) -> Result<Response, Failure> {
    ask(&visit, id, "Resume", "The partner is called again, by the clock and on demand.", "resume").await
}

/// `POST /console/eshop/{id}/resume`.
pub(crate) async fn resume(Id(id): Id<EshopId>, act: Acting) -> Result<Response, Failure> {
    set_active(&act, id, true).await?;
    Ok(done(&page(id), Done::SettingResumed, None))
}

async fn set_active(act: &Acting, id: EshopId, is_active: bool) -> Result<(), Problem> {
    let stored = stored(&act.visit, id).await?.ok_or_else(|| Problem::not_found("integration setting"))?;
    let mut body = Map::new();
    for name in ["integrationType", "credentials", "baseUrl", "inventories", KEPT, "productSync", "stockSync"]
    {
        body.extend(stored.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    body.insert("active".to_owned(), json!(is_active));
    let version = stored["version"].as_i64();
    let check = unchanged(version, "the setting was changed at this moment: try again");
    store::store(act.visit.services(), &act.visit.may, id, body.into(), check).await?;
    Ok(())
}

/// `GET /console/eshop/{id}/sync`.
pub(crate) async fn ask_sync(
    Id(id): Id<EshopId>,
    visit: Visit<permit::WriteJobs>,
) -> Result<Response, Failure> {
    let eshop =
        eshop::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("e-shop"))?;
    let path = page(id);
    let question = Question {
        title: &format!("Sync {} now?", eshop.name),
        explanation: html! {
            p { "Starts what the clock starts: the products of each inventory are fetched, and stocks are sent if the setting says so." }
        },
        button: "Sync now",
        is_grave: false,
        action: &format!("{path}/sync"),
        back: &path,
        fields: html! {},
    };
    Ok(visit.ask(Section::Syncs, &question))
}

/// `POST /console/eshop/{id}/sync`.
pub(crate) async fn sync(Id(id): Id<EshopId>, act: Act<permit::WriteJobs>) -> Result<Response, Failure> {
    let answer = pull::now(act.visit.services(), &act.visit.may, id).await?;
    let jobs: Vec<Value> =
        serde_json::from_str(answer.body.as_deref().unwrap_or("[]")).map_err(Problem::internal)?;
    Ok(done(&page(id), Done::Syncing, Some(jobs.len())))
}
