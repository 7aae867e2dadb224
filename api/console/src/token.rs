//! Access tokens of programs: the list, a new one, and revoking one. All go through the use-cases of the API.

use axum::response::Response;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use longshore_domain::account::proof;
use longshore_domain::account::session::FRESH;
use longshore_domain::account::token::issue;
use longshore_domain::list::criteria::all_of;
use longshore_domain::list::fields::token::{ACCESS_TOKEN, ROLES};
use longshore_http::extract::{At, Failure, Id, permit};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::{EshopId, OrganisationId, TokenId, WmsId};
use longshore_kernel::problem::Problem;
use longshore_operate::named::{self, Kind};
use longshore_operate::token;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::form::Asked;
use super::layout::Section;
use super::listed::{self, Listed, Related};
use super::piece::{self, Tone, alert, badge, checked, empty, none, options, suggested, time, time_or_none};
use super::secret;
use super::visit::{Act, Done, Question, Visit, done};

const HERE: &str = "/console/token";
/// A use is noted within so long, at the latest.
const NOTED: TimeDelta = TimeDelta::hours(1);

type Asking = Visit<permit::ManageTokens>;
type Acting = Act<permit::ManageTokens>;

/// The fields of the form, as the body of the API names them.
const FIELDS: [&str; 8] = ["name", "role", "organisation", "eshop", "wms", "expiresAt", "password", "code"];
/// Those of them that prove whose the login is.
const PROOF: [&str; 2] = ["password", "code"];

/// What the list shows of a token.
const SELECT: [&str; 12] = [
    "id",
    "name",
    "role",
    "organisation",
    "eshop",
    "wms",
    "createdBy",
    "createdAt",
    "lastUsedAt",
    "expiresAt",
    "revokedAt",
    "revokedBy",
];

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    id: TokenId,
    name: String,
    role: String,
    organisation: Option<Related<OrganisationId>>,
    eshop: Option<Related<EshopId>>,
    wms: Option<Related<WmsId>>,
    created_by: Maker,
    created_at: DateTime<Utc>,
    last_used_at: Option<DateTime<Utc>>,
    expires_at: Option<DateTime<Utc>>,
    revoked_at: Option<DateTime<Utc>>,
    revoked_by: Option<Maker>,
}

#[derive(Debug, Deserialize)]
struct Maker {
    name: String,
}

/// `GET /console/token`.
pub(super) async fn show(visit: Asking) -> Result<Response, Failure> {
    let asked = &visit.asked;
    let (organisation, id): (Option<OrganisationId>, Option<TokenId>) =
        (asked.id("organisation")?, asked.id("id")?);
    let criteria = all_of([
        ("organisation", organisation.map(|one| json!({"eq": one}))),
        ("id", id.map(|one| json!({"eq": one}))),
    ]);
    let wanted = listed::wanted(asked, &ACCESS_TOKEN, &SELECT, &criteria)?;
    let found: Listed<Token> = Listed::find(&visit, &wanted).await?;
    let query = organisation.map(|id| {
        form_urlencoded::Serializer::new(String::new()).append_pair("organisation", &id.to_string()).finish()
    });
    let new = query.map_or_else(|| format!("{HERE}/new"), |query| format!("{HERE}/new?{query}"));
    let content = html! {
        header.title {
            h1 { "Access tokens" }
            div.buttons { a.button.primary href=(new) { "New token" } }
        }
        p.muted { "Programs use them. People log in with their account instead. Those that were revoked stay in the list, as long as the audit of what they did." }
        @if id.is_some() { p.trail { a href=(HERE) { "All access tokens" } } }
        (table(&found.results, visit.now()))
        (found.pages(&visit, HERE))
    };
    Ok(visit.page(None::<Section>, "Access tokens", &content))
}

fn table(tokens: &[Token], now: DateTime<Utc>) -> Markup {
    if tokens.is_empty() {
        return empty(
            "No access tokens.",
            "Create one for each program, with the narrowest role that it needs.",
        );
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label="Access tokens, table" {
            table.list.stack {
                thead { tr { th { "Name" } th { "Role" } th { "Of" } th { "Last used" } th { "Ends" } th { "Created" } th { span.hidden { "Actions" } } } }
                tbody { @for token in tokens { (row(token, now)) } }
            }
        }
    }
}

/// The audit of what the program with a token did. It did nothing after its last use, so the search begins there.
fn did(token: &Token, now: DateTime<Utc>) -> String {
    let until = token.last_used_at.map(|at| at + NOTED).filter(|at| *at < now);
    let fields = [
        ("by", Some(token.id.to_string())),
        ("organisation", token.organisation.as_ref().map(|of| of.id.to_string())),
        ("until", until.map(|at| at.format("%Y-%m-%dT%H:%M:%S").to_string())),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    Asked::of(fields).address("/console/audit", &[], &[])
}

fn row(token: &Token, now: DateTime<Utc>) -> Markup {
    let eshop = token.eshop.as_ref().and_then(|eshop| eshop.name.as_deref());
    let bound = eshop.or(token.wms.as_ref().and_then(|wms| wms.name.as_deref()));
    html! {
        tr {
            td.name { strong { (token.name) } }
            td { (token.role) }
            td.name data-label="Of" {
                @match &token.organisation {
                    Some(Related { id, name: Some(name) }) => (piece::organisation(*id, name)),
                    _ => "everything",
                }
                @if let Some(bound) = bound { ", " (bound) }
            }
            td data-label="Last used" { (time_or_none(token.last_used_at, now)) }
            td.name data-label="Ends" { @match (token.revoked_at, token.expires_at) {
                (Some(at), _) => { (badge(Tone::Quiet, "revoked")) " " (time(at, now))
                    @if let Some(by) = &token.revoked_by { " " span.muted { "by " (by.name) } } },
                (None, Some(at)) if at <= now => (badge(Tone::Quiet, "ended")),
                (None, Some(at)) => (time(at, now)),
                (None, None) => (none()),
            } }
            td.name data-label="Created" { (time(token.created_at, now)) " " span.muted { "by " (token.created_by.name) } }
            td {
                div.buttons {
                    a.button href=(did(token, now)) { "What it did" span.hidden { ": " (token.name) } }
                    @if token.revoked_at.is_none() {
                        a.button.danger href={(HERE) "/" (token.id) "/delete"} data-ask="" { "Revoke" span.hidden { " the token " (token.name) } }
                    }
                }
            }
        }
    }
}

/// `GET /console/token/new`.
pub(super) async fn new(visit: Asking) -> Result<Response, Failure> {
    let needs_proof = proof::is_needed(visit.services(), &visit.may).await?;
    let (form, refused) = (&visit.asked, &visit.refused);
    let names = async |kind: Kind| named::suggestions(visit.db(), visit.scope(), kind).await;
    let (organisations, eshops, wms) =
        tokio::try_join!(names(Kind::Organisation), names(Kind::Eshop), names(Kind::Wms))?;
    let roles = ROLES.iter().rev().map(|role| (*role, *role));
    let fields = html! {
        (secret::one_time_key(&visit))
        (alert(refused, &FIELDS))
        fieldset {
            legend { "Token" }
            (checked(form, refused, "name", "Name: the program that uses it", "text"))
            (options(form, refused, "role", "Role", roles))
            (checked(form, refused, "expiresAt", "Ends (UTC; empty: in a year)", "datetime-local"))
        }
        fieldset {
            legend { "Scope" }
            p.muted { "The roles superadmin and viewer see everything and have no organisation. A connector can be bound to an e-shop; a token with the role warehouse belongs to the program of one wms." }
            (suggested(form, refused, "organisation", "Organisation (name or id)", &organisations))
            (suggested(form, refused, "eshop", "E-shop (name or id)", &eshops))
            (suggested(form, refused, "wms", "Wms (name or id)", &wms))
        }
        @if needs_proof {
            fieldset {
                legend { "Your account" }
                p.muted { "You logged in more than " (FRESH.num_minutes()) " minutes ago: enter your password, or a code of your second factor." }
                (checked(&Asked::default(), refused, "password", "Password", "password"))
                (checked(&Asked::default(), refused, "code", "Code", "text"))
            }
        }
    };
    let content = html! {
        p.trail { a href=(HERE) { "Access tokens" } " / new" }
        h1 { "New access token" }
        (visit.form(&format!("{HERE}/new"), "Create", HERE, &fields))
    };
    Ok(visit.page(None::<Section>, "New access token", &content))
}

/// `POST /console/token/new`: the only page that shows the token.
pub(super) async fn create(At(visitor): At, act: Acting) -> Result<Response, Failure> {
    let body = body(&act.visit, &act.form).await?;
    let answer = secret::act_once(&act, &format!("{HERE}/new"), &body, async |context| {
        // what proves whose the login is does not count for the key
        let mut body = body.clone();
        for name in PROOF {
            if let Some(given) = act.form.get(name) {
                body[name] = json!(given);
            }
        }
        issue::issue(act.visit.services(), context, &visitor, body).await
    })
    .await?;
    let shown: Value =
        serde_json::from_str(answer.body.as_deref().unwrap_or("{}")).map_err(Problem::internal)?;
    let Some(token) = shown["token"].as_str() else { return Ok(repeated(&act.visit)) };
    let content = html! {
        h1 { "The access token is created" }
        p { "It is shown on this page only. Give it to the program, and keep it nowhere else." }
        p.secret { code { (token) } button.copy type="button" data-copy=(token) hidden aria-label="Copy the token" { "copy" } }
        div.buttons { a.button.primary href=(HERE) { "To the access tokens" } }
    };
    Ok(act.visit.page(None::<Section>, "The access token is created", &content))
}

/// The page of a form that was sent again: the answer of the first time had the token.
fn repeated(visit: &Asking) -> Response {
    let title = "The access token is created already";
    let content = html! {
        h1 { (title) }
        p { "The form was sent again, and nothing changed. The token was shown once. If it is lost, revoke it and create another." }
        div.buttons { a.button.primary href=(HERE) { "To the access tokens" } }
    };
    visit.page(None::<Section>, title, &content)
}

/// The body of the API that a form says. An e-shop and a wms are looked for in the organisation that it names.
async fn body(visit: &Asking, form: &Asked) -> Result<Value, Problem> {
    let mut body = Map::new();
    for name in ["name", "role"] {
        body.extend(form.get(name).map(|text| (name.to_owned(), json!(text))));
    }
    let mut scope = visit.scope().clone();
    for (name, kind) in [("organisation", Kind::Organisation), ("eshop", Kind::Eshop), ("wms", Kind::Wms)] {
        let Some(text) = form.text(name)? else { continue };
        let id = named::one(visit.db(), &scope, kind, name, &text).await?;
        if kind == Kind::Organisation && scope.has_organisation(id.into()) {
            scope = Scope::Organisations([id.into()].into());
        }
        body.insert(name.to_owned(), json!(id));
    }
    let ends = form.moment("expiresAt")?.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    body.extend(ends.map(|at| ("expiresAt".to_owned(), json!(at))));
    Ok(body.into())
}

/// `GET /console/token/{id}/delete`.
pub(super) async fn ask_delete(Id(id): Id<TokenId>, visit: Asking) -> Result<Response, Failure> {
    let name = token::name(visit.db(), visit.scope(), id)
        .await?
        .ok_or_else(|| Problem::not_found("access token"))?;
    let question = Question {
        title: &format!("Revoke the token {name}?"),
        explanation: html! { p { "The program that uses it, and tokens that it has created, stop working within seconds. It stays in the list, with what it did." } },
        button: "Revoke the token",
        is_grave: true,
        action: &format!("{HERE}/{id}/delete"),
        back: HERE,
        fields: html! {},
    };
    Ok(visit.ask(None::<Section>, &question))
}

/// `POST /console/token/{id}/delete`.
pub(super) async fn delete(Id(id): Id<TokenId>, act: Acting) -> Result<Response, Failure> {
    issue::delete(act.visit.services(), &act.visit.may, id).await?;
    Ok(done(HERE, Done::TokenDeleted, None))
}
