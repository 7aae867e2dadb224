//! URLs of callers that the worker calls.

use url::Url;

use super::address::Guard;
use super::config::OutboundSettings;
use super::input::{Reader, Rule, custom, secret, url};

/// Characters that a destination may have.
pub const DESTINATION_LENGTH: usize = 2_000;

/// A URL that may be called: `https` (or `http` where that is allowed), without credentials or fragment, and where it
/// names an address, one that may be reached. Kept as it came.
pub fn destination(outbound: &OutboundSettings) -> impl Rule<Out = String> + Clone {
    let guard = Guard::new(&outbound.webhook_allow_subnets);
    let allow_http = outbound.webhook_allow_http;
    let rule = url(1..=DESTINATION_LENGTH).then(move |reader: &mut Reader, text: String| {
        // what URL parsers drop or mend in silence would make two readers see two URLs
        let clean = !text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\');
        let is_whole = |url: &Url| clean && has_authority(&text, url) && !has_empty_label(url);
        let Some(url) = Url::parse(&text).ok().filter(is_whole) else {
            reader.refuse("invalid_url", "must be an absolute URL");
            return None;
        };
        match url.scheme() {
            "https" => {}
            "http" if allow_http => {}
            _ => reader.refuse("invalid_url", "must be an https URL"),
        }
        if !url.username().is_empty() || url.password().is_some() {
            reader.refuse("invalid_url", "must not contain credentials: they have a field of their own");
        }
        if url.fragment().is_some() {
            reader.refuse("invalid_url", "must not contain a fragment");
        }
        if url.port() == Some(0) {
            reader.refuse("invalid_url", "must have a port from 1 to 65535");
        }
        if matches!(url.scheme(), "https" | "http") && !guard.permits_url(&url) {
            reader.refuse(
                "forbidden_address",
                "must not be a private, loopback, link-local or metadata address",
            );
        }
        Some(text)
    });
    // it may contain credentials, where they do not belong
    custom(rule.schema(), move |reader: &mut Reader, value| {
        if value.as_str().is_some_and(|text| text.contains('@')) {
            secret(rule).apply(reader, value)
        } else {
            rule.apply(reader, value)
        }
    })
}

/// Whether a text has its host where RFC 3986 has it, which a parser finds elsewhere, too: in `https:shop.example`, and `https:///shop.example`.
fn has_authority(text: &str, url: &Url) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.eq_ignore_ascii_case(url.scheme()) && !rest.is_empty() && !rest.starts_with(['/', '?', '#'])
    })
}

/// Whether its host is a name that no resolver takes, such as `127.0.0.1..`, which is no address to a parser either.
fn has_empty_label(url: &Url) -> bool {
    let name = url.domain().unwrap_or("name");
    name.strip_suffix('.').unwrap_or(name).split('.').any(str::is_empty)
}

/// Whether two URLs lead to the same scheme, host and port, so that credentials for one are meant for the other.
#[must_use]
pub fn is_same_origin(one: &str, other: &str) -> bool {
    match (Url::parse(one), Url::parse(other)) {
        (Ok(one), Ok(other)) => one.origin() == other.origin(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn codes(text: &str) -> Vec<&'static str> {
        let outbound = OutboundSettings { webhook_allow_http: true, ..OutboundSettings::default() };
        let Err(problem) = Reader::read(json!(text), destination(&outbound)) else { return Vec::new() };
        problem.violations().iter().map(|violation| violation.code).collect()
    }

    #[test]
    fn a_destination_is_a_url_that_every_reader_reads_alike() {
        for whole in [
            "https://shop.example",
            "HTTPS://Shop.example:8443/hook?at=1//2",
            "http://shop.example/a:b",
            "https://[2606:4700::1111]/",
            "https://obchod.příklad/",
        ] {
            assert!(codes(whole).is_empty(), "{whole}");
        }
        for mended in [
            r"https://\x",
            r"http:\\host",
            r"https:\/shop.example",
            r"https://shop.example\@other.example/",
            r"https://shop.example/a\b",
            r"https://shop.example/?a=\",
            "https:///x",
            "https:////x",
            "https:/shop.example",
            "https:shop.example",
            "https:shop.example/?to=https://other.example",
            "https://?x",
            "https://#x",
            "https://",
            "//shop.example",
            "shop.example",
            " https://shop.example",
            "https://shop\t.example",
        ] {
            assert!(codes(mended).contains(&"invalid_url"), "{mended}");
        }
    }
}
