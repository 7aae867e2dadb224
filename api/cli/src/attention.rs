//! `longshore attention`: what needs attention, and what operators say about it.

use std::io::Write as _;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use longshore_client::{Call, Silence, Uuid, Value};

use crate::output::stdout;
use crate::remote::{self, Remote};
use crate::{Exit, output, read, table};

/// What can be done with what needs attention.
#[derive(Debug, Subcommand)]
pub(super) enum AttentionCommand {
    /// List what needs attention now, the worst first; then mutes of what is not there now, and what people switched off.
    List(List),
    /// Acknowledge a line: it comes back when something new happens, and after 30 days.
    Acknowledge(Acknowledge),
    /// Mute a line for a time, even if something new happens.
    Mute(Mute),
    /// End the acknowledgement or the mute of a line.
    Unmute(Line),
}

#[derive(Args, Debug)]
pub(super) struct List {
    /// Only lines that are neither acknowledged nor muted.
    #[arg(long)]
    new: bool,
    /// Show the ids of the lines, too, which the other commands take.
    #[arg(long)]
    ids: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Line {
    /// Id of the line, as `longshore attention list` shows it.
    #[arg(value_parser = read::id)]
    id: Uuid,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Args, Debug)]
pub(super) struct Acknowledge {
    #[command(flatten)]
    line: Line,
    /// A note for others; up to 200 characters.
    #[arg(long)]
    note: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct Mute {
    #[command(flatten)]
    line: Line,
    /// For how long.
    #[arg(long = "for", value_name = "SPAN", value_parser = PossibleValuesParser::new(Silence::SPANS))]
    span: String,
    /// Why; up to 200 characters.
    #[arg(long)]
    reason: String,
}

impl AttentionCommand {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(list) => list.run().await,
            Self::Acknowledge(Acknowledge { line, note }) => {
                let call = line.remote.client()?.acknowledge_attention(line.id, note.as_deref());
                line.report(call).await
            }
            Self::Mute(Mute { line, span, reason }) => {
                let call = line.remote.client()?.mute_attention(line.id, &span, &reason);
                line.report(call).await
            }
            Self::Unmute(line) => {
                line.remote.client()?.end_attention_silence(line.id).answer().await?;
                if !line.remote.json {
                    writeln!(stdout(), "the line {} is shown again", line.id)?;
                }
                Ok(Exit::Done)
            }
        }
    }
}

impl List {
    async fn run(self) -> anyhow::Result<Exit> {
        let mut answer = remote::json(&self.remote.client()?.attention().answer().await?)?;
        if self.new {
            if let Some(lines) = answer["lines"].as_array_mut() {
                lines.retain(|line| line["silence"].is_null());
            }
            answer["absent"] = Value::Array(Vec::new());
            answer["switchedOff"] = Value::Array(Vec::new());
        }
        if self.remote.json {
            output::json(&answer)?;
            return Ok(Exit::Done);
        }
        let mut heads = vec!["severity", "kind", "state", "by", "until", "id", "line"];
        let paths = ["severity", "kind", "silence.mode", "silence.by", "silence.until", "id", "sentence"];
        let mut rows = table::rows(&answer["lines"], &paths);
        for row in &mut rows {
            if let Some(state) = row.get_mut(2).filter(|state| *state == "-") {
                "new".clone_into(state);
            }
        }
        rows.extend(table::rows(&answer["absent"], &["-", "-", "mode", "by", "until", "line", "sentence"]));
        rows.extend(switched_off(&answer["switchedOff"]));
        if !self.ids {
            let id = heads.len() - 2;
            heads.remove(id);
            for row in &mut rows {
                row.remove(id);
            }
        }
        table::write(&mut stdout(), &heads, &rows)?;
        Ok(Exit::Done)
    }
}

/// What people switched off, in the columns of the lines.
fn switched_off(kinds: &Value) -> Vec<Vec<String>> {
    let rows = kinds.as_array().into_iter().flatten().flat_map(|of| {
        of["things"].as_array().into_iter().flatten().map(|thing| {
            let mut name = table::cell(thing, "name");
            if !thing["at"].is_null() {
                name = format!("{name}, since {}", table::cell(thing, "at"));
            }
            let (kind, by, none) = (table::cell(of, "kind"), table::cell(thing, "by"), || "-".to_owned());
            vec![none(), kind, "off".to_owned(), by, none(), none(), name]
        })
    });
    rows.collect()
}

impl Line {
    async fn report(self, call: Call<Silence>) -> anyhow::Result<Exit> {
        let answer = call.answer().await?;
        if self.remote.json {
            output::json(&remote::json(&answer)?)?;
            return Ok(Exit::Done);
        }
        let silence: Silence = answer.read()?;
        let until = silence.until.format("%F %T UTC");
        writeln!(
            stdout(),
            "the line is {} until {until}: {}",
            table::shown(&silence.mode),
            table::shown(&silence.sentence)
        )?;
        Ok(Exit::Done)
    }
}
