//! Standard output.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Stdout, Write};

use longshore_client::Call;
use serde_json::Value;

use crate::table::is_shown;

/// Standard output for a command that ends by itself. A reader that has closed it, such as `head`, wants no more text, but the command
/// goes on, so that its exit status shows how it ended.
pub(super) fn stdout() -> Output {
    Output(io::stdout())
}

/// See [`stdout`].
#[derive(Debug)]
pub(super) struct Output(Stdout);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

fn unless_closed<T>(written: io::Result<T>, all: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(all),
        written => written,
    }
}

/// Writes JSON, as the service sent it.
pub(super) fn json(value: &Value) -> io::Result<()> {
    writeln!(stdout(), "{}", escaped(&value.to_string()))
}

/// Writes the bytes of an answer; on a terminal with what could control it escaped.
pub(super) fn exact(bytes: &[u8]) -> io::Result<()> {
    let mut out = stdout();
    if io::stdout().is_terminal() {
        return writeln!(out, "{}", escaped(&String::from_utf8_lossy(bytes)));
    }
    out.write_all(bytes)?;
    writeln!(out)
}

/// Writes the body of an answer of any length as it comes; on a terminal by its lines, with what could control it escaped. A reader that
/// has closed standard output ends the command. If it has not all rows, that goes to standard error.
pub(super) async fn pieces<T>(call: Call<T>) -> anyhow::Result<()> {
    let mut pieces = call.pieces().await?;
    if let Some(rows) = pieces.headers().get("longshore-rows").and_then(|rows| rows.to_str().ok()) {
        writeln!(io::stderr(), "{rows} rows: the others are not kept")?;
    }
    let (mut out, mut rest) = (io::stdout(), Vec::new());
    while let Some(piece) = pieces.next().await? {
        if !out.is_terminal() {
            out.write_all(&piece)?;
            continue;
        }
        rest.extend_from_slice(&piece);
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines: Vec<u8> = rest.drain(..end).collect();
        out.write_all(escaped(&String::from_utf8_lossy(&lines).replace("\r\n", "\n")).as_bytes())?;
    }
    out.write_all(escaped(&String::from_utf8_lossy(&rest)).as_bytes())?;
    out.flush()?;
    Ok(())
}

/// JSON that means the same, in which no character controls a terminal.
pub(super) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_shown(c) || c == '\n' {
            text.push(c);
        } else {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_escaped_and_the_value_is_the_same() {
        let value = serde_json::json!({"name": "a\u{1b}[2J\u{7f}\u{9b}2J\u{202e}b\u{2066}č"});
        let text = escaped(&value.to_string());
        assert_eq!(text, r#"{"name":"a\u001b[2J\u007f\u009b2J\u202eb\u2066č"}"#);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
