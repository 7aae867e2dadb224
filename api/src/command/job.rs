//! `longshore-api job`: jobs, over HTTP.

use std::io::{Write as _, stdout};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use http::Method;
use indicatif::{ProgressBar, ProgressStyle};
use longshore_shared::job::kind::JobKind;
use longshore_shared::list::fields::job::JobState;
use longshore_shared::webhook::delivery::recovery;
use serde_json::{Value, json};
use uuid::Uuid;

use super::remote::{Job, Remote, Service};
use super::{Exit, read, table};

/// Refused items to show; the others are at `/api/job/{id}/error/list`.
const REFUSED_SHOWN: u64 = 20;

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// Lists jobs, the newest first.
    List(List),
    /// Shows how a job stands, and what it waits for.
    Show(One),
    /// Shows the progress of a job until it ends; the exit status tells how.
    Watch(One),
    /// Cancels a job: what is done stays.
    Cancel(One),
    /// Runs again what failed of a job.
    Retry(Retry),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only of these states, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(JobState::WORDS))]
    state: Vec<String>,
    /// Only of this kind.
    #[arg(long, value_parser = PossibleValuesParser::new(JobKind::WORDS))]
    kind: Option<String>,
    /// Only of this organisation.
    #[arg(long, value_parser = read::id)]
    organisation: Option<Uuid>,
    /// Only of this e-shop.
    #[arg(long, value_parser = read::id)]
    eshop: Option<Uuid>,
    /// How many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// How many newer ones to leave out.
    #[arg(long, default_value_t = 0)]
    offset: u32,
    #[command(flatten)]
    remote: Remote,
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
pub(super) struct Retry {
    /// Id of the job.
    #[arg(value_parser = read::id)]
    id: Uuid,
    /// Shows its progress until it ends; the exit status tells how.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    remote: Remote,
}

impl JobCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Show(One { id, remote }) => {
                let job = Service::new(&remote)?.call(Method::GET, &format!("/api/job/{id}"), None).await?;
                if remote.json {
                    writeln!(stdout(), "{job}")?;
                } else {
                    show(&job)?;
                }
                Ok(Exit::Done)
            }
            Self::Watch(One { id, remote }) => watch(&Service::new(&remote)?, id, remote.json).await,
            Self::Cancel(One { id, remote }) => {
                let service = Service::new(&remote)?;
                let job = service.call(Method::PUT, &format!("/api/job/cancel/{id}"), None).await?;
                tell(&job, remote.json)?;
                Ok(Exit::Done)
            }
            Self::Retry(Retry { id, watch: watched, remote }) => {
                let service = Service::new(&remote)?;
                let job = service.call(Method::PUT, &format!("/api/job/retry/{id}"), None).await?;
                if watched {
                    return watch(&service, id, remote.json).await;
                }
                tell(&job, remote.json)?;
                Ok(Exit::Done)
            }
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let mut criteria = serde_json::Map::new();
        if !self.state.is_empty() {
            criteria.insert("state".to_owned(), json!({"in": self.state}));
        }
        let equal = [
            ("kind", self.kind.map(Value::from)),
            ("organisation", self.organisation.map(|id| json!(id))),
            ("eshop", self.eshop.map(|id| json!(id))),
        ];
        for (field, value) in equal.into_iter().filter_map(|(field, value)| Some((field, value?))) {
            criteria.insert(field.to_owned(), json!({"eq": value}));
        }
        let body = json!({
            "criteria": criteria, "limit": self.limit, "offset": self.offset,
            "sort": [{"field": "createdAt", "order": "DESC"}],
        });
        let answer = Service::new(&self.remote)?.post("/api/job/list", body).await?;
        if self.remote.json {
            writeln!(stdout(), "{answer}")?;
            return Ok(Exit::Done);
        }
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
        let mut rows = table::rows(&answer, &paths);
        for (row, job) in rows.iter_mut().zip(answer["results"].as_array().into_iter().flatten()) {
            row.extend([waits_for(job).unwrap_or_else(|| "-".to_owned()), table::cell(job, "error")]);
        }
        table::write(&mut stdout().lock(), &heads, &rows)?;
        Ok(Exit::Done)
    }
}

/// The reason why a job waits.
fn waits_for(job: &Value) -> Option<String> {
    let waits = job.get("waitsFor").filter(|waits| waits.is_object())?;
    Some(match waits["reason"].as_str() {
        Some("earlier_job") => format!("job {}", table::cell(waits, "job")),
        Some("partner") => "its partner".to_owned(),
        Some("turn") => "its organisation's turn".to_owned(),
        Some("paused") => "a paused queue".to_owned(),
        _ => table::cell(waits, "reason"),
    })
}

/// Writes the details of a job, one per line.
fn show(job: &Value) -> anyhow::Result<()> {
    let waiting = waits_for(job).map_or_else(
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
        ("error", said("error")),
    ];
    let mut out = stdout().lock();
    for (name, value) in lines {
        writeln!(out, "{name:<10} {value}")?;
    }
    Ok(())
}

/// Writes the state of a job.
fn tell(job: &Value, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        writeln!(stdout(), "{job}")?;
    } else {
        writeln!(stdout(), "job {} is {}", table::cell(job, "id"), table::cell(job, "state"))?;
    }
    Ok(())
}

/// Follows a job to its end, and writes its result.
pub(super) async fn watch(service: &Service, id: Uuid, as_json: bool) -> anyhow::Result<Exit> {
    // drawn only on a terminal
    let bar = ProgressBar::new(0).with_style(style("{msg} {wide_bar} {human_pos}/{human_len}"));
    let end = service
        .follow(id, |job| {
            bar.set_length(job.progress.total);
            bar.set_position(job.progress.done);
            let waits =
                job.waits_for.as_ref().map_or_else(String::new, |waits| format!(", waits: {}", waits.reason));
            bar.set_message(format!("{} {}{waits}", job.kind, job.state));
        })
        .await;
    bar.finish_and_clear();
    let end = end?;
    let job: Job = service.read(&end)?;
    if as_json {
        writeln!(stdout(), "{end}")?;
    } else {
        tell_end(service, &job).await?;
    }
    Ok(match job.state.as_str() {
        "succeeded" if job.progress.failed > 0 => Exit::Refusals,
        "succeeded" => Exit::Done,
        _ => Exit::Failed,
    })
}

async fn tell_end(service: &Service, job: &Job) -> anyhow::Result<()> {
    let Job { id, kind, state, progress, error, outcome, result, .. } = job;
    let outcome = match outcome.as_deref() {
        Some("nothing") => " (nothing: every item was refused)",
        Some("partial") => " (partial: some items were refused)",
        _ => "",
    };
    let mut out = stdout();
    writeln!(
        out,
        "job {id} {state}{outcome}: {} changed, {} unchanged, {} refused of {}",
        progress.changed, progress.unchanged, progress.failed, progress.total
    )?;
    let told = result.as_ref().and_then(|result| recovery::told(kind, result.released, result.resent));
    if let Some(told) = told {
        writeln!(out, "{told}")?;
    }
    if let Some(error) = error {
        writeln!(out, "  {}", table::cell(&json!({"error": error}), "error"))?;
    }
    if progress.failed > 0 {
        let body = json!({"limit": REFUSED_SHOWN});
        let refused = service.post(&format!("/api/job/{id}/error/list"), body).await?;
        let columns = ["index", "line", "key", "code", "message"];
        table::write(&mut out.lock(), &columns, &table::rows(&refused, &columns))?;
        if progress.failed > REFUSED_SHOWN {
            writeln!(out, "… and {} more", progress.failed - REFUSED_SHOWN)?;
        }
    }
    Ok(())
}

/// The style of a progress bar; the default if the template does not parse.
pub(super) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
