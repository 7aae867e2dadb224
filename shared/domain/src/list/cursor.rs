//! Where the next page of a list begins (`docs/reference/lists.md#pages`).
//!
//! A cursor has what the order sees of the last row of a page, and how many rows came before. A hash ties it to its list, order and
//! criteria. It hides nothing and needs no secret: its values are bound like those of criteria, and the scope limits what is behind.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longshore_kernel::crypto::sha256;
use serde_json::Value;

/// The longest cursor, in characters: an order may see several long texts.
pub const CHARACTERS: usize = 1_000_000;
/// What every cursor of this form begins with.
const VERSION: char = '1';
/// Bytes of the hash.
const HASH: usize = 8;

/// A place between two rows of a list.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Rows of the pages before.
    pub(crate) from: i64,
    /// Of the last one of these, the values in the order.
    pub(crate) values: Vec<Value>,
}

impl Cursor {
    /// Writes one behind a row with these values (an array, as JSON), for a list that `of` describes.
    pub(crate) fn write(of: &str, from: i64, values: &str) -> String {
        let place = format!("[{from},{values}]");
        let mut bytes = hash(of, &place).to_vec();
        bytes.extend_from_slice(place.as_bytes());
        let mut text = VERSION.to_string();
        URL_SAFE_NO_PAD.encode_string(bytes, &mut text);
        text
    }

    /// Reads one; nothing where it is damaged, or of another list.
    pub(crate) fn read(of: &str, text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(VERSION)?).ok()?;
        let (hashed, place) = bytes.split_first_chunk::<HASH>()?;
        let place = std::str::from_utf8(place).ok().filter(|place| hash(of, place) == *hashed)?;
        let (from, values) = serde_json::from_str(place).ok()?;
        (from >= 0).then_some(Self { from, values })
    }
}

fn hash(of: &str, place: &str) -> [u8; HASH] {
    let mut hash = [0; HASH];
    hash.copy_from_slice(&sha256(format!("{of}\n{place}").as_bytes())[..HASH]);
    hash
}
