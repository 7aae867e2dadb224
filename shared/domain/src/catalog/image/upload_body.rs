//! The JSON form of an upload: `{"fileName", "contentType", "data"}`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::Value;

use super::{LARGEST, too_large};
use longshore_kernel::input::{Reader, Rule, Schema, custom, object, text};
use longshore_kernel::problem::Problem;

/// Base64 with or without its padding: clients differ.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An upload.
#[derive(Clone, Debug)]
pub struct Upload {
    /// What the caller calls the file.
    pub file_name: Option<String>,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Reads it. The name and the type that the caller claims are checked for their form only: the bytes say what they are.
pub fn read(body: Value) -> Result<Upload, Problem> {
    let upload = Reader::read(body, self::body())?;
    if upload.bytes.len() > LARGEST { Err(too_large()) } else { Ok(upload) }
}

/// The body of an upload.
pub fn body() -> impl Rule<Out = Upload> {
    object(|object| {
        let file_name = object.nullable("fileName", text(1..=255)).value();
        object.nullable("contentType", text(1..=255));
        let bytes = object.required("data", custom(Schema::Base64, data))?.into();
        Some(Upload { file_name, bytes })
    })
}

/// Base64, bare or in a `data:` URL, in lines as in mails or in one.
fn data(reader: &mut Reader, value: Value) -> Option<Vec<u8>> {
    let Value::String(mut text) = value else {
        reader.wrong_type("a string", &value);
        return None;
    };
    text.retain(|c| !c.is_ascii_whitespace());
    let encoded = match text.strip_prefix("data:").map(|url| url.split_once(',')) {
        None => text.as_str(),
        Some(Some((head, encoded))) if head.ends_with(";base64") => encoded,
        Some(_) => {
            reader.refuse("invalid_base64", "must be a base64 data: URL, such as data:image/png;base64,…");
            return None;
        }
    };
    let decoded = BASE64.decode(encoded).ok();
    if decoded.is_none() {
        reader.refuse("invalid_base64", "must be base64");
    }
    decoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use longshore_kernel::problem::TOO_LARGE;

    fn codes(body: Value) -> Vec<String> {
        let problem = read(body).unwrap_err();
        problem.violations().iter().map(|v| format!("{} {}", v.property_path, v.code)).collect()
    }

    #[test]
    fn base64_comes_bare_padded_or_in_a_data_url() {
        for data in [
            "aGVsbG8=",
            "aGVsbG8",
            "data:image/png;base64,aGVsbG8=",
            "data:;base64,aGVsbG8",
            "aGVs\r\nbG8=\r\n",
            " aGVs bG8\t=",
            "data:image/png;base64,\naGVs\nbG8=\n",
        ] {
            assert_eq!(read(json!({"data": data})).unwrap().bytes, "hello", "{data}");
        }
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        assert_eq!(codes(json!({})), ["data required"]);
        assert_eq!(codes(json!({"data": 5, "colour": 1})), ["data wrong_type", "colour unknown_field"]);
        for data in ["!", "aGVsbG8==x", "data:image/png,hello", "data:image/png", "a-_b"] {
            assert_eq!(codes(json!({"data": data})), ["data invalid_base64"], "{data}");
        }
        assert_eq!(
            codes(json!({"data": "aGVsbG8=", "fileName": "", "contentType": 1})),
            ["fileName invalid_length", "contentType wrong_type"]
        );
    }

    #[test]
    fn the_limit_applies_to_the_decoded_size() {
        let of = |size: usize| read(json!({"data": BASE64.encode(vec![0; size])}));
        assert_eq!(of(LARGEST).unwrap().bytes.len(), LARGEST);
        let problem = of(LARGEST + 1).unwrap_err();
        assert_eq!(problem.kind(), &TOO_LARGE);
        assert!(problem.detail().contains("10485760"));
    }
}
