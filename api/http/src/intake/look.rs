//! The first rows of a file as they will be read, before anything is stored.

use axum::extract::Request;
use bytes::Bytes;
use longshore_domain::catalog::product::rules;
use longshore_domain::expedition::import;
use longshore_domain::job::receiving::Gathering;
use longshore_domain::job::row::Seen;
use longshore_domain::job::row::form::Form;
use longshore_domain::partner::push::Push;
use longshore_domain::warehouse::stock::sync as stock;
use longshore_kernel::problem::{MALFORMED_BODY, Problem, Violation};
use serde_json::Value;

use super::{JSON_LIMIT, schemas};
use crate::extract::lines::Rows;
use crate::extract::{CsvRows, Document, Lines};

/// What ends a body of which only the beginning was sent.
const CUT: &str = "the beginning of the file has no whole row";

/// The first rows of a file.
#[derive(Debug)]
pub struct Look {
    /// Each with its line, if it has one.
    pub rows: Vec<(Option<u64>, Seen)>,
    /// The names of the columns of a file of CSV.
    pub names: Vec<String>,
}

/// Ends a body of which only the beginning was sent: a row that is not whole is none then.
#[must_use]
pub fn cut() -> Problem {
    Problem::new(&MALFORMED_BODY, CUT)
}

/// Reads the first rows of a request, as [`receive`](super::receive) does; those of one document if all of it was sent.
///
/// # Errors
/// What is wrong with the body as a whole, as far as it was read.
pub async fn look(request: Request, push: Push, most: usize) -> Result<Look, Problem> {
    let (mut found, mut form, mut names) = (Vec::new(), Form::Pushed, Vec::new());
    match Rows::of(request.headers())? {
        Rows::Lines => {
            let mut lines = Lines::of(request)?;
            // the header, which stands before the file
            lines.next().await?;
            lines.renumber(0);
            while found.len() < most
                && let Some(row) = whole(lines.next().await, found.len())?
            {
                found.push((Some(lines.number()), row));
            }
        }
        Rows::Csv => {
            let (of_header, of_row) = schemas(push)?;
            let (_, mut rows) = CsvRows::of(request, &of_header, of_row)?;
            rows.begin().await?;
            while found.len() < most
                && let Some((row, line)) = whole(rows.next().await, found.len())?
            {
                found.push((Some(line), row));
            }
            if let Some(csv) = rows.form() {
                names.clone_from(&csv.names);
                form = Form::Csv(csv.clone());
            }
        }
        Rows::Document => {
            let gathering = Gathering::of(push.kind());
            let received = Document::receive(request, push.rows_member(), gathering, JSON_LIMIT).await?;
            for packed in &received.chunks {
                let rows: Vec<Bytes> = packed.rows().map_err(Problem::internal)?;
                found.extend(rows.into_iter().take(most - found.len()).map(|row| (None, row)));
            }
            // also what is wrong around the rows
            received.members()?;
        }
    }
    let seen = |row| Seen::of(push.kind(), &form, row, |row| validate(push, row));
    Ok(Look { rows: found.into_iter().map(|(line, row)| (line, seen(row))).collect(), names })
}

/// The next row, none behind the last whole one of what was sent.
fn whole<T>(next: Result<Option<T>, Problem>, found: usize) -> Result<Option<T>, Problem> {
    match next {
        Err(problem) if found > 0 && problem.detail() == CUT => Ok(None),
        next => next,
    }
}

/// What the worker validates a row with.
fn validate(push: Push, row: Value) -> Result<(), Vec<Violation>> {
    match push {
        Push::Products => rules::read_sync_row(row).map(drop),
        Push::Stocks => stock::read_row(row).map(drop),
        Push::Expeditions => match import::read_row(row)?.violations() {
            [] => Ok(()),
            violations => Err(violations.to_vec()),
        },
        // of programs, which look at nothing
        Push::News => Ok(()),
    }
}
