//! The refused items of a job as CSV (RFC 4180), any number of them, read in pages.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use longshore_domain::job::inspection::{self, Refused, Wanted};
use longshore_http::extract::{Failure, Id, permit};
use longshore_kernel::ids::JobId;
use longshore_kernel::problem::Problem;

use crate::visit::Visit;

/// Items per page.
const BATCH: usize = 500;

/// `GET /console/job/{id}/errors.csv`.
pub(crate) async fn download(Id(id): Id<JobId>, visit: Visit<permit::ReadJobs>) -> Result<Response, Failure> {
    inspection::find(visit.db(), visit.scope(), id).await?.ok_or_else(|| Problem::not_found("job"))?;
    let db = visit.db().clone();
    let head = stream::iter([Ok::<_, Problem>(Bytes::from_static(b"item,line,key,code,reason,value\r\n"))]);
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
            Some((Ok(Bytes::from(items.iter().map(line).collect::<String>())), Some(next)))
        }
    });
    let name = HeaderValue::try_from(format!("attachment; filename=\"job-{id}-errors.csv\""))
        .map_err(Problem::internal)?;
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8")), (CONTENT_DISPOSITION, name)];
    let body = Body::from_stream(futures::StreamExt::chain(head, pages));
    Ok((headers, body).into_response())
}

fn line(item: &Refused) -> String {
    let key = item.key.as_deref().unwrap_or_default();
    let line = item.line.map(|line| line.to_string()).unwrap_or_default();
    let value = item.value.as_deref().unwrap_or_default();
    let [key, code, reason, value] = [key, &item.code, &item.message, value].map(cell);
    format!("{},{line},{key},{code},{reason},{value}\r\n", item.index)
}

/// A quoted cell. If a spreadsheet could read it as a formula, also after blanks or in full-width characters,
/// it is marked as text with an apostrophe: keys and reasons contain data from others.
fn cell(text: &str) -> String {
    let escaped = text.replace('"', "\"\"");
    let begins = text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}');
    let is_formula = begins.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠', '−']);
    let guard = if is_formula || text.starts_with(['\t', '\r', '\n']) { "'" } else { "" };
    format!("\"{guard}{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cell_is_text() {
        assert_eq!(cell("plain"), "\"plain\"");
        assert_eq!(cell("a \"b\", c\nd"), "\"a \"\"b\"\", c\nd\"");
        assert_eq!(cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(cell("-1"), "\"'-1\"");
        for formula in ["\n=1", " =1", "\u{a0}@x", "＝1", "＋1", "－1", "＠x", "\r\n+1"] {
            assert!(cell(formula).starts_with("\"'"), "{formula:?}");
        }
    }
}
