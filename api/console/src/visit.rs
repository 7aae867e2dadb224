//! The input of the console's handlers: a visitor and the request ([`Visit`]), or an action and its form
//! ([`Act`]). As in the API, the type names the permission.

use std::fmt::Write as _;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Redirect, Response};
use chrono::{DateTime, Utc};
use http::request::Parts;
use http::{Method, StatusCode};
use longshore_domain::account::token::is_token;
use longshore_domain::webhook::health::{self, Webhook};
use longshore_http::app::App;
use longshore_http::extract::may::{Permit, bearer};
use longshore_http::extract::{Failure, May};
use longshore_kernel::access::{Permission, Scope};
use longshore_kernel::database::Database;
use longshore_kernel::ids::WebhookId;
use longshore_kernel::problem::{FORBIDDEN, Problem, UNAUTHENTICATED};
use longshore_kernel::services::Services;
use longshore_operate::named::{self, Kind};
use longshore_operate::snapshots::Snapshots;
use maud::{Markup, html};
use uuid::Uuid;

use super::form::{Again, Asked, FORM_TOKEN, Form, OF_ACTION, Refused, form_token, is_same};
use super::layout::{self, Section};
use super::piece::alert;
use super::theme::Theme;
use super::{counts, refresh};

/// A visitor with the permission.
#[derive(Debug)]
pub(super) struct Visit<P> {
    pub(super) may: May<P>,
    pub(super) app: App,
    /// The query of the URL; or the fields of a form that was refused, for its page.
    pub(super) asked: Asked,
    /// Why the form of this page was refused.
    pub(super) refused: Refused,
    /// The record of a page that updates itself.
    pub(super) subject: Option<Uuid>,
    /// The token of the session, to check again whether it is valid.
    pub(super) token: String,
    theme: Theme,
    /// The page, with its query.
    here: String,
    /// The counts that the page shows.
    counts: Markup,
}

/// What is said of a form that was opened before the present login.
pub(super) const OTHER_SESSION: &str = "the form belongs to another session: check it, and send it again";

/// An action of a visitor with the permission, from a form of the console.
#[derive(Debug)]
pub(super) struct Act<P> {
    pub(super) visit: Visit<P>,
    pub(super) form: Asked,
}

impl<P: Permit> FromRequestParts<App> for Visit<P> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let may = May::<P>::from_request_parts(parts, app).await?;
        let (asked, refused) = match parts.extensions.get::<Again>().cloned() {
            Some(again) => (again.typed, again.refused),
            None => (Asked::from_request_parts(parts, app).await?, Refused::default()),
        };
        let token =
            bearer(&parts.headers).ok_or_else(|| Problem::new(&UNAUTHENTICATED, "log in first"))?.to_owned();
        let theme = Theme::chosen(&parts.headers);
        // the page that a form is shown on is not that of its action
        let here = if parts.method == Method::GET { parts.uri.to_string() } else { "/console".to_owned() };
        let counts = match parts.method {
            Method::GET => counts::read(app, &may.caller).await,
            _ => counts::last(app, &may.caller),
        };
        Ok(Self { may, app: app.clone(), asked, refused, subject: None, token, theme, here, counts })
    }
}

impl<P: Permit> FromRequest<App> for Act<P> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (mut parts, body) = request.into_parts();
        let visit = Visit::from_request_parts(&mut parts, app).await?;
        let Form(form) = Form::from_request(Request::from_parts(parts, body), app).await?;
        visit.acts_by(&form)?;
        Ok(Self { visit, form })
    }
}

impl<P> Visit<P> {
    /// Begins an action by a form, which is one of this session.
    pub(super) fn acts_by(&self, form: &Asked) -> Result<(), Problem> {
        let given = form.get(FORM_TOKEN).unwrap_or_default();
        if !is_same(given, &form_token(&self.token)) {
            return Err(Problem::new(&FORBIDDEN, OTHER_SESSION));
        }
        // what the action changes is on the next page
        self.app.kept::<Snapshots>().outdate(self.scope());
        Ok(())
    }

    /// A webhook, if the visitor may see it.
    pub(super) async fn webhook(&self, id: WebhookId) -> Result<Webhook, Problem> {
        health::find(self.db(), self.scope(), id).await?.ok_or_else(|| Problem::not_found("webhook"))
    }

    /// The fields of the form of this page: as they are stored, or as they were typed if the form was refused.
    pub(super) fn filled(&mut self, stored: Asked) -> Asked {
        if self.refused.is_empty() { stored } else { self.refused.typed(&self.asked, &stored) }
    }

    /// The record of a kind that a field names, if something is typed there.
    ///
    /// # Errors
    /// The field, where it names none or several.
    pub(super) async fn named<I: From<Uuid>>(
        &self,
        asked: &Asked,
        kind: Kind,
        field: &str,
    ) -> Result<Option<I>, Problem> {
        match asked.text(field)? {
            Some(text) => Ok(Some(named::one(self.db(), self.scope(), kind, field, &text).await?.into())),
            None => Ok(None),
        }
    }

    /// The record that a field of a form names in any way in which the search finds things, if something is typed there.
    ///
    /// # Errors
    /// The field, where it names none or several.
    pub(super) async fn thing(&self, asked: &Asked, field: &str) -> Result<Option<Uuid>, Problem> {
        match asked.text(field)? {
            Some(text) => {
                let found = named::thing(self.db(), self.may.caller.role, self.scope(), field, &text);
                Ok(Some(found.await?))
            }
            None => Ok(None),
        }
    }

    /// The services of the process.
    pub(super) fn services(&self) -> &Services {
        &self.app.services
    }

    /// The database.
    pub(super) fn db(&self) -> &Database {
        &self.app.services.db
    }

    /// The scope of the visitor.
    pub(super) fn scope(&self) -> &Scope {
        self.may.scope()
    }

    /// The current moment.
    pub(super) fn now(&self) -> DateTime<Utc> {
        self.app.services.clock.now()
    }

    /// Whether the visitor has a permission.
    pub(super) fn can(&self, permission: Permission) -> bool {
        permission.roles().contains(&self.may.caller.role)
    }

    /// A page.
    pub(super) fn page(
        &self,
        section: impl Into<Option<Section>>,
        title: &str,
        content: &Markup,
    ) -> Response {
        self.page_with(section.into(), title, None, content)
    }

    /// A page that gets updates from that URL.
    pub(super) fn live_page(&self, section: Section, title: &str, live: &str, content: &Markup) -> Response {
        self.page_with(Some(section), title, Some(live), content)
    }

    /// The page of a list with its search, which is read again as often as its address says; refused, if the search cannot be read.
    pub(super) fn list_page(
        &self,
        section: Section,
        title: &str,
        here: &str,
        refused: &Refused,
        content: &Markup,
    ) -> Response {
        if !refused.is_empty() {
            return (StatusCode::BAD_REQUEST, self.page(section, title, content)).into_response();
        }
        let live =
            refresh::every(&self.asked).map(|_| self.asked.address(&format!("{here}/live"), &OF_ACTION, &[]));
        self.page_with(Some(section), title, live.as_deref(), content)
    }

    fn page_with(
        &self,
        section: Option<Section>,
        title: &str,
        live: Option<&str>,
        content: &Markup,
    ) -> Response {
        let caller = &self.may.caller;
        let chrome = layout::Chrome {
            name: &caller.actor.name,
            role: caller.role.as_str(),
            form_token: &form_token(&self.token),
            said: said(&self.asked),
            live,
            every: refresh::every(&self.asked),
            sought: self.asked.get("q").filter(|text| !is_token(text)),
            theme: self.theme,
            here: &self.here,
            counts: &self.counts,
        };
        layout::page(&chrome, section, title, content).into_response()
    }

    /// A form of a page, with the token of the session.
    pub(super) fn form(&self, action: &str, button: &str, back: &str, fields: &Markup) -> Markup {
        html! {
            form.editor method="post" action=(action) {
                input type="hidden" name=(FORM_TOKEN) value=(form_token(&self.token));
                (fields)
                div.buttons {
                    button.primary type="submit" { (button) }
                    a.button href=(back) { "Back" }
                }
            }
        }
    }

    /// A confirmation before an action: a separate page, which the script shows in place.
    pub(super) fn ask(&self, section: impl Into<Option<Section>>, question: &Question<'_>) -> Response {
        self.ask_for(section, question, &[])
    }

    /// A confirmation with fields of these names, which say themselves what is wrong with them.
    pub(super) fn ask_for(
        &self,
        section: impl Into<Option<Section>>,
        question: &Question<'_>,
        names: &[&str],
    ) -> Response {
        let content = html! {
            section.question data-question="" {
                h1 { (question.title) }
                (alert(&self.refused, names))
                div.explanation { (question.explanation) }
                form method="post" action=(question.action) {
                    input type="hidden" name=(FORM_TOKEN) value=(form_token(&self.token));
                    (question.fields)
                    div.buttons {
                        button.primary.danger[question.is_grave] type="submit" { (question.button) }
                        a.button href=(question.back) data-dismiss="" { "Back" }
                    }
                }
            }
        };
        self.page(section, question.title, &content)
    }
}

/// The confirmation of an action.
#[derive(Debug)]
pub(super) struct Question<'q> {
    pub(super) title: &'q str,
    /// What the action does.
    pub(super) explanation: Markup,
    /// The label of the button: the action, not "OK".
    pub(super) button: &'q str,
    /// Whether it cannot be undone.
    pub(super) is_grave: bool,
    /// Where the form is sent.
    pub(super) action: &'q str,
    /// The page to return to.
    pub(super) back: &'q str,
    /// Further fields of the form.
    pub(super) fields: Markup,
}

/// Finished actions, reported on the next page.
macro_rules! deeds {
    ($($name:ident = $word:literal, $sentence:literal;)*) => {
        /// A finished action.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Done { $($name),* }

        impl Done {
            const ALL: &[(Self, &'static str, &'static str)] = &[$((Self::$name, $word, $sentence)),*];
        }
    };
}

deeds! {
    Acknowledged = "acknowledged", "The line is acknowledged. It comes back when something new happens.";
    Muted = "muted", "The line is muted.";
    LineOver = "line-over", "The line is over: what it was about needs no attention now. Nothing was changed.";
    SilenceEnded = "silence-ended", "The line is shown with the others again, as long as it is there.";
    Paused = "paused", "The queue is paused. Running work continues; no new work starts.";
    Resumed = "resumed", "The queue is resumed.";
    Concurrency = "concurrency", "The concurrency is changed. It takes effect within two seconds.";
    Cancelled = "cancelled", "The job is cancelled. Completed changes are kept.";
    Applied = "applied", "A job does what the dry run found. This page shows the progress.";
    Released = "released", "The job executes what was withheld.";
    Retried = "retried", "The job is in the queue again.";
    JobsCancelled = "jobs-cancelled", "{job is|jobs are} cancelled. Completed changes are kept.";
    JobsRetried = "jobs-retried", "{job is|jobs are} in the queue again.";
    GroupRetried = "group-retried", "{job of the group is|jobs of the group are} in the queue again.";
    OrderSent = "order-sent", "The order was sent. Its status says what came of it.";
    OrderProcessed = "order-processed", "The order is confirmed. The warehouse can begin.";
    OrderHeld = "order-held", "The order is on hold. Its pieces are given back.";
    OrderCancelled = "order-cancelled", "The order is cancelled. Its pieces are given back.";
    OrderAskedBack = "order-asked-back", "The warehouse is asked to give the order back. What came of it is shown here when it answers.";
    OrderRebooked = "order-rebooked", "The order was booked again, or waits in its turn.";
    OrderUnbooked = "order-unbooked", "The pieces of the order are given back, and its reservation is paused.";
    OrderStored = "order-stored", "The order is changed. Send it when it is right.";
    OrderAmended = "order-amended", "The order is changed. It keeps its pieces.";
    OrderMoved = "order-moved", "The order is shipped from the other place, and was sent again. Its status says what came of it.";
    OrdersRunning = "orders-running", "A job works on the orders. This page shows the progress, and which were refused.";
    ProductsRunning = "products-running", "A job works on the products. This page shows the progress.";
    OrderDeleted = "order-deleted", "The order is deleted. Its number is free again.";
    OrderReported = "order-reported", "The status is reported.";
    SettingStored = "setting-stored", "The integration setting is stored.";
    SettingPaused = "setting-paused", "The partner is no longer called. What runs ends.";
    SettingResumed = "setting-resumed", "The partner is called again.";
    PreferenceStored = "preference-stored", "The carrier preference is stored. It holds for orders that are sent from now on.";
    PreferenceDeleted = "preference-deleted", "The carrier preference is deleted.";
    ConnectionTested = "connection-tested", "The connection is being tested. The result is shown below.";
    WmsStored = "wms-stored", "The setting of the wms is stored. Its system is asked anew.";
    WmsPaused = "wms-paused", "The calls of the warehouse are paused. What runs ends; orders become due as before.";
    WmsResumed = "wms-resumed", "The warehouse is called again.";
    WmsDeleted = "wms-deleted", "The setting of the wms is deleted. Its orders go on by hand.";
    LostOrderDismissed = "lost-order-dismissed", "The order is dismissed.";
    Imported = "imported", "The file has arrived. This page shows what becomes of its rows.";
    Syncing = "syncing", "{sync is|syncs are} in the queue. What waited already was not added again.";
    TokenDeleted = "token-deleted", "The token is revoked. It stops working within seconds.";
    PasswordChanged = "password-changed", "The password is changed. Other sessions have ended.";
    Lost = "not-done", "Your session had ended, so nothing was changed. Fill in the form again.";
    FactorRemoved = "factor-removed", "The second factor is removed.";
    SessionEnded = "session-ended", "The session has ended.";
    WebhookStored = "webhook-stored", "The webhook is changed.";
    ReaderStored = "reader-stored", "The reader is stored. It holds for what is read from now on.";
    ReaderDeleted = "reader-deleted", "The reader is deleted.";
    Activated = "activated", "The webhook is active. Its waiting deliveries are being sent.";
    Deactivated = "deactivated", "The webhook is inactive. Its deliveries are kept.";
    Tested = "tested", "A test is being sent. Its answer appears below when it comes.";
    TestKept = "test-kept", "The webhook is inactive: the test will be sent when it is activated.";
    TestHeld = "test-held", "The destination is failing, and the webhook is ordered: the breaker holds the test until the earlier deliveries succeed.";
    Replaying = "replaying", "The deliveries are being replayed. This page shows the progress.";
    Redelivering = "redelivering", "The deliveries are being sent again. This page shows the progress.";
    Redelivered = "redelivered", "{delivery is|deliveries are} being sent again.";
}

/// Redirects to a page that reports what was done, and how often.
pub(super) fn done(path: &str, done: Done, count: Option<usize>) -> Response {
    report(path, done, count, None)
}

/// The address of a page that says this instead of what it said before.
pub(super) fn saying(page: &str, done: Done) -> String {
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    Asked::parse(query.as_bytes()).address(path, &OF_ACTION, &[("done", word(done))])
}

fn word(done: Done) -> &'static str {
    Done::ALL.iter().find(|(known, ..)| *known == done).map_or("", |(_, word, _)| word)
}

fn report(path: &str, done: Done, count: Option<usize>, left: Option<usize>) -> Response {
    let mark = if path.contains('?') { '&' } else { '?' };
    let mut address = format!("{path}{mark}done={}", word(done));
    for (name, count) in [("count", count), ("left", left)] {
        if let Some(count) = count {
            // writing to a string cannot fail
            let _ = write!(address, "&{name}={count}");
        }
    }
    Redirect::to(&address).into_response()
}

/// The same for an action on several records that left some of them.
pub(super) fn done_and_left(path: &str, done: Done, count: usize, left: usize) -> Response {
    let left = if left > 0 { Some(left) } else { None };
    report(path, done, Some(count), left)
}

fn said(asked: &Asked) -> Option<String> {
    let (.., sentence) = Done::ALL.iter().find(|(_, word, _)| asked.get("done") == Some(*word))?;
    let number = |name| asked.get(name).and_then(|count| count.parse::<u32>().ok());
    let said = match (number("count"), one_or_many(sentence)) {
        (Some(1), Some((one, _, end))) => format!("1 {one}{end}"),
        (Some(count), Some((_, many, end))) => format!("{count} {many}{end}"),
        (None, Some((_, many, end))) => format!("The {many}{end}"),
        (_, None) => (*sentence).to_owned(),
    };
    Some(match number("left") {
        Some(left) => format!("{said} {left} left: the state of these does not allow it."),
        None => said,
    })
}

/// The singular, the plural and the rest of a sentence: `{one|many} end`.
fn one_or_many(sentence: &str) -> Option<(&str, &str, &str)> {
    let (both, end) = sentence.strip_prefix('{')?.split_once('}')?;
    let (one, many) = both.split_once('|')?;
    Some((one, many, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_after_an_action_distinguishes_one_and_many() {
        let of = |one, many, end| Some((one, many, end));
        assert_eq!(one_or_many("{job is|jobs are} queued."), of("job is", "jobs are", " queued."));
        assert_eq!(one_or_many("The job is queued."), None);
        for (_, word, sentence) in Done::ALL {
            assert_eq!(sentence.contains('|'), one_or_many(sentence).is_some(), "{word}");
        }
    }
}
