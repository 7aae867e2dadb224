//! Rows that a caller brings, in every form, on their way to become a job ([`receiving`]). Operations and pages that take rows
//! read them here, and so do those that only [`look`] at them.
//!
//! [`receiving`]: longshore_domain::job::receiving

pub mod look;

use axum::extract::Request;
use bytes::Bytes;
use longshore_domain::catalog::product::rules;
use longshore_domain::expedition::import;
use longshore_domain::job::receiving::{Gathering, RENEWAL, Receiving, Target};
use longshore_domain::partner::pull;
use longshore_domain::partner::push::{self, Push};
use longshore_domain::warehouse::stock::sync as stock;
use longshore_kernel::answer::Answer;
use longshore_kernel::context::Context;
use longshore_kernel::idempotency::{self, Claimed};
use longshore_kernel::input::{Reader, Rule as _, Schema, integer, object};
use longshore_kernel::json;
use longshore_kernel::problem::{MALFORMED_BODY, Problem, UNSUPPORTED_MEDIA_TYPE};
use serde_json::{Value, json};

use crate::app::App;
use crate::extract::body::{Sent, without_query};
use crate::extract::lines::{NDJSON, Rows};
use crate::extract::once::Answered;
use crate::extract::{Budget, CsvRows, Document, Failure, Lines, Once};

/// The largest sync as one JSON document, in bytes; NDJSON has no limit.
const JSON_LIMIT: usize = 32 * 1024 * 1024;

/// Receives the rows of a request, or what it says that the worker is to fetch, as a job; once, with an idempotency key.
///
/// # Errors
/// What is wrong with the body as a whole, or with what it is for; a row that breaks rules is an item error of the job.
pub async fn receive(
    app: &App,
    context: &Context,
    once: &Once,
    request: Request,
    push: Push,
) -> Result<Answered, Failure> {
    let budget = Budget::of(request.extensions());
    let sent = request.extensions().get::<Sent>().cloned().unwrap_or_default();
    let answered = match Rows::of(request.headers())? {
        Rows::Lines => {
            without_query(&request)?;
            let rows = Stream::Lines(Box::new(Lines::of(request)?));
            stream_once(app, context.clone(), once, push, rows, &sent).await?
        }
        Rows::Csv => {
            let (of_header, of_row) = schemas(push)?;
            let (header, rows) = CsvRows::of(request, &of_header, of_row)?;
            sent.keep(header.to_string().into());
            stream_once(app, context.clone(), once, push, Stream::Csv(header, Box::new(rows)), &sent).await?
        }
        Rows::Document => {
            without_query(&request)?;
            let received =
                Document::receive(request, push.rows_member(), Gathering::of(push.kind()), JSON_LIMIT)
                    .await?;
            sent.keep(Bytes::copy_from_slice(&received.around));
            budget.set(received.held() + json::weight(&received.around))?;
            let hash = received.hash;
            once.answer(&app.services, context.clone(), &hash, async |context| {
                document(app, context, push, received).await
            })
            .await?
        }
    };
    // while the caller waits for the job, its rows need no memory here
    budget.set(0)?;
    Ok(answered)
}

/// What the query of a file says, and the rows that its lines make.
fn schemas(push: Push) -> Result<(Schema, Schema), Problem> {
    match push {
        Push::Products => Ok((push::product_header().schema(), rules::schema_of_sync_row())),
        Push::Stocks => Ok((push::stock_header().schema(), stock::row().schema())),
        Push::Expeditions => Ok((push::expedition_header().schema(), import::schema())),
        Push::News => {
            let detail = format!("Content-Type must be application/json or {NDJSON}");
            Err(Problem::new(&UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

/// Rows that arrive one after the other.
enum Stream {
    Lines(Box<Lines>),
    /// Behind what its query says.
    Csv(Value, Box<CsvRows>),
}

impl Stream {
    async fn next(&mut self) -> Result<Option<(Bytes, u64)>, Problem> {
        match self {
            Self::Lines(lines) => Ok(lines.next().await?.map(|line| (line, lines.number()))),
            Self::Csv(_, rows) => rows.next().await,
        }
    }

    fn beside(&mut self, bytes: usize) {
        match self {
            Self::Lines(lines) => lines.beside(bytes),
            Self::Csv(_, rows) => rows.beside(bytes),
        }
    }

    fn hash(self) -> [u8; 32] {
        match self {
            Self::Lines(lines) => lines.hash(),
            Self::Csv(_, rows) => rows.hash(),
        }
    }
}

/// The JSON form: one document, whose rows were packed as they arrived.
async fn document(app: &App, context: &Context, push: Push, received: Document) -> Result<Answer, Problem> {
    let around = received.around.as_slice();
    if let Some(mark) = push.source_member() {
        if around.trim_ascii_start().starts_with(b"[") {
            return pull::accept(&app.services, context, push, parse(around)?).await;
        }
        let members = received.members()?;
        if !members.contains_key(push.rows_member()) {
            if members.contains_key(mark) {
                return pull::accept(&app.services, context, push, parse(around)?).await;
            }
            let message = format!("is required; or send {mark}, and the worker fetches the rows");
            return Err(Problem::violation(push.rows_member(), "required", message));
        }
    }
    let mut members = received.members()?;
    if members.remove(push.rows_member()).is_none() {
        return Err(Problem::violation(push.rows_member(), "required", "is required"));
    }
    let mut header = serde_json::Map::new();
    for (name, raw) in members {
        // a raw value was only skipped over: its numbers, escapes and depth are checked here
        let value = json::parse(raw.get().as_bytes())
            .map_err(|unread| unread.within(&name).problem(&format!("the value of {name}")))?;
        header.insert(name, value);
    }
    let target = push::target(&app.services, context, push, Value::Object(header)).await?;
    let mut receiving = Receiving::begin(&app.services, context, target).await?;
    for chunk in received.chunks {
        if let Err(problem) = receiving.chunk(chunk).await {
            receiving.abandon().await;
            return Err(problem);
        }
    }
    receiving.finish(None).await
}

fn parse(body: &[u8]) -> Result<Value, Problem> {
    json::parse(body).map_err(|unread| unread.problem("the body"))
}

/// A stream with an idempotency key: the hash of the body is known only at its end.
async fn stream_once(
    app: &App,
    mut context: Context,
    once: &Once,
    push: Push,
    mut rows: Stream,
    sent: &Sent,
) -> Result<Answered, Failure> {
    let Some(key) = once.key(&context) else {
        return Ok(Answered { answer: stream(app, &context, push, rows, sent).await?, replayed: false });
    };
    match idempotency::claim(&app.services.db.main, &key, None).await? {
        Claimed::Repeated { answer, body_hash } => {
            while rows.next().await?.is_some() {}
            if rows.hash().as_slice() == body_hash {
                Ok(Answered { answer, replayed: true })
            } else {
                Err(idempotency::reused().into())
            }
        }
        Claimed::First(held) => {
            context.claim = held.claim();
            match stream(app, &context, push, rows, sent).await {
                Ok(answer) => {
                    held.keep();
                    Ok(Answered { answer, replayed: false })
                }
                Err(problem) => {
                    // the sender may correct its stream and use the key again
                    held.give_back().await;
                    Err(problem.into())
                }
            }
        }
    }
}

async fn stream(
    app: &App,
    context: &Context,
    push: Push,
    mut rows: Stream,
    sent: &Sent,
) -> Result<Answer, Problem> {
    let target = match &mut rows {
        Stream::Lines(lines) => headed(app, context, push, lines, sent).await?,
        Stream::Csv(header, rows) => {
            let target = push::target(&app.services, context, push, header.take()).await?;
            rows.begin().await?;
            target
        }
    };
    let mut receiving = Receiving::begin(&app.services, context, target).await?;
    match take_rows(&mut receiving, &mut rows).await {
        Ok(()) => {
            if let Stream::Csv(_, rows) = &rows
                && let Some(form) = rows.form()
            {
                receiving.of_csv(form);
            }
            receiving.finish(Some(&rows.hash())).await
        }
        Err(problem) => {
            receiving.abandon().await;
            Err(problem)
        }
    }
}

/// Reads the first line of NDJSON, which is the header.
async fn headed(
    app: &App,
    context: &Context,
    push: Push,
    lines: &mut Lines,
    sent: &Sent,
) -> Result<Target, Problem> {
    let header = lines.next().await?.ok_or_else(|| {
        Problem::new(
            &MALFORMED_BODY,
            format!(
                "the body is missing; its first line must be a JSON object with the {}",
                push.whose_member()
            ),
        )
    })?;
    sent.keep(header.clone());
    let mut header = lines.parse(&header)?;
    if let Some(line) = take_line(&mut header)? {
        lines.renumber(line);
    }
    let is_header = header.get(push.whose_member()).is_some();
    let target = push::target(&app.services, context, push, header).await;
    target.map_err(|problem| if is_header { problem } else { headless(push, problem) })
}

/// The number of the header in the file of the sender, if the header says it: 0 where a program put it before the file, whose first
/// line is then 1.
fn take_line(header: &mut Value) -> Result<Option<u64>, Problem> {
    let Some(line) = header.as_object_mut().and_then(|header| header.remove("line")) else { return Ok(None) };
    let line =
        Reader::read(json!({ "line": line }), object(|header| header.required("line", integer(0..=1))))?;
    Ok(Some(line.unsigned_abs()))
}

/// Explains that the first line must be the header, if a stream begins with a row.
fn headless(push: Push, problem: Problem) -> Problem {
    let whose = push.whose_member();
    let mut violations = problem.violations().to_vec();
    match violations
        .iter_mut()
        .find(|violation| (&*violation.property_path, violation.code) == (whose, "required"))
    {
        Some(missing) => {
            missing.message =
                format!("is required: the first line must be the header, such as {{\"{whose}\": …}}");
            Problem::invalid(violations)
        }
        None => problem,
    }
}

async fn take_rows(receiving: &mut Receiving<'_>, rows: &mut Stream) -> Result<(), Problem> {
    let mut renew = tokio::time::interval(RENEWAL);
    renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let row = tokio::select! {
            biased;
            row = rows.next() => row?,
            _ = renew.tick() => {
                receiving.renew().await?;
                continue;
            }
        };
        match row {
            Some((row, line)) => {
                receiving.row(&row, Some(line)).await?;
                rows.beside(receiving.held());
            }
            None => return Ok(()),
        }
    }
}
