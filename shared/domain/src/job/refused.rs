//! The refused rows of a job as they were sent, each with its reason (`docs/reference/jobs.md#refused-rows`): a person repairs them and
//! sends them again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use super::item_error::{self, CHUNK_FAILED, Kept};
use super::kind::JobKind;
use super::payload;
use super::row::csv::CsvForm;
use super::row::form::Form;
use super::row::key_member;
use longshore_kernel::access::Scope;
use longshore_kernel::csv::write::{self as csv, Cell};
use longshore_kernel::database::Database;
use longshore_kernel::ids::JobId;
use longshore_kernel::json::compact;
use longshore_kernel::problem::Problem;

/// What is told of each row, before what it has itself.
const REASON: [&str; 3] = ["_line", "_code", "_message"];

/// Rows that are read at once.
const ROWS: i64 = 1_000;

/// Bytes of rows that are read at once; the last one may go past them.
const BYTES: i64 = 1024 * 1024;

/// The refused rows of a job, read in pages.
#[derive(Debug)]
pub struct RefusedRows {
    /// How many there are.
    pub kept: Kept,
    db: Database,
    job: JobId,
    kind: Option<JobKind>,
    form: Form,
    /// The position of the last one that was read.
    after: i32,
    /// The rows of a chunk that failed, by their positions: it keeps them itself.
    failed: HashMap<i32, Bytes>,
}

impl RefusedRows {
    /// Those of a job, if it is in the scope.
    pub async fn of(db: &Database, scope: &Scope, job: JobId) -> Result<Option<Self>, Problem> {
        let Some(kept) = item_error::kept(db, scope, job).await? else { return Ok(None) };
        let found = sqlx::query!(
            r#"SELECT coalesce(preview_of, kind) AS "kind!", source IS NOT NULL AS "is_pull!", parameters FROM job WHERE id = $1"#,
            job.get()
        )
        .fetch_one(&db.lists)
        .await?;
        let form = if found.is_pull { Form::Pulled } else { Form::of_parameters(&found.parameters) };
        let (db, kind) = (db.clone(), found.kind.parse().ok());
        Ok(Some(Self { kept, db, job, kind, form, after: -1, failed: HashMap::new() }))
    }

    /// The media type of the form in which they came, and what the name of such a file ends with.
    #[must_use]
    pub fn media(&self) -> (&'static str, &'static str) {
        match self.form {
            Form::Csv(_) => (csv::MEDIA, "csv"),
            Form::Pushed | Form::Pulled => ("application/x-ndjson", "ndjson"),
        }
    }

    /// The next of them, as lines; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<String>, Problem> {
        let found = sqlx::query_as!(
            Item,
            r#"SELECT index, line, key, code, message, payload
               FROM (SELECT *, sum(length(payload)) OVER (ORDER BY index) - length(payload) AS before
                     FROM (SELECT * FROM job_item_error WHERE job_id = $1 AND index > $2 AND NOT notice
                           ORDER BY index LIMIT $3) AS page) AS page
               WHERE before < $4 ORDER BY index"#,
            self.job.get(),
            self.after,
            ROWS,
            BYTES,
        )
        .fetch_all(&self.db.lists)
        .await?;
        let Some(last) = found.last() else { return Ok(None) };
        let begins = std::mem::replace(&mut self.after, last.index) < 0;
        let mut lines = String::new();
        if let Form::Csv(form) = &self.form
            && begins
        {
            // spreadsheets take a file without one for their own character set
            lines.push('\u{feff}');
            write_line(&mut lines, form, &REASON, &form.names);
        }
        for item in found {
            self.write(&mut lines, item).await?;
        }
        Ok(Some(lines))
    }

    /// Appends a row. Whatever form rows come in, this is where they get it back.
    async fn write(&mut self, lines: &mut String, mut item: Item) -> Result<(), Problem> {
        let has_rows = self.kind.is_some_and(JobKind::has_rows);
        let stored = std::mem::take(&mut item.payload);
        let stored = if has_rows && item.code == CHUNK_FAILED.0 {
            self.of_failed_chunk(item.index).await?
        } else {
            stored.into()
        };
        let (_, body) = self.form.read(stored);
        if let Form::Csv(form) = &self.form {
            let line = item.line.map(|line| line.to_string()).unwrap_or_default();
            for cells in form.cells(&body) {
                write_line(lines, form, &[line.as_str(), &item.code, &item.message], &cells);
            }
            return Ok(());
        }
        let row = Row {
            key_member: if has_rows { key_member(self.kind) } else { "id" },
            // of a bulk, the bytes of an id
            body: if has_rows { &body } else { b"" },
        };
        row.write(lines, &item);
        Ok(())
    }

    /// A row of a chunk that failed; nothing where the chunk is gone, or cannot be read.
    async fn of_failed_chunk(&mut self, index: i32) -> Result<Bytes, Problem> {
        if let Some(row) = self.failed.get(&index) {
            return Ok(row.clone());
        }
        let found = sqlx::query!(
            r#"SELECT first_index, indexes, payload AS "payload!" FROM job_chunk
               WHERE job_id = $1 AND state = 'failed' AND payload IS NOT NULL
                 AND CASE WHEN indexes IS NULL THEN $2 >= first_index AND $2 - first_index < item_count ELSE $2 = ANY (indexes) END
               LIMIT 1"#,
            self.job.get(),
            index,
        )
        .fetch_optional(&self.db.lists)
        .await?;
        let Some(chunk) = found else { return Ok(Bytes::new()) };
        let rows = payload::unpack_rows(&chunk.payload).unwrap_or_default();
        self.failed = match chunk.indexes {
            Some(indexes) => indexes.into_iter().zip(rows).collect(),
            None => (chunk.first_index..).zip(rows).collect(),
        };
        Ok(self.failed.get(&index).cloned().unwrap_or_default())
    }
}

/// Appends a line of CSV: the reason, and the cells of the file's own columns. Those of a reason that it was given before are left
/// out.
fn write_line(lines: &mut String, form: &CsvForm, reason: &[&str; 3], cells: &[String]) {
    let own = form.names.iter().zip(cells).filter(|(name, _)| !REASON.contains(&name.as_str()));
    let cells = reason.iter().copied().chain(own.map(|(_, cell)| cell.as_str()));
    csv::line_by(lines, form.delimiter, cells.map(|cell| Cell::text(Some(cell))));
}

/// An item error, with its row.
#[derive(Debug)]
struct Item {
    index: i32,
    line: Option<i64>,
    key: Option<String>,
    code: String,
    message: String,
    payload: Vec<u8>,
}

/// A row to give back.
#[derive(Debug)]
struct Row<'r> {
    /// The member that identifies it.
    key_member: &'static str,
    /// As it came.
    body: &'r [u8],
}

impl Row<'_> {
    /// Appends it as a line: the reason, and the members of the row as they were sent. What is no object has its text in `_row`, and its
    /// key where it has one.
    fn write(&self, lines: &mut String, Item { line, key, code, message, .. }: &Item) {
        let mut push = |name: &str, value: &str| {
            lines.push_str(if lines.is_empty() || lines.ends_with('\n') { "{" } else { "," });
            lines.extend([&*json!(name).to_string(), ":", value]);
        };
        push("_line", &json!(line).to_string());
        push("_code", &json!(code).to_string());
        push("_message", &json!(message).to_string());
        if let Ok(Members(members)) = serde_json::from_slice(self.body) {
            // a row that was given back before has the reason of then
            let own = members.iter().filter(|(name, _)| !REASON.contains(&&**name));
            for (name, value) in own {
                push(name, &compact(value.get()));
            }
        } else {
            if let Some(key) = key {
                push(self.key_member, &json!(key).to_string());
            }
            if !self.body.is_empty() {
                push("_row", &json!(String::from_utf8_lossy(self.body)).to_string());
            }
        }
        lines.push_str("}\n");
    }
}

/// The members of an object, in their order, however often each is there.
struct Members<'r>(Vec<(Cow<'r, str>, &'r RawValue)>);

impl<'de: 'r, 'r> Deserialize<'de> for Members<'r> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Given;

        impl<'de> Visitor<'de> for Given {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(name) = given.next_key::<String>()? {
                    members.push((name.into(), given.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given_back(body: &str, key: Option<&str>) -> String {
        let (code, message) = ("required".to_owned(), "name is \"required\"".to_owned());
        let item =
            Item { index: 3, line: Some(5), key: key.map(str::to_owned), code, message, payload: Vec::new() };
        let mut lines = String::from("{}\n");
        Row { key_member: "productSku", body: body.as_bytes() }.write(&mut lines, &item);
        let line = lines.strip_prefix("{}\n").unwrap().strip_suffix("}\n").unwrap();
        assert!(!line.contains('\n'));
        let reason = r#"{"_line":5,"_code":"required","_message":"name is \"required\"""#;
        line.strip_prefix(reason).unwrap().to_owned()
    }

    #[test]
    fn a_row_is_given_back_as_it_was_sent() {
        let row = "{ \"weight\": 12.50,\n \"b\\u0061\": {\"x\": [ 1e3 ]}, \"a\": 1, \"a\": 2 }";
        assert_eq!(given_back(row, Some("X")), r#","weight":12.50,"ba":{"x":[1e3]},"a":1,"a":2"#);
        let again = r#"{"_line":1,"_code":"old","_message":"old","_note":"mine","productSku":"A"}"#;
        assert_eq!(given_back(again, Some("A")), r#","_note":"mine","productSku":"A""#);
        assert_eq!(given_back("{}", None), "");
    }

    #[test]
    fn a_row_that_is_no_object_keeps_its_text_and_its_key() {
        assert_eq!(given_back("[1, \"x\"]", None), r#","_row":"[1, \"x\"]""#);
        assert_eq!(given_back("{\"productSku\":\n", None), r#","_row":"{\"productSku\":\n""#);
        assert_eq!(given_back("17", Some("A")), r#","productSku":"A","_row":"17""#);
        assert_eq!(given_back("", Some("A")), r#","productSku":"A""#);
    }
}
