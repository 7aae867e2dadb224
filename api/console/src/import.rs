//! Import: a file of rows that a person sends as a program pushes them, with a look at its first rows before.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{Html, IntoResponse as _, Response};
use bytes::{Buf as _, Bytes};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use http::Extensions;
use http::header::CONTENT_TYPE;
use longshore_domain::job::chosen::DRY_RUN;
use longshore_domain::partner::push::Push;
use longshore_http::extract::csv::CSV;
use longshore_http::extract::lines::{IMPORT as HERE, NDJSON};
use longshore_http::extract::{Failure, FileStream, Once, RequestId, permit};
use longshore_http::intake;
use longshore_http::intake::look::{self, Look};
use longshore_kernel::access::Permission;
use longshore_kernel::encoding::charset::Charset;
use longshore_kernel::json::BYTE_ORDER_MARK;
use longshore_kernel::problem::{MALFORMED_BODY, Problem, TOO_LARGE, Violation};
use longshore_operate::named::{self, Kind};
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use super::form::{Asked, FORM_TOKEN, Refused, form_token, full};
use super::layout::Section;
use super::piece::{alert, checked, empty, none, options, suggested};
use super::visit::{Done, Visit, done};
use super::{job, refusal};

const LOOK: &str = "/console/import/look";

/// Bytes that a file may have.
const MOST: usize = 50 * 1024 * 1024;
/// Bytes of its beginning that are looked at.
const PART: usize = 64 * 1024;
/// Rows that are shown.
const ROWS: usize = 10;

/// The fields of the form, as the requests of programs name them.
const FIELDS: [&str; 8] = ["eshop", "kind", "warehouseId", "send", DRY_RUN, "delimiter", "charset", "file"];

/// What can be sent.
const KINDS: [(&str, Push); 3] =
    [("products", Push::Products), ("stocks", Push::Stocks), ("orders", Push::Expeditions)];

/// Whether orders are sent to their warehouse, as the header of a push says it.
const SENDS: [(&str, Option<bool>); 3] =
    [("as their rows or the e-shop say", None), ("yes", Some(true)), ("no", Some(false))];

/// Whether a file is only tried. A person is told first what it would do.
const TRIES: [(&str, bool); 2] = [("find out what it would do", true), ("do it", false)];

/// The delimiters, as the query of a request names them.
const DELIMITERS: [(&str, &str); 5] = [
    ("", "found by the first line"),
    (",", "comma"),
    (";", "semicolon"),
    ("tab", "tab"),
    ("|", "vertical line"),
];

type Asking = Visit<permit::WriteJobs>;

/// A file that arrives.
#[derive(Clone)]
struct Arriving {
    name: String,
    pieces: Arc<Mutex<BoxStream<'static, Result<Bytes, Problem>>>>,
    extensions: Extensions,
}

impl Arriving {
    /// Reads what nobody has read: a browser reads no answer before it has sent all, and its connection would be closed.
    async fn finish(self) {
        let mut rest = self.pieces.lock().await;
        while let Some(Ok(_)) = rest.next().await {}
    }
}

/// `GET /console/import?eshop=…&kind=…`.
pub(super) async fn show(visit: Asking) -> Result<Response, Failure> {
    Ok(page(&visit).await?)
}

/// `POST /console/import`.
pub(super) async fn send(mut visit: Asking, once: Once, request: Request) -> Result<Response, Failure> {
    let id = request.extensions().get::<RequestId>().cloned();
    match take(&mut visit, &once, request).await {
        Ok(job) => Ok(done(&job, Done::Imported, None)),
        Err(failure) if refusal::is_of_form(&failure.0) || failure.0.kind() == &TOO_LARGE => {
            visit.refused = match in_file(&failure.0) {
                Some(violations) => Refused::fields(Problem::invalid(violations))?,
                None => Refused::form(&failure.0, id.as_ref().map_or("", |id| &id.0)),
            };
            Ok(refusal::shown(page(&visit).await?, failure))
        }
        Err(failure) => Err(failure),
    }
}

/// The page of the job of a file.
async fn take(visit: &mut Asking, once: &Once, request: Request) -> Result<String, Failure> {
    let arriving = open(visit, request, MOST).await?;
    let job = accept(visit, once, arriving.clone()).await;
    arriving.finish().await;
    job
}

async fn accept(visit: &Asking, once: &Once, arriving: Arriving) -> Result<String, Failure> {
    if arriving.name.is_empty() {
        return Err(Problem::violation("file", "required", "is required").into());
    }
    let typed = &visit.asked;
    let (push, mut header) = (push(visit)?, Map::new());
    let mut given = vec![("eshop", Kind::Eshop)];
    given.extend((push == Push::Stocks).then_some(("warehouseId", Kind::Warehouse)));
    for (name, kind) in given {
        let id: Option<Uuid> = visit.named(typed, kind, name).await?;
        header.extend(id.map(|id| (name.to_owned(), json!(id))));
    }
    if push == Push::Expeditions {
        let send = typed.among("send", |word| of(&SENDS, word))?.flatten();
        header.extend(send.map(|send| ("send".to_owned(), json!(send))));
    }
    let is_dry_run = typed.among(DRY_RUN, |word| of(&TRIES, word))?.unwrap_or(false);
    header.extend(is_dry_run.then(|| (DRY_RUN.to_owned(), json!(true))));
    let request = pushed(arriving, typed, push, header)?;
    let answered = intake::receive(&visit.app, &visit.may, once, request, push).await?;
    Ok(job::page(&answered.answer)?)
}

/// `POST /console/import/look`: what the script shows of the beginning of a file.
pub(super) async fn look(mut visit: Asking, request: Request) -> Result<Response, Failure> {
    let found = async {
        let arriving = open(&mut visit, request, PART).await?;
        let found = read(&visit, arriving.clone()).await;
        arriving.finish().await;
        found
    };
    let content = match found.await {
        Ok(look) => table(&look),
        Err(problem) => match in_file(&problem) {
            Some(wrong) => html! {
                div.error role="alert" { @for violation in &wrong { p { (full(&violation.message)) } } }
            },
            None => return Err(problem.into()),
        },
    };
    Ok(Html(content.into_string()).into_response())
}

async fn read(visit: &Asking, arriving: Arriving) -> Result<Look, Problem> {
    if is_json(&arriving.name) && is_part(&visit.asked) {
        let said = format!(
            "the file is JSON of more than {} KiB: its rows are not shown, but it can be sent",
            PART / 1024
        );
        return Err(Problem::new(&TOO_LARGE, said));
    }
    let push = push(visit)?;
    look::look(pushed(arriving, &visit.asked, push, Map::new())?, push, ROWS).await
}

/// Reads a form up to its file.
async fn open(visit: &mut Asking, request: Request, most: usize) -> Result<Arriving, Problem> {
    let extensions = request.extensions().clone();
    let FileStream { fields, file_name, pieces } = FileStream::of(request, most).await?;
    visit.asked = Asked(fields);
    visit.acts_by(&visit.asked)?;
    Ok(Arriving { name: file_name, pieces: Arc::new(Mutex::new(pieces)), extensions })
}

/// What an option stands for.
fn of<T: Copy>(options: &[(&str, T)], word: &str) -> Option<T> {
    options.iter().find(|(known, _)| *known == word).map(|(_, meant)| *meant)
}

/// Which rows the form says, if the visitor may send them.
fn push(visit: &Asking) -> Result<Push, Problem> {
    let push = visit.asked.among("kind", |word| of(&KINDS, word))?.unwrap_or(Push::Products);
    if push == Push::Expeditions {
        visit.may.caller.must(Permission::WriteExpeditions)?;
    }
    Ok(push)
}

fn is_json(name: &str) -> bool {
    ends(name, &["json"])
}

fn ends(name: &str, endings: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| endings.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Whether only the beginning of the file was sent.
fn is_part(typed: &Asked) -> bool {
    typed.get("part").is_some()
}

/// The request with which a program sends the file: by its name, rows of JSON a line, one array of them, or CSV.
fn pushed(
    arriving: Arriving,
    typed: &Asked,
    push: Push,
    mut header: Map<String, Value>,
) -> Result<Request, Problem> {
    let Arriving { name, pieces, extensions } = arriving;
    let mut query = Serializer::new(String::new());
    let (media, head, tail) = if is_json(&name) {
        let mut head = Value::Object(header).to_string();
        head.pop();
        let comma = if head.len() > 1 { "," } else { "" };
        ("application/json", format!("{head}{comma}\"{}\":", push.rows_member()), "}")
    } else if ends(&name, &["ndjson", "jsonl"]) {
        // that the first line of the file is 1
        header.insert("line".to_owned(), json!(0));
        (NDJSON, format!("{}\n", Value::Object(header)), "")
    } else {
        for (name, value) in &header {
            query.append_pair(name, &value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        for name in ["delimiter", "charset"] {
            query.extend_pairs(typed.get(name).map(|value| (name, value)));
        }
        (CSV, String::new(), "")
    };
    let is_csv = media == CSV;
    let mut begins = true;
    let pieces = stream::unfold(pieces, |pieces| async move {
        let piece = pieces.lock().await.next().await?;
        Some((piece, pieces))
    });
    let pieces = pieces.map_ok(move |mut piece: Bytes| {
        // CSV has its own reading of it
        if std::mem::take(&mut begins) && !is_csv && piece.starts_with(BYTE_ORDER_MARK) {
            piece.advance(BYTE_ORDER_MARK.len());
        }
        piece
    });
    let end = if is_part(typed) { Err(look::cut()) } else { Ok(Bytes::from_static(tail.as_bytes())) };
    let whole = stream::iter([Ok(Bytes::from(head))]).chain(pieces).chain(stream::iter([end]));
    let mut request = Request::post(format!("/?{}", query.finish()))
        .header(CONTENT_TYPE, media)
        .body(Body::from_stream(whole))
        .map_err(Problem::internal)?;
    *request.extensions_mut() = extensions;
    Ok(request)
}

/// What is wrong with the fields; what is wrong in the file is of its field.
fn in_file(problem: &Problem) -> Option<Vec<Violation>> {
    if problem.violations().is_empty() {
        let is_of_file = problem.kind() == &MALFORMED_BODY || problem.kind() == &TOO_LARGE;
        return is_of_file.then(|| vec![Violation::new("file", problem.kind().code, problem.said())]);
    }
    let of_field = |violation: &Violation| {
        if FIELDS.contains(&&*violation.property_path) {
            violation.clone()
        } else {
            Violation::new("file", violation.code, violation.to_string())
        }
    };
    Some(problem.violations().iter().map(of_field).collect())
}

async fn page(visit: &Asking) -> Result<Response, Problem> {
    let (asked, refused) = (&visit.asked, &visit.refused);
    let (eshops, places) = tokio::try_join!(
        named::suggestions(visit.db(), visit.scope(), Kind::Eshop),
        named::suggestions(visit.db(), visit.scope(), Kind::Warehouse),
    )?;
    let charsets = Charset::names().map(|name| (if name == Charset::Utf8.name() { "" } else { name }, name));
    let content = html! {
        p.trail { a href=("/console/job") { "Jobs" } " / import" }
        h1 { "Import" }
        form.editor method="post" action=(HERE) enctype="multipart/form-data" data-look=(LOOK) data-part=(PART) data-most=(MOST) {
            input type="hidden" name=(FORM_TOKEN) value=(form_token(&visit.token));
            (alert(refused, &FIELDS))
            fieldset {
                legend { "Rows" }
                (suggested(asked, refused, "eshop", "E-shop (name or id)", &eshops))
                (options(asked, refused, "kind", "Kind", KINDS.map(|(word, _)| (word, word))))
                (suggested(asked, refused, "warehouseId", "Warehouse, for stocks (name or id)", &places))
                (options(asked, refused, "send", "Send orders to their warehouse", SENDS.map(|(word, _)| (word, word))))
                (options(asked, refused, DRY_RUN, "What to do with the rows", TRIES.map(|(word, _)| (word, word))))
            }
            fieldset {
                legend { "File" }
                p.muted {
                    "CSV; or with a name that ends in " code { ".ndjson" } ", JSON with a row a line; or in " code { ".json" } ", an array of rows. At most 50 MiB, an array 32 MiB."
                }
                (options(asked, refused, "delimiter", "Delimiter of CSV", DELIMITERS))
                (options(asked, refused, "charset", "Character set of CSV", charsets))
                // the last field: the others are read before the file arrives
                (checked(&Asked::default(), refused, "file", "File", "file"))
                @if !refused.is_empty() { p.muted { "Choose the file again: a browser keeps none." } }
            }
            div.buttons {
                button.primary type="submit" { "Send" }
                a.button href=("/console/job") { "Back" }
            }
        }
        section #look aria-live="polite" {}
    };
    Ok(visit.page(Section::Jobs, "Import", &content))
}

/// The first rows, their fields as columns.
fn table(look: &Look) -> Markup {
    let place = |field: &str| {
        let is_of =
            |name: &String| name.split('.').next().is_some_and(|name| name.eq_ignore_ascii_case(field));
        // a row of JSON begins with what it calls itself
        look.names
            .iter()
            .position(is_of)
            .unwrap_or(usize::from(!["productSku", "orderNumber"].contains(&field)))
    };
    let mut columns: Vec<&str> = Vec::new();
    for (_, row) in &look.rows {
        for name in row.members.keys().filter(|name| !columns.contains(&name.as_str())).collect::<Vec<_>>() {
            columns.push(name);
        }
    }
    columns.sort_by_key(|name| place(name));
    let is_refused = look.rows.iter().any(|(_, row)| row.refused.is_some());
    html! {
        h2 { "First rows, as they will be read" }
        @if look.rows.is_empty() {
            (empty("No rows.", "The file has none behind its first line."))
        } @else {
            div.scroll tabindex="0" role="region" aria-label="First rows, table" {
                table {
                    thead { tr {
                        th.number { "Line" }
                        @if is_refused { th { "Refused" } }
                        @for name in &columns { th { (name) } }
                    } }
                    tbody {
                        @for (line, row) in &look.rows {
                            tr {
                                td.number { @match line { Some(line) => (line), None => (none()) } }
                                @if is_refused {
                                    td.text { @if let Some((code, message)) = &row.refused { code { (code) } " " span.refused { (message) } } }
                                }
                                @for name in &columns { td { @if let Some(value) = row.members.get(*name) { code { (value) } } } }
                            }
                        }
                    }
                }
            }
        }
    }
}
