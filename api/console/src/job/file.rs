//! The refused items of a job as files: their reasons as CSV, and their rows as they were sent. Any number of them, read in pages.

use std::borrow::Cow;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use longshore_domain::job::inspection::{self, Refused, Wanted};
use longshore_http::download::{self, download};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::csv::write::{self as csv, Cell};
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;

use crate::visit::Visit;

/// Items per page.
const BATCH: usize = 500;

const NAMES: [&str; 6] = ["item", "line", "key", "code", "reason", "value"];

/// `GET /console/job/{id}/errors.csv`.
pub(crate) async fn errors(Id(id): Id<JobId>, visit: Visit<permit::ReadJobs>) -> Result<Response, Failure> {
    inspection::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("job"))?;
    let db = visit.db().clone();
    let mut head = String::new();
    csv::line(&mut head, NAMES.map(|name| Cell::text(Some(name))));
    let head = stream::iter([Ok::<_, Problem>(Bytes::from(head))]);
    let pages = stream::unfold(Some(Wanted::default()), move |after| {
        let db = db.clone();
        async move {
            let items = match inspection::refused(&db, id, &after?, BATCH).await {
                Ok(items) => items,
                // close the connection: an incomplete file must not look complete
                Err(problem) => return Some((Err(problem), None)),
            };
            let last = items.last()?.index;
            let next = Wanted { after: Some(last), ..Wanted::default() };
            Some((Ok(Bytes::from(lines(&items))), Some(next)))
        }
    });
    let body = Body::from_stream(futures::StreamExt::chain(head, pages));
    Ok(download(&format!("job-{id}-errors.csv"), csv::MEDIA, body)?)
}

/// `GET /console/job/{id}/refused`.
pub(crate) async fn refused_rows(
    Id(id): Id<JobId>,
    visit: Visit<permit::ReadJobs>,
) -> Result<Response, Failure> {
    Ok(download::refused_rows(visit.db(), visit.scope(), id).await?)
}

fn lines(items: &[Refused]) -> String {
    let mut text = String::new();
    for Refused { index, line, key, code, message, value } in items {
        let texts = [key.as_deref(), Some(code), Some(message), value.as_deref()];
        let texts = texts.map(|text| text.map_or(Cell::Empty, |text| Cell::Text(guarded(text))));
        csv::line(&mut text, [Cell::integer(Some(*index)), Cell::integer(*line)].into_iter().chain(texts));
    }
    text
}

/// Marks what a spreadsheet could take for a formula also behind blanks, or in full-width characters: keys and reasons contain data from
/// others, and nobody reads this file back. The writer marks the rest.
fn guarded(text: &str) -> Cow<'_, str> {
    let begins = text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}');
    let is_formula = begins.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '−']);
    if (is_formula && !csv::is_number(text) || text.starts_with('\n')) && !csv::is_marked(text) {
        format!("'{text}").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cell_is_text() {
        let cell = |text: &str| {
            let mut line = String::new();
            csv::line(&mut line, [Cell::Text(guarded(text))]);
            line.trim_end_matches("\r\n").to_owned()
        };
        assert_eq!(cell("plain"), "plain");
        assert_eq!(cell("a \"b\", c\nd"), "\"a \"\"b\"\", c\nd\"");
        assert_eq!(cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        for formula in ["\n=1", "\nx", " =1", "\u{a0}@x", "＝1", "＋1", "－1", "＠x", "\r\n+1", " -1"] {
            let cell = cell(formula);
            assert!(cell.trim_start_matches('"').starts_with('\''), "{formula:?}: {cell:?}");
        }
    }
}
