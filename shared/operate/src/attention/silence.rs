//! Acknowledgements and mutes.

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};
use longshore_domain::attention::{Kind, Line, Mode, Silence};
use longshore_kernel::access::Scope;
use longshore_kernel::answer::Answer;
use longshore_kernel::change::Change;
use longshore_kernel::context::Context;
use longshore_kernel::database::Database;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::input::{Given, Reader, Rule, object, one_of, text, timestamp};
use longshore_kernel::problem::{FORBIDDEN, Problem, QUOTA_REACHED};
use longshore_kernel::record_change;
use longshore_kernel::services::Services;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Attention, find};

/// Days after which an acknowledgement ends, so that nothing is forgotten.
pub const ACKNOWLEDGED_DAYS: i32 = 30;
/// Acknowledgements and mutes of an organisation, and of the whole service.
pub const SILENCES: i64 = 100;
/// Characters of a note or a reason.
pub const REASON_LENGTH: usize = 200;
/// How long a mute may last, and its hours.
pub const SPANS: [(&str, i32); 4] = [("1h", 1), ("8h", 8), ("24h", 24), ("7d", 168)];
const SPAN_WORDS: [&str; 4] = [SPANS[0].0, SPANS[1].0, SPANS[2].0, SPANS[3].0];
/// Silences that are read: those of the lines that are there come first.
const READ: i64 = 2_000;

/// Adds to each line what was said about it, and what is muted without a line.
pub(super) async fn with_silences(
    db: &Database,
    scope: &Scope,
    mut lines: Vec<Line>,
) -> Result<Attention, Problem> {
    let present: HashSet<Uuid> = lines.iter().map(|line| line.id).collect();
    let silences = stored(db, scope, &present).await?;
    for line in &mut lines {
        let owners = line.owners(scope);
        let of = |owner: &Option<OrganisationId>| {
            silences.iter().find(|silence| silence.organisation == *owner && silence.covers(line))
        };
        // a sum is silent when it is so for each of its organisations; the last word is shown
        let said: Option<Vec<&Silence>> = owners.iter().map(of).collect();
        line.silence = said.and_then(|said| said.into_iter().max_by_key(|silence| silence.at).cloned());
    }
    let mut seen = present;
    let absent = silences.into_iter().filter(|one| one.mode == Mode::Muted && seen.insert(one.line));
    Ok(Attention { absent: absent.collect(), lines, ..Attention::default() })
}

/// The silences of these lines, and all mutes, as far as the scope goes.
async fn stored(db: &Database, scope: &Scope, lines: &HashSet<Uuid>) -> Result<Vec<Silence>, Problem> {
    let lines: Vec<Uuid> = lines.iter().copied().collect();
    let found = sqlx::query_as!(
        Silence,
        r#"SELECT line_id AS line, kind AS "kind: Kind", organisation_id AS "organisation: OrganisationId", mode AS "mode: Mode",
                  sentence, cause, until, reason, actor_name AS by, at
           FROM attention_silence
           -- not those of a newer version, which was rolled back
           WHERE until > now() AND kind = ANY ($6) AND (line_id = ANY ($1) OR mode = 'muted')
             AND CASE WHEN organisation_id IS NULL THEN $2::uuid[] IS NULL OR kind = ANY ($3)
                      ELSE in_scope($2, organisation_id) AND ($2::uuid[] IS NOT NULL OR kind <> ALL ($4)) END
           ORDER BY line_id = ANY ($1) DESC, at DESC, id DESC LIMIT $5"#,
        &lines,
        scope.organisations() as Option<&[OrganisationId]>,
        &Kind::OF_SERVICE.map(Kind::as_str) as &[&str],
        &Kind::sums() as &[&str],
        READ,
        &Kind::WORDS as &[&str],
    )
    .fetch_all(&db.lists)
    .await?;
    Ok(found)
}

/// What is to be said about a line.
struct Wish {
    action: &'static str,
    mode: Mode,
    cause: Option<DateTime<Utc>>,
    hours: i32,
    reason: Option<String>,
}

/// Says that an operator has seen a line (`PUT /api/attention/{id}/acknowledge`). The body may be absent.
pub async fn acknowledge(
    services: &Services,
    context: &Context,
    id: Uuid,
    body: Option<Value>,
) -> Result<Answer, Problem> {
    let body = body.unwrap_or_else(|| Value::Object(Map::new()));
    let (cause, note) = Reader::read(body, body_to_acknowledge())?;
    let line = own(services, context, id).await?;
    let cause = match cause {
        Given::Absent => line.cause,
        Given::Null => None,
        // what comes later has not been seen
        Given::Value(seen) => line.cause.min(Some(seen)),
    };
    let wish = Wish {
        action: "attention.acknowledge",
        mode: Mode::Acknowledged,
        cause,
        hours: ACKNOWLEDGED_DAYS * 24,
        reason: note,
    };
    set(services, context, &line, wish).await
}

/// The body of an acknowledgement: the cause that was seen, and a note.
pub fn body_to_acknowledge() -> impl Rule<Out = (Given<DateTime<Utc>>, Option<String>)> {
    object(|body| {
        let cause = body.nullable("cause", timestamp());
        Some((cause, body.nullable("note", text(0..=REASON_LENGTH)).value()))
    })
}

/// Hides a line for a time (`PUT /api/attention/{id}/mute`).
pub async fn mute(services: &Services, context: &Context, id: Uuid, body: Value) -> Result<Answer, Problem> {
    let (span, reason) = Reader::read(body, body_to_mute())?;
    let line = own(services, context, id).await?;
    let hours = SPANS.iter().find(|(word, _)| *word == span).map_or(1, |(_, hours)| *hours);
    let wish =
        Wish { action: "attention.mute", mode: Mode::Muted, cause: line.cause, hours, reason: Some(reason) };
    set(services, context, &line, wish).await
}

/// The body of a mute: for how long, and why.
pub fn body_to_mute() -> impl Rule<Out = (&'static str, String)> {
    object(|body| {
        let span = body.required("for", one_of(&SPAN_WORDS));
        let reason = body.required("reason", text(1..=REASON_LENGTH));
        Some((span?, reason?))
    })
}

/// The line of that id, if the caller may say something about it.
async fn own(services: &Services, context: &Context, id: Uuid) -> Result<Line, Problem> {
    let line = find(services, context.scope(), id).await?;
    if !line.is_of(context.scope()) {
        let detail = "the line is about the whole service; only a superadmin may acknowledge or mute it";
        return Err(Problem::new(&FORBIDDEN, detail));
    }
    Ok(line)
}

async fn set(services: &Services, context: &Context, line: &Line, wish: Wish) -> Result<Answer, Problem> {
    let owners: Vec<Option<Uuid>> =
        line.owners(context.scope()).iter().map(|owner| owner.map(OrganisationId::get)).collect();
    let mut change = Change::begin(services).await?;
    // they are few, and the limit holds for concurrent ones, too
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('attention silences', 0))")
        .execute(change.connection())
        .await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        wish.action,
        "attention",
        None,
        "WITH old AS MATERIALIZED (
             SELECT organisation_id, mode, until, reason FROM attention_silence WHERE line_id = $10 AND until > now()
         ), made AS (
             INSERT INTO attention_silence AS s (id, organisation_id, line_id, kind, mode, sentence, cause, until, reason, actor_name)
             SELECT uuid_v7(), o.id, $10::uuid, $11::text, $12::text, $13::text, $14::timestamptz, now() + make_interval(hours => $15),
                    $16::text, $3
             FROM unnest($9::uuid[]) AS o (id)
             ON CONFLICT ON CONSTRAINT a_line_is_silenced_once DO UPDATE
             SET mode = excluded.mode, sentence = excluded.sentence, cause = excluded.cause, until = excluded.until,
                 reason = excluded.reason, actor_name = excluded.actor_name, at = now()
             RETURNING s.*
         ), changed AS (
             SELECT made.line_id AS entity, made.organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('line', jsonb_build_array(NULL, made.sentence),
                        'state', jsonb_build_array(old.mode, made.mode),
                        'until', jsonb_build_array(old.until, made.until),
                        'reason', jsonb_build_array(old.reason, made.reason)) AS changes,
                    '{}'::jsonb AS data
             FROM made LEFT JOIN old ON old.organisation_id IS NOT DISTINCT FROM made.organisation_id
         )",
        &owners as &[Option<Uuid>],
        line.id,
        line.kind.as_str(),
        wish.mode.as_str(),
        line.sentence,
        wish.cause,
        wish.hours,
        wish.reason.as_deref(),
    )
    .await?;
    let at = recorded.at;
    change.note(recorded);
    must_have_room(&mut change, &owners).await?;
    let silence = Silence {
        line: line.id,
        kind: line.kind,
        organisation: None,
        mode: wish.mode,
        sentence: line.sentence.clone(),
        cause: wish.cause,
        until: at + TimeDelta::hours(i64::from(wish.hours)),
        reason: wish.reason,
        by: context.origin.actor.name.clone(),
        at,
    };
    change.answer(context.claim, Answer::shown(silence.fields().to_string())).await
}

/// Refuses more silences than an organisation, or the whole service, may have.
async fn must_have_room(change: &mut Change<'_>, owners: &[Option<Uuid>]) -> Result<(), Problem> {
    let full = sqlx::query_scalar!(
        r#"SELECT EXISTS (
               SELECT FROM unnest($1::uuid[]) AS o (id)
               WHERE (SELECT count(*) FROM attention_silence s
                      WHERE s.organisation_id IS NOT DISTINCT FROM o.id AND s.until > now()) > $2) AS "full!""#,
        owners as &[Option<Uuid>],
        SILENCES,
    )
    .fetch_one(change.connection())
    .await?;
    if !full {
        return Ok(());
    }
    let detail = format!("there are {SILENCES} acknowledgements and mutes already; end some of them");
    Err(Problem::new(&QUOTA_REACHED, detail))
}

/// Ends what was said about a line (`DELETE /api/attention/{id}/silence`): 204.
pub async fn end(services: &Services, context: &Context, line: Uuid) -> Result<Answer, Problem> {
    let mut change = Change::begin(services).await?;
    let recorded = record_change!(
        change.connection(),
        context.origin,
        "attention.end",
        "attention",
        None,
        "WITH made AS (
             DELETE FROM attention_silence
             WHERE line_id = $9 AND until > now()
               AND CASE WHEN organisation_id IS NULL THEN $10::uuid[] IS NULL
                        ELSE in_scope($10, organisation_id) AND ($10::uuid[] IS NOT NULL OR kind <> ALL ($11)) END
             RETURNING *
         ), changed AS (
             SELECT line_id AS entity, organisation_id AS organisation, '{}'::uuid[] AS eshops,
                    jsonb_build_object('line', jsonb_build_array(sentence, NULL), 'state', jsonb_build_array(mode, NULL),
                        'until', jsonb_build_array(until, NULL)) AS changes,
                    '{}'::jsonb AS data
             FROM made
         )",
        line,
        context.scope().organisations() as Option<&[OrganisationId]>,
        &Kind::sums() as &[&str],
    )
    .await?;
    if change.note(recorded) == 0 {
        return Err(Problem::not_found("acknowledgement or mute"));
    }
    change.answer(context.claim, Answer::done()).await
}
