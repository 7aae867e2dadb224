//! `longshore-api sync`: sends a file of rows as a stream, and follows the job to its end.

use std::fs::File;
use std::io::{self, Read, Write as _, stdout};
use std::path::PathBuf;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, Subcommand};
use futures::{Stream, StreamExt as _, stream};
use indicatif::ProgressBar;
use serde_json::json;
use uuid::Uuid;

use super::job::{style, watch};
use super::remote::{Job, Remote, Service};
use super::{Exit, read};

/// Bytes that are read and sent at once.
const PIECE: usize = 64 * 1024;

/// What can be synced.
#[derive(Debug, Subcommand)]
pub(super) enum SyncCommand {
    /// Syncs products, one JSON object a line, and follows the job to its end; the exit status tells how.
    Products(Products),
}

#[derive(Args, Debug)]
pub(super) struct Products {
    /// File of products, one JSON object a line; `-` is standard input.
    file: PathBuf,
    /// Id of the e-shop that they belong to.
    #[arg(long, value_parser = read::id)]
    eshop: Uuid,
    /// The partner's inventory, where it has several.
    #[arg(long)]
    inventory: Option<String>,
    /// Ends as soon as the job is accepted.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    remote: Remote,
}

impl SyncCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Products(products) => products.run().await,
        }
    }
}

impl Products {
    async fn run(self) -> anyhow::Result<Exit> {
        let service = Service::new(&self.remote)?;
        let mut header = json!({"eshop": self.eshop});
        if let Some(inventory) = &self.inventory {
            header["inventoryId"] = json!(inventory);
        }
        let is_stdin = self.file.as_os_str() == "-";
        let size = if is_stdin {
            None
        } else {
            let file = std::fs::metadata(&self.file).with_context(|| self.file.display().to_string())?;
            // a pipe has no known size
            file.is_file().then_some(file.len())
        };
        // drawn only on a terminal
        let bar = match size {
            Some(size) => {
                ProgressBar::new(size).with_style(style("sending {wide_bar} {bytes}/{total_bytes}"))
            }
            None => ProgressBar::new_spinner().with_style(style("{spinner} sending {bytes}")),
        };
        let begun = bar.clone();
        let answer = service
            // a pipe can be read only once
            .upload("/api/partner-integration/eshop/sync/products", size.is_some(), || {
                begun.set_position(0);
                let opened: io::Result<Box<dyn Read + Send>> = if is_stdin {
                    Ok(Box::new(io::stdin()))
                } else {
                    File::open(&self.file).map(|file| Box::new(file) as _)
                };
                rows(format!("{header}\n"), opened, begun.clone())
            })
            .await;
        bar.finish_and_clear();
        let answer = answer?;
        let job: Job = service.read(&answer)?;
        if self.detach {
            if self.remote.json {
                writeln!(stdout(), "{answer}")?;
            } else {
                writeln!(stdout(), "{}", job.id)?;
            }
            return Ok(Exit::Done);
        }
        watch(&service, job.id, self.remote.json).await
    }
}

/// The header, then the contents of the file piece by piece.
fn rows(
    header: String,
    opened: io::Result<Box<dyn Read + Send>>,
    bar: ProgressBar,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let read = stream::try_unfold(Some(opened), move |input| {
        let bar = bar.clone();
        async move {
            let Some(input) = input else { return Ok(None) };
            let mut input = input?;
            // a file or a slow pipe blocks a thread, but not the connection
            let read = tokio::task::spawn_blocking(move || {
                let mut piece = vec![0; PIECE];
                let length = input.read(&mut piece)?;
                piece.truncate(length);
                Ok::<_, io::Error>((piece, input))
            });
            let (piece, input) = read.await.map_err(io::Error::other)??;
            bar.inc(u64::try_from(piece.len()).unwrap_or(0));
            Ok((!piece.is_empty()).then(|| (Bytes::from(piece), Some(Ok(input)))))
        }
    });
    stream::once(std::future::ready(Ok(Bytes::from(header)))).chain(read)
}
