//! `longshore-api job`: jobs, over HTTP.

use std::io::{Write as _, stdout};

use clap::{Args, Subcommand};
use http::Method;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use uuid::Uuid;

use super::remote::{Job, Remote, Service};
use super::{Exit, table};

/// Refused items that are shown; the rest is at `/api/job/{id}/error/list`.
const REFUSED_SHOWN: u64 = 20;

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// Lists jobs, the newest first.
    List(List),
    /// Shows the progress of a job until it ends; the exit status tells how.
    Watch(One),
    /// Cancels a job: what is done stays.
    Cancel(One),
    /// Runs again what failed of a job.
    Retry(Retry),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only of these states: receiving, queued, running, retrying, succeeded, failed, cancelled; separated by commas.
    #[arg(long, value_delimiter = ',')]
    state: Vec<String>,
    /// Only of this kind, as in product.sync.
    #[arg(long)]
    kind: Option<String>,
    /// Only of this organisation.
    #[arg(long)]
    organisation: Option<Uuid>,
    /// Only of this e-shop.
    #[arg(long)]
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
    id: Uuid,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Retry {
    /// Id of the job.
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
            "progress.done",
            "progress.total",
            "progress.failed",
            "createdAt",
            "error",
        ];
        let heads = ["id", "kind", "state", "done", "total", "refused", "created", "error"];
        table::write(&mut stdout().lock(), &heads, &table::rows(&answer, &paths))?;
        Ok(Exit::Done)
    }
}

/// How a job stands.
fn tell(job: &Value, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        writeln!(stdout(), "{job}")?;
    } else {
        writeln!(stdout(), "job {} is {}", table::cell(job, "id"), table::cell(job, "state"))?;
    }
    Ok(())
}

/// Follows a job to its end, and tells it.
pub(super) async fn watch(service: &Service, id: Uuid, as_json: bool) -> anyhow::Result<Exit> {
    // on a terminal only
    let bar = ProgressBar::new(0).with_style(style("{msg} {wide_bar} {human_pos}/{human_len}"));
    let end = service
        .follow(id, |job| {
            bar.set_length(job.progress.total);
            bar.set_position(job.progress.done);
            bar.set_message(format!("{} {}", job.kind, job.state));
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
    let Job { id, state, progress, error, .. } = job;
    let mut out = stdout();
    writeln!(
        out,
        "job {id} {state}: {} changed, {} unchanged, {} refused of {}",
        progress.changed, progress.unchanged, progress.failed, progress.total
    )?;
    if let Some(error) = error {
        writeln!(out, "  {}", table::cell(&json!({"error": error}), "error"))?;
    }
    if progress.failed > 0 {
        let body = json!({"limit": REFUSED_SHOWN});
        let refused = service.post(&format!("/api/job/{id}/error/list"), body).await?;
        let rows = table::rows(&refused, &["index", "key", "code", "message"]);
        table::write(&mut out.lock(), &["index", "key", "code", "message"], &rows)?;
        if progress.failed > REFUSED_SHOWN {
            writeln!(out, "… and {} more", progress.failed - REFUSED_SHOWN)?;
        }
    }
    Ok(())
}

/// A style of a progress bar; the usual one where the template does not parse.
pub(super) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
