//! `Accept`: which form of an answer the caller wants.

use http::HeaderMap;
use http::header::ACCEPT;
use longshore_domain::list::Form;

use super::csv::CSV;

/// Media ranges that include the types of answers.
const INCLUDING_JSON: [&str; 5] =
    ["*/*", "application/*", "application/json", "application/problem+json", "text/event-stream"];

/// Whether the header includes the types of most answers.
#[must_use]
pub fn is_acceptable(headers: &HeaderMap) -> bool {
    ranges(headers).next().is_none() || quality(headers, &INCLUDING_JSON) > 0.0
}

/// The form in which a client wants a list: CSV where it asks for it, and does not like JSON better.
#[must_use]
pub fn form(headers: &HeaderMap) -> Form {
    if prefers(headers, CSV) { Form::Csv } else { Form::Json }
}

/// Whether a client asks for a media type, and does not like JSON better. `*/*` includes it, and asks for the default.
#[must_use]
pub fn prefers(headers: &HeaderMap, media: &str) -> bool {
    let range = media.split('/').next().map(|kind| format!("{kind}/*")).unwrap_or_default();
    let quality_of_json = quality(headers, &INCLUDING_JSON);
    let wanted = if INCLUDING_JSON.contains(&&*range) { &[media][..] } else { &[media, &range] };
    let quality = quality(headers, wanted);
    quality > 0.0 && quality >= quality_of_json
}

fn ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).filter(|range| !range.trim().is_empty())
}

/// The highest quality of these ranges, from 0 to 1.
fn quality(headers: &HeaderMap, wanted: &[&str]) -> f32 {
    let of = |range: &str| {
        let mut parts = range.split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default();
        let given = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        wanted.iter().any(|known| essence.eq_ignore_ascii_case(known)).then(|| given.unwrap_or(1.0))
    };
    ranges(headers).filter_map(of).fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_list_has_the_form_that_its_client_prefers() {
        for (accept, wanted, acceptable) in [
            ("", Form::Json, true),
            ("*/*", Form::Json, true),
            ("application/json", Form::Json, true),
            ("text/csv", Form::Csv, false),
            ("Text/CSV; charset=utf-8", Form::Csv, false),
            ("text/*", Form::Csv, false),
            ("text/csv, */*", Form::Csv, true),
            ("application/json, text/csv;q=0.9", Form::Json, true),
            ("application/json;q=0.1, text/csv;q=0.9", Form::Csv, true),
            ("text/csv;q=0", Form::Json, false),
            ("text/html, application/xhtml+xml, */*;q=0.8", Form::Json, true),
            ("application/json;q=nonsense", Form::Json, true),
            ("application/json;q=0", Form::Json, false),
            ("image/png", Form::Json, false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!((form(&headers), is_acceptable(&headers)), (wanted, acceptable), "{accept}");
        }
    }
}
