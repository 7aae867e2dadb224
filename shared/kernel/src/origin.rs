//! Origins of pages, as browsers name them: scheme, host, and the port if it is not the default of the scheme.

use http::HeaderValue;
use url::Url;

/// The origins whose pages may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// None.
    #[default]
    None,
    /// Any.
    Any,
    /// These.
    These(Vec<HeaderValue>),
}

/// Reads the setting: origins separated by commas, or `*`.
pub fn origins(text: &str) -> Result<Origins, String> {
    match text.trim() {
        "" => Ok(Origins::None),
        "*" => Ok(Origins::Any),
        list => list.split(',').map(|one| origin(one.trim())).collect::<Result<_, _>>().map(Origins::These),
    }
}

/// A browser compares letter by letter, so an origin is taken only as browsers write it.
fn origin(text: &str) -> Result<HeaderValue, String> {
    let wrong = || {
        format!(
            "{text:?} is not an origin: write scheme, host and port, such as https://shop.example, or * alone"
        )
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    let written = url.origin().ascii_serialization();
    if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || text.contains('*') {
        return Err(wrong());
    }
    if written != text {
        return Err(format!("{text:?} is not an origin as browsers write it; did you mean {written:?}?"));
    }
    HeaderValue::from_str(&written).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_taken_as_browsers_write_them() {
        let these = |texts: &[&'static str]| {
            Ok(Origins::These(texts.iter().map(|text| HeaderValue::from_static(text)).collect()))
        };
        assert_eq!(origins(""), Ok(Origins::None));
        assert_eq!(origins(" * "), Ok(Origins::Any));
        assert_eq!(origins("https://shop.example"), these(&["https://shop.example"]));
        assert_eq!(
            origins("https://shop.example, http://localhost:3000"),
            these(&["https://shop.example", "http://localhost:3000"])
        );
        for refused in [
            "shop.example",
            "null",
            "https://shop.example/",
            "https://shop.example/app",
            "https://shop.example:443",
            "https://Shop.example",
            "https://*.shop.example",
            "https://me@shop.example",
            "ftp://shop.example",
            "https://shop.example,",
            "https://shop.example,*",
        ] {
            assert!(origins(refused).is_err(), "{refused}");
        }
        assert!(
            origins("https://Shop.example/").unwrap_err().contains("did you mean \"https://shop.example\"?")
        );
    }
}
