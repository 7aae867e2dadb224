//! What the fuzz targets do with the bytes they are given. Each reads them as the service would read them from outside, and
//! asserts what must hold for all of them. `api/tests/it/corpus.rs` replays the corpus through the same functions.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use chrono::{DateTime, Utc};
use futures::stream;
use http::header::{ACCEPT, IF_MATCH};
use http::{HeaderName, HeaderValue, Request};
use longshore_domain::catalog::product::rules;
use longshore_domain::expedition::body::{Body as OrderBody, Detail};
use longshore_domain::expedition::{create, edit, import, news, progress};
use longshore_domain::job::payload::LONGEST_ROW;
use longshore_domain::job::row::csv::columns::Columns;
use longshore_domain::list::Request as ListRequest;
use longshore_domain::list::fields::eshop::ESHOP;
use longshore_domain::list::fields::job::JOB;
use longshore_domain::list::fields::product::PRODUCT;
use longshore_domain::partner::baselinker::answer::{self, Unanswered};
use longshore_domain::partner::baselinker::{product, release};
use longshore_domain::partner::push;
use longshore_domain::webhook::schedule;
use longshore_http::extract::accept;
use longshore_http::extract::{CsvRows, IfMatch, Lines, Once, Prefer};
use longshore_http::limits::Stall;
use longshore_kernel::access::Scope;
use longshore_kernel::config::OutboundSettings;
use longshore_kernel::crypto::sha256;
use longshore_kernel::csv::read::Record;
use longshore_kernel::csv::write::is_marked;
use longshore_kernel::destination;
use longshore_kernel::encoding::Foreign;
use longshore_kernel::ids::{EshopId, OrganisationId};
use longshore_kernel::input::{Reader, Rule as _};
use longshore_kernel::json;
use serde_json::Value;
use url::{Host, Url};
use uuid::Uuid;

/// What a target does.
pub type Target = fn(&[u8]);

/// Every target, by the name of its file and of its corpus.
pub const TARGETS: [(&str, Target); 9] = [
    ("list_request", list_request),
    ("product_body", product_body),
    ("order_body", order_body),
    ("ndjson_lines", ndjson_lines),
    ("csv", csv),
    ("request_headers", request_headers),
    ("retry_after", retry_after),
    ("destination", destination),
    ("baselinker", baselinker),
];

/// The body of a list: refused with violations, or a statement that holds nothing of what it says.
pub fn list_request(data: &[u8]) {
    let Ok(body) = json::parse(data) else { return };
    let mut said = Vec::new();
    texts(&body, &mut said);
    // what has a character that no statement of ours has
    said.retain(|text| text.contains(|c: char| !c.is_ascii() || ";#@!`~^?\\".contains(c)));
    for resource in [&PRODUCT, &ESHOP, &JOB] {
        match ListRequest::read(resource, Some(body.clone())) {
            Ok(request) => {
                let sql = request
                    .sql(&Scope::Organisations([Uuid::nil(), Uuid::max()].map(OrganisationId::from).into()))
                    .unwrap();
                for text in &said {
                    assert!(!sql.contains(text.as_str()), "{text} in {sql}");
                }
                assert!(!sql.contains("--") && !sql.contains(';'), "{sql}");
            }
            Err(problem) => {
                assert_eq!(problem.kind().status, 400);
                assert!(!problem.violations().is_empty());
            }
        }
    }
}

fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(elements) => elements.iter().for_each(|element| texts(element, found)),
        Value::Object(members) => {
            for (name, member) in members {
                found.push(name.clone());
                texts(member, found);
            }
        }
        _ => {}
    }
}

/// The body of a create, of an update, and a row of a sync.
pub fn product_body(data: &[u8]) {
    let Ok(body) = json::parse(data) else { return };
    for read in [rules::read_create(body.clone()), rules::read_update(body.clone())] {
        if let Some(name) = &read.fields.name {
            assert!((2..=255).contains(&name.chars().count()) && !name.contains('\0'), "{name:?}");
        }
        assert!(read.violations.iter().all(|v| !v.code.is_empty() && !v.message.is_empty()));
        if !body.is_object() {
            assert!(!read.violations.is_empty());
        }
    }
    match rules::read_sync_row(body) {
        Ok(row) => {
            assert!(!row.product_sku.is_empty() && row.product_sku.chars().count() <= 255);
            let sku = row.product_sku.clone();
            if let Ok(product) =
                row.into_product(Uuid::nil(), OrganisationId::nil(), EshopId::nil(), DateTime::UNIX_EPOCH)
            {
                assert_eq!(product.product_sku, sku);
            }
        }
        Err(violations) => assert!(!violations.is_empty()),
    }
}

/// The body of an order: of a create, of an update, of a report by hand, a row of an import, and news of a warehouse.
pub fn order_body(data: &[u8]) {
    let Ok(body) = json::parse(data) else { return };
    let is_number = |number: &str| {
        let is_known = |b: u8| b.is_ascii_alphanumeric() || b"_/-.#".contains(&b);
        (1..=32).contains(&number.len()) && number.bytes().all(is_known)
    };
    for OrderBody { fields, items, violations, .. } in [create::read(body.clone()), edit::read(body.clone())]
    {
        assert!(violations.iter().all(|v| !v.code.is_empty() && !v.message.is_empty()));
        assert!(body.is_object() || !violations.is_empty());
        for item in items.iter().flatten() {
            // what is refused is blank
            assert!(!violations.is_empty() || item.is_left_out || (1..=1_000_000).contains(&item.quantity));
            assert!(!violations.is_empty() || item.product.is_some() || item.product_sku.is_some());
        }
        assert!(fields.order_number.as_deref().is_none_or(is_number));
        // what is stored reads back, and says no other thing when it is said again
        let mut detail = Detail::blank(Uuid::nil());
        detail.take(fields.clone());
        let columns = detail.columns();
        let mut stored = Detail::of_columns(Uuid::nil(), 1, columns.clone()).unwrap();
        assert_eq!(stored.columns(), columns);
        stored.take(fields);
        assert_eq!(stored.columns(), columns);
    }
    let now = DateTime::<Utc>::from_timestamp(1_800_000_000, 0).unwrap();
    if let Err(problem) = progress::check(body.clone(), now) {
        assert_eq!(problem.kind().status, 400);
        assert!(!problem.violations().is_empty());
    }
    match news::read_row(body.clone(), now) {
        Ok(row) => assert!((1..=100).contains(&row.id.chars().count())),
        Err(violations) => assert!(!violations.is_empty()),
    }
    match import::read_row(body) {
        Ok(row) => assert!(is_number(&row.order_number)),
        Err(violations) => assert!(!violations.is_empty()),
    }
}

/// An upload line by line: cut into any pieces, it has the lines of the whole. The first byte says how large the
/// pieces are.
pub fn ndjson_lines(data: &[u8]) {
    let Some((size, text)) = data.split_first() else { return };
    let size = usize::from(*size) + 1;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let read = runtime.block_on(async {
        let pieces: Vec<_> = text.chunks(size).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
        let mut lines = Lines::new(Body::from_stream(stream::iter(pieces)), Stall(Duration::from_hours(1)));
        let mut read = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(line.to_vec()),
                Ok(None) => return Ok((read, lines.hash())),
                Err(problem) => return Err((read, problem)),
            }
        }
    });
    let mut whole: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    for line in &mut whole {
        *line = line.strip_prefix(json::BYTE_ORDER_MARK).unwrap_or(line);
        *line = line.strip_suffix(b"\r").unwrap_or(line);
    }
    let good = |line: &&[u8]| line.len() <= LONGEST_ROW && Foreign::of(line).is_none();
    let expected: Vec<_> =
        whole.iter().copied().take_while(good).filter(|line| !line.trim_ascii().is_empty()).collect();
    match read {
        Ok((read, hash)) => {
            assert!(whole.iter().all(good));
            assert_eq!(read, expected);
            assert_eq!(hash, sha256(text));
        }
        Err((read, problem)) => {
            assert!(!whole.iter().all(good), "{problem}");
            assert_eq!(problem.kind().code, "malformed_body");
            assert_eq!(read, expected);
        }
    }
}

/// The header fields that change what an operation does: one a line, its name by the first byte.
pub fn request_headers(data: &[u8]) {
    let mut request = Request::new(());
    for line in data.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_first() else { continue };
        let name = match name {
            b'p' => HeaderName::from_static("prefer"),
            b'm' => IF_MATCH,
            b'a' => ACCEPT,
            _ => HeaderName::from_static("idempotency-key"),
        };
        if let Ok(value) = HeaderValue::from_bytes(value) {
            request.headers_mut().append(name, value);
        }
    }
    let _ = (accept::is_acceptable(request.headers()), accept::form(request.headers()));
    let absent = !request.headers().contains_key(IF_MATCH);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut parts, ()) = request.into_parts();
        let Ok(prefer) = Prefer::from_request_parts(&mut parts, &()).await;
        assert!(prefer.wait(Duration::ZERO) <= Duration::from_mins(1));
        if let Some(applied) = prefer.applied() {
            // what is read was understood: it reads back as itself
            let again = Request::builder().header("prefer", &applied).body(()).unwrap();
            let Ok(again) = Prefer::from_request_parts(&mut again.into_parts().0, &()).await;
            assert_eq!(again, prefer, "{applied}");
        }
        match IfMatch::from_request_parts(&mut parts, &()).await {
            Ok(if_match) => assert!(!absent || if_match.check(1).is_ok()),
            Err(failure) => assert!(!absent && failure.0.kind().code == "invalid_header"),
        }
        if let Err(failure) = Once::from_request_parts(&mut parts, &()).await {
            assert_eq!(failure.0.kind().code, "invalid_header");
        }
    });
}

/// What a destination says of when to come again: a wait that the schedule bounds.
pub fn retry_after(data: &[u8]) {
    let Ok(header) = std::str::from_utf8(data) else { return };
    let now = DateTime::<Utc>::from_timestamp(1_800_000_000, 0).unwrap();
    let asked = longshore_http_time::retry_after(header, now);
    for attempts in 0..=schedule::ATTEMPTS {
        for lot in [-1.0, 0.0, 1.0] {
            if let Some(wait) = schedule::wait(attempts, asked, lot) {
                let least = schedule::wait(attempts, None, lot).unwrap();
                assert!(wait >= least && wait <= Duration::from_hours(24).mul_f64(1.0 + schedule::JITTER));
            }
        }
    }
}

/// A destination that is accepted leads to no address inside, in any spelling.
pub fn destination(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = Reader::read(Value::from(text), destination::destination(&OutboundSettings::default()));
    let Ok(taken) = read else { return };
    assert_eq!(taken, text);
    let url = Url::parse(&taken).unwrap();
    assert!(url.scheme() == "https" && url.username().is_empty() && url.password().is_none());
    assert!(url.fragment().is_none() && !taken.contains(char::is_whitespace));
    let address = match url.host().unwrap() {
        Host::Domain(name) => {
            // what a resolver would take for an address was read as one
            assert!(name.trim_end_matches('.').parse::<IpAddr>().is_err(), "{name}");
            return;
        }
        Host::Ipv4(v4) => v4,
        Host::Ipv6(v6) => {
            assert!(!v6.is_loopback() && !v6.is_unspecified() && !v6.is_multicast(), "{v6}");
            assert!(!v6.is_unique_local() && !v6.is_unicast_link_local(), "{v6}");
            let Some(v4) = v6.to_ipv4_mapped() else { return };
            v4
        }
    };
    assert!(!address.is_loopback() && !address.is_private() && !address.is_link_local(), "{address}");
    assert!(!address.is_unspecified() && !address.is_broadcast() && !address.is_multicast(), "{address}");
}

/// What a partner answers: every method's answer, the products in it, and the text of a block. In any case, an answer is
/// read or described in words; a row has a SKU, and its measures are whole numbers; and no one waits for longer than a day.
pub fn baselinker(data: &[u8]) {
    let now = DateTime::<Utc>::from_timestamp(1_651_598_000, 0).unwrap();
    assert!(release::wait(&String::from_utf8_lossy(data), now) <= release::LONGEST);
    let described = |unanswered: Unanswered| {
        assert!(unanswered.to_string().starts_with("BaseLinker"), "{unanswered}");
        if let Unanswered::Blocked(text) = unanswered {
            assert!(release::wait(&text, now) <= release::LONGEST);
        }
    };
    match answer::products_list(data) {
        Ok(page) => assert_eq!(page.is_full(), page.products.len() >= 1_000),
        Err(unanswered) => described(unanswered),
    }
    answer::updated(data).err().into_iter().for_each(described);
    let Ok(products) = answer::products_data(data) else { return };
    for product in products.into_iter().flat_map(|(key, raw)| product::read(&key, raw)) {
        match product {
            Ok(product) => {
                assert!(product.row["productSku"].as_str().is_some_and(|sku| !sku.is_empty()));
                for measure in ["weight", "height", "width", "length"] {
                    assert!(product.row.get(measure).is_none_or(Value::is_i64), "{:?}", product.row);
                }
                // the rules of a sync have the last word
                let _ = rules::read_sync_row(Value::Object(product.row));
            }
            Err(broken) => assert!(!broken.message.is_empty()),
        }
    }
}

/// A file of CSV, of products or orders, in pieces of any size: its rows are objects within their length, and each makes the cells
/// that make it.
pub fn csv(data: &[u8]) {
    let Some((how, body)) = data.split_first() else { return };
    let charset = ["utf-8", "windows-1250", "windows-1252", "iso-8859-2", "utf-16"][usize::from(how % 5)];
    let size = usize::from(how / 5) + 1;
    let (header, row) = if how % 2 == 0 {
        (push::product_header().schema(), rules::schema_of_sync_row())
    } else {
        (push::expedition_header().schema(), import::schema())
    };
    let pieces: Vec<_> = body.chunks(size).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    let request = Request::post(format!("/?eshop=1&charset={charset}"));
    let request = request.body(Body::from_stream(stream::iter(pieces))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let read = runtime.block_on(async {
        let (header, mut csv) = CsvRows::of(request, &header, row.clone()).unwrap();
        assert_eq!(header["eshop"], "1");
        csv.begin().await?;
        let (mut rows, mut last) = (Vec::new(), 0);
        while let Some((row, line)) = csv.next().await? {
            assert!(row.len() <= LONGEST_ROW && line > last);
            last = line;
            rows.push(row);
        }
        Ok((rows, csv.form().unwrap().clone()))
    });
    let (rows, form) = match read {
        Ok(read) => read,
        Err(problem) => {
            let problem: longshore_kernel::problem::Problem = problem;
            assert_eq!(problem.kind().status, 400, "{problem}");
            return;
        }
    };
    let names: Record = form.names.iter().collect();
    for text in rows {
        let read = json::parse(&text);
        assert!(read.is_err() || read.is_ok_and(|row| row.is_object()));
        let mut columns = Columns::new(&row, u8::try_from(form.delimiter).unwrap(), &names).unwrap();
        let mut again = Vec::new();
        for line in form.cells(&text) {
            let protected = |cell: String| if is_marked(&cell) { format!("'{cell}") } else { cell };
            let mut line: Record = line.into_iter().map(protected).collect();
            again.extend(columns.push(&mut line).unwrap());
        }
        again.extend(columns.rest().unwrap());
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].0, text);
    }
}
