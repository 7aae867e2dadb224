//! `longshore job`: jobs.

use std::io::{Write as _, stderr};
use std::pin::pin;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use longshore_client::{
    Answer, Client, DateTime, Job, JobEvent, JobResult, JobState, ListQuery, Order, Outcome, Preview, Utc,
    Uuid, Value,
};
use tokio::time::timeout;

use crate::find::Named;
use crate::list::{self, Part};
use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, output, read, table};

/// Refused items to show with a job; `job errors --all` has the others.
const REFUSED_SHOWN: u32 = 20;

/// How long a job may stay queued before it is said that no worker takes it.
const SAID_AFTER: Duration = Duration::from_secs(3);

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// List jobs, the newest first.
    List(List),
    /// Show the state of a job, what it waits for, how long it took, why it refused items, and the first of these.
    Show(One),
    /// List the items that a job refused, and why.
    Errors(Listed),
    /// List what a job changed, in the order of the changes.
    Changes(Listed),
    /// Print the rows that a job refused as they were sent, each with its line, code and message: repair them and send them again.
    Refused(One),
    /// Show the progress of a job until it ends; the exit status shows the result.
    Watch(One),
    /// Cancel a job; completed work stays.
    Cancel(One),
    /// Execute what failed in a job again.
    Retry(Retry),
    /// List what a dry run would do: the first 10,000 items that it would not leave as they are.
    Preview(Listed),
    /// Apply a dry run, once, within an hour of its end: what it found is done, but where a record has changed since.
    Apply(Apply),
    /// Execute what the guard of a sync has withheld.
    Release(Release),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only jobs in these states, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(JobState::ALL))]
    state: Vec<String>,
    /// Only jobs of these kinds, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(Job::KINDS))]
    kind: Vec<String>,
    /// Only jobs of this organisation, by its id or name.
    #[arg(long, value_parser = Named::organisation)]
    organisation: Option<Named>,
    /// Only jobs of this e-shop, by its id or name.
    #[arg(long, value_parser = Named::eshop)]
    eshop: Option<Named>,
    #[command(flatten)]
    part: Part<20>,
}

#[derive(Args, Debug)]
pub(super) struct One {
    /// Id of the job.
    #[arg(value_parser = read::id)]
    id: Uuid,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Listed {
    /// Id of the job.
    #[arg(value_parser = read::id)]
    id: Uuid,
    #[command(flatten)]
    part: Part<20>,
}

#[derive(Args, Debug)]
pub(super) struct Retry {
    /// Id of the job.
    #[arg(value_parser = read::id)]
    id: Uuid,
    /// Show its progress until it ends; the exit status shows the result.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Apply {
    /// Id of the dry run.
    #[arg(value_parser = read::id)]
    id: Uuid,
    /// Do it also where a record has changed since.
    #[arg(long)]
    force: bool,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Release {
    /// Id of the job.
    #[arg(value_parser = read::id)]
    id: Uuid,
    /// Do not execute more rows than that.
    #[arg(long)]
    up_to: u64,
    /// End as soon as the job is accepted, and print its id.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

impl JobCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(One { id, remote }) => {
                let client = remote.client()?;
                let job = remote::json(&client.job(id).answer().await?)?;
                if remote.json {
                    output::json(&job)?;
                    return Ok(Exit::Done);
                }
                show(&job)?;
                let failed = job["progress"]["failed"].as_u64().unwrap_or(0);
                if failed > 0 {
                    refused(&client, id, failed).await?;
                }
                Ok(Exit::Done)
            }
            Self::Refused(One { id, remote }) => {
                output::pieces(remote.client()?.refused_rows(id)).await?;
                Ok(Exit::Done)
            }
            Self::Errors(listed) => listed.errors().await,
            Self::Changes(listed) => listed.changes().await,
            Self::Preview(listed) => listed.preview().await,
            Self::Apply(Apply { id, force, detach, remote }) => {
                let client = remote.client()?;
                let answer = client.apply_job(id, force).answer().await?;
                let job: Job = answer.read()?;
                followed(&client, &answer, job.id, detach, remote.json).await
            }
            Self::Release(Release { id, up_to, detach, remote }) => {
                let client = remote.client()?;
                let answer = client.release_job(id, up_to).answer().await?;
                followed(&client, &answer, id, detach, remote.json).await
            }
            Self::Watch(One { id, remote }) => watch(&remote.client()?, id, remote.json).await,
            Self::Cancel(One { id, remote }) => {
                let job = remote::json(&remote.client()?.cancel_job(id).answer().await?)?;
                tell(&job, remote.json)?;
                Ok(Exit::Done)
            }
            Self::Retry(Retry { id, watch: watched, remote }) => {
                let client = remote.client()?;
                let job = remote::json(&client.retry_job(id).answer().await?)?;
                if watched {
                    return watch(&client, id, remote.json).await;
                }
                tell(&job, remote.json)?;
                Ok(Exit::Done)
            }
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let client = self.part.client()?;
        let query = ListQuery::new()
            .among("state", &self.state)
            .among("kind", &self.kind)
            .equal("organisation", Named::id_of(self.organisation.as_ref(), &client).await?)
            .equal("eshop", Named::id_of(self.eshop.as_ref(), &client).await?)
            .sort("createdAt", Order::Descending);
        let Some(answer) = self.part.ask(query, Client::jobs).await? else { return Ok(Exit::Done) };
        let paths = [
            "id",
            "kind",
            "state",
            "outcome",
            "progress.done",
            "progress.total",
            "progress.failed",
            "createdAt",
        ];
        let heads =
            ["id", "kind", "state", "outcome", "done", "total", "refused", "created", "waits for", "error"];
        let mut rows = table::rows(&answer["results"], &paths);
        for (row, job) in rows.iter_mut().zip(answer["results"].as_array().into_iter().flatten()) {
            let waits = waits_for(job, self.part.has_ids());
            row.extend([waits.unwrap_or_else(|| "-".to_owned()), table::cell(job, "error")]);
        }
        // the first column is the id
        let from = usize::from(!self.part.has_ids());
        for row in &mut rows {
            row.drain(..from);
        }
        list::write_rows(&answer, &heads[from..], &rows)?;
        Ok(Exit::Done)
    }
}

/// What is shown of a refused item.
const OF_REFUSED: [&str; 5] = ["index", "line", "key", "code", "message"];

impl Listed {
    async fn errors(self) -> anyhow::Result<Exit> {
        let list = |client: &Client, query: &ListQuery| client.list::<Value>(errors_of(self.id), query);
        let columns = OF_REFUSED.map(|name| (name, name));
        self.part.write(ListQuery::new(), list, &columns).await
    }

    async fn changes(self) -> anyhow::Result<Exit> {
        let list = |client: &Client, query: &ListQuery| {
            client.list::<Value>(format!("/api/job/{}/change/list", self.id), query)
        };
        let columns = [("at", "at"), ("key", "key"), ("action", "action"), ("changes", "changes")];
        self.part.write(ListQuery::new().sort("id", Order::Ascending), list, &columns).await
    }

    async fn preview(self) -> anyhow::Result<Exit> {
        let list = |client: &Client, query: &ListQuery| {
            client.list::<Value>(format!("/api/job/{}/preview/list", self.id), query)
        };
        let columns = ["index", "line", "key", "would", "changes", "message"].map(|name| (name, name));
        self.part.write(ListQuery::new(), list, &columns).await
    }
}

/// What a dry run found, in a sentence; what it found none of is left out.
fn found(found: &Preview) -> String {
    let parts = [
        (found.created, "to create"),
        (found.updated, "to change"),
        (found.unchanged, "to leave as they are"),
        (found.refused, "to refuse"),
        (found.deactivated, "to switch off"),
        (found.zeroed, "to set to 0"),
        (found.booked, "to book, at most"),
        (found.waiting, "to wait, at most"),
        (found.deliveries, "deliveries"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{} {what}", HumanCount(count))).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// Where the refused items of a job are.
fn errors_of(job: Uuid) -> String {
    format!("/api/job/{job}/error/list")
}

/// Writes why items of a job were refused and how many for each reason, then the first of them, and how to get them back.
async fn refused(client: &Client, job: Uuid, failed: u64) -> anyhow::Result<()> {
    let groups = remote::json(&client.item_error_groups(job).answer().await?)?;
    let rows = table::rows(&groups["results"], &["count", "code", "field", "example.message"]);
    let mut out = stdout();
    if !rows.is_empty() {
        writeln!(out)?;
        table::write(&mut out, &["refused", "code", "field", "example"], &rows)?;
        writeln!(out)?;
    }
    let query = ListQuery::new().limit(REFUSED_SHOWN);
    let refused = remote::json(&client.list::<Value>(errors_of(job), &query).answer().await?)?;
    let rows = table::rows(&refused["results"], &OF_REFUSED);
    table::write(&mut out, &OF_REFUSED, &rows)?;
    let (written, kept) = (rows.len().try_into()?, refused["paging"]["total"].as_u64().unwrap_or(failed));
    let more = failed.saturating_sub(written);
    if more > 0 {
        let kept = match kept.saturating_sub(written) {
            kept if kept < more => format!(", of which {} are kept", HumanCount(kept)),
            _ => String::new(),
        };
        writeln!(out, "… and {} more{kept}: longshore job errors {job} --all", HumanCount(more))?;
    }
    writeln!(out, "as they were sent, to be repaired and sent again: longshore job refused {job}")?;
    Ok(())
}

/// How long the last attempt of a job took, or has taken until now; with all attempts and the waits between them, where there are any.
fn ran(job: &Value, now: DateTime<Utc>) -> String {
    let at = |name: &str| job[name].as_str().and_then(|text| text.parse::<DateTime<Utc>>().ok());
    let Some(first) = at("startedAt") else { return "-".to_owned() };
    let (last, finished) = (at("attemptStartedAt").unwrap_or(first), at("finishedAt"));
    let runs = job["state"] == "running";
    let took = finished.or(runs.then_some(now)).map(|until| table::span(until - last));
    let attempts = counted(job["attempts"].as_u64().unwrap_or(1), "attempt", "attempts");
    let whole = table::span(finished.unwrap_or(now) - first);
    match took {
        Some(took) if first == last => took,
        Some(took) => format!("{took}, {whole} since its first start ({attempts})"),
        None => format!("not now, {whole} since its first start ({attempts})"),
    }
}

/// The reason why a job waits, with the id of the one that comes first if it is wanted.
fn waits_for(job: &Value, with_id: bool) -> Option<String> {
    let waits = job.get("waitsFor").filter(|waits| waits.is_object())?;
    Some(match waits["reason"].as_str() {
        Some("earlier_job") if !with_id => "an earlier job".to_owned(),
        Some("earlier_job") => format!("job {}", table::cell(waits, "job")),
        Some("partner") => format!("its partner, until {}", table::cell(waits, "until")),
        Some("turn") => "its organisation's turn".to_owned(),
        Some("paused") => "a paused queue".to_owned(),
        _ => table::cell(waits, "reason"),
    })
}

/// Writes the details of a job, one per line.
fn show(job: &Value) -> anyhow::Result<()> {
    let waiting = waits_for(job, true).map_or_else(
        || "-".to_owned(),
        |waits| format!("{waits}, since {}", table::cell(&job["waitsFor"], "since")),
    );
    let said = |path: &str| table::cell(job, path);
    let progress = format!(
        "{} of {}: {} changed, {} unchanged, {} refused",
        said("progress.done"),
        said("progress.total"),
        said("progress.changed"),
        said("progress.unchanged"),
        said("progress.failed"),
    );
    let lines = [
        ("job", said("id")),
        ("kind", said("kind")),
        ("state", said("state")),
        ("outcome", said("outcome")),
        ("waits for", waiting),
        ("progress", progress),
        ("e-shop", said("eshop")),
        ("created", said("createdAt")),
        ("started", said("startedAt")),
        ("finished", said("finishedAt")),
        ("ran", ran(job, read::now())),
        ("error", said("error")),
    ];
    let mut out = stdout();
    for (name, value) in lines {
        writeln!(out, "{name:<10} {value}")?;
    }
    if let Ok(found) = serde_json::from_value::<Preview>(job["preview"].clone()) {
        writeln!(out, "{:<10} {}", "found", self::found(&found))?;
    }
    Ok(())
}

/// Writes the state of a job.
fn tell(job: &Value, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        output::json(job)?;
    } else {
        writeln!(stdout(), "job {} is {}", table::cell(job, "id"), table::cell(job, "state"))?;
    }
    Ok(())
}

/// Follows the job that a call accepted to its end; a detached command only writes its id.
pub(super) async fn followed(
    client: &Client,
    answer: &Answer,
    id: Uuid,
    detach: bool,
    as_json: bool,
) -> anyhow::Result<Exit> {
    if !detach {
        return watch(client, id, as_json).await;
    }
    if as_json {
        output::json(&remote::json(answer)?)?;
    } else {
        writeln!(stdout(), "{id}")?;
    }
    Ok(Exit::Done)
}

/// Follows a job to its end, and writes its result.
pub(super) async fn watch(client: &Client, id: Uuid, as_json: bool) -> anyhow::Result<Exit> {
    // drawn only on a terminal
    let bar = ProgressBar::new(0)
        .with_style(style("{msg} {wide_bar} {human_pos}/{human_len}, {per_sec}, {eta} left"));
    let mut events = client.follow_job(id);
    let (mut last, mut said) = (None::<JobEvent>, String::new());
    loop {
        let next = {
            let mut next = pin!(events.next());
            if let Ok(next) = timeout(SAID_AFTER, &mut next).await {
                next?
            } else {
                let is_queued = last.as_ref().is_some_and(|event| event.job.state == JobState::Queued);
                if is_queued && said.is_empty() {
                    said = tell_waiting(&bar, "a free worker".to_owned());
                }
                next.await?
            }
        };
        let Some(event) = next else { break };
        let waits = waits_for(&serde_json::from_str(&event.text)?, true);
        if let Some(waits) = waits.filter(|waits| said != *waits) {
            said = tell_waiting(&bar, waits);
        }
        let job = &event.job;
        bar.set_length(job.progress.total);
        bar.set_position(job.progress.done);
        bar.set_message(table::shown(&format!("{} {}", job.kind, job.state)));
        last = Some(event);
    }
    bar.finish_and_clear();
    let end = last.context("the progress of the job has no end")?;
    if as_json {
        output::json(&serde_json::from_str(&end.text)?)?;
    } else {
        tell_end(client, &end.job).await?;
    }
    Ok(match end.job.state {
        JobState::Succeeded if end.job.progress.failed + end.job.progress.withheld > 0 => Exit::Refusals,
        JobState::Succeeded => Exit::Done,
        _ => Exit::Failed,
    })
}

/// Writes what a job waits for, above its bar.
fn tell_waiting(bar: &ProgressBar, waits: String) -> String {
    // whoever reads it may have gone, and the command goes on
    let _ = bar.suspend(|| writeln!(stderr(), "the job waits for {waits}"));
    waits
}

async fn tell_end(client: &Client, job: &Job) -> anyhow::Result<()> {
    let Job { id, kind, state, progress, error, outcome, result, connection, preview, .. } = job;
    let outcome = match outcome {
        Some(Outcome::Nothing) => " (nothing: every item was refused)",
        Some(Outcome::Partial) => " (partial: some items were refused)",
        Some(Outcome::Withheld) => " (withheld: it would have destroyed too much)",
        _ => "",
    };
    let mut out = stdout();
    if let Some(connection) = connection {
        let works = if connection.works { "works" } else { "does not work" };
        let message = table::shown(&connection.message);
        writeln!(out, "the connection {works}: {message}, after {} ms", connection.duration_ms)?;
        return Ok(());
    }
    writeln!(
        out,
        "job {id} {}{outcome}: {} changed, {} unchanged, {} refused of {}",
        table::shown(&state.to_string()),
        progress.changed,
        progress.unchanged,
        progress.failed,
        progress.total
    )?;
    if progress.withheld > 0 {
        let withheld = counted(progress.withheld, "row is", "rows are");
        writeln!(out, "{withheld} withheld: longshore job preview {id}")?;
        writeln!(
            out,
            "to execute them, within seven days: longshore job release {id} --up-to {}",
            progress.withheld
        )?;
    }
    if let Some(found) = preview {
        writeln!(out, "a dry run, which found: {}", self::found(found))?;
        writeln!(out, "item by item: longshore job preview {id}")?;
        if *state == JobState::Succeeded {
            writeln!(out, "to do it, within an hour: longshore job apply {id}")?;
        }
    }
    if let Some(sent_again) = result.and_then(|result| sent_again(kind, result, progress.unchanged)) {
        writeln!(out, "{sent_again}")?;
    }
    if let Some(error) = error {
        writeln!(out, "  {}", table::shown(error))?;
    }
    if progress.failed > 0 {
        refused(client, *id, progress.failed).await?;
    }
    Ok(())
}

/// The result of a job that sends deliveries again, in a sentence.
fn sent_again(kind: &str, result: JobResult, left: u64) -> Option<String> {
    let left = match left {
        0 => String::new(),
        left => format!(
            " {} left: sent again before or already due, or the event is no longer kept.",
            counted(left, "delivery was", "deliveries were")
        ),
    };
    let sentence = match kind {
        "webhook.recover" => {
            let released = match result.released {
                0 => "No waiting deliveries to release".to_owned(),
                count => format!("{} released", counted(count, "waiting delivery", "waiting deliveries")),
            };
            let resent = match result.resent {
                0 => "no failed ones to resend".to_owned(),
                count => format!("{} resent", counted(count, "failed one", "failed ones")),
            };
            format!("{released}; {resent}.")
        }
        "webhook.redeliver" => format!("{} resent.", counted(result.resent, "delivery", "deliveries")),
        "webhook.replay" => format!(
            "{} on the way again: {} released, {} resent.",
            counted(result.released + result.resent, "delivery is", "deliveries are"),
            HumanCount(result.released),
            HumanCount(result.resent)
        ),
        _ => return None,
    };
    Some(sentence + &left)
}

/// So many of something.
pub(super) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", HumanCount(count), if count == 1 { one } else { many })
}

/// The style of a progress bar; the default if the template does not parse.
pub(super) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_shows_how_long_its_last_attempt_took_and_that_it_waited() {
        let now = "2027-01-31T12:30:00Z".parse().unwrap();
        let shown = |state, last, finished: Option<&str>, attempts| {
            let job = serde_json::json!({"state": state, "startedAt": "2027-01-31T12:00:00Z", "attemptStartedAt": last,
                                         "finishedAt": finished, "attempts": attempts});
            ran(&job, now)
        };
        let (first, last, end) =
            ("2027-01-31T12:00:00Z", "2027-01-31T12:12:00Z", Some("2027-01-31T12:12:03Z"));
        assert_eq!(shown("succeeded", first, end, 1), "12 min");
        assert_eq!(shown("failed", last, end, 3), "3 s, 12 min since its first start (3 attempts)");
        assert_eq!(shown("running", last, None, 1), "18 min, 30 min since its first start (1 attempt)");
        assert_eq!(shown("retrying", last, None, 2), "not now, 30 min since its first start (2 attempts)");
        assert_eq!(ran(&serde_json::json!({"state": "queued", "startedAt": null}), now), "-");
    }

    #[test]
    fn a_job_that_sends_again_shows_what_it_released_and_what_it_resent() {
        let left = |kind, released, resent, left| {
            let result = serde_json::json!({"released": released, "resent": resent});
            sent_again(kind, serde_json::from_value(result).unwrap(), left).unwrap_or_default()
        };
        let shown = |kind, released, resent| left(kind, released, resent, 0);
        assert_eq!(
            shown("webhook.recover", 1_140, 0),
            "1,140 waiting deliveries released; no failed ones to resend."
        );
        assert_eq!(shown("webhook.recover", 0, 1), "No waiting deliveries to release; 1 failed one resent.");
        assert_eq!(shown("webhook.redeliver", 0, 61_000), "61,000 deliveries resent.");
        assert_eq!(shown("product.sync", 0, 0), "");
        assert_eq!(
            left("webhook.replay", 1_140, 20, 1),
            "1,160 deliveries are on the way again: 1,140 released, 20 resent. 1 delivery was left: sent again before or already due, or the event is no longer kept."
        );
    }
}
