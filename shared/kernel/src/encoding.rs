//! What came instead of UTF-8, in words for its sender.

pub mod charset;

use std::fmt;

/// What bytes look like that are not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// As some programs of Windows save text.
    Utf16,
    /// A compressed text.
    Gzip,
    /// The same.
    Zstd,
    /// An archive, or a workbook of Excel.
    Zip,
    /// Text of one byte a character.
    CodePage,
}

impl Foreign {
    /// What bytes are that begin as no text in UTF-8 does.
    #[must_use]
    pub fn begins(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(Self::Utf16),
            // ASCII in two bytes a character, without a mark
            [0, a, 0, b, ..] | [a, 0, b, 0, ..] if *a != 0 && *b != 0 => Some(Self::Utf16),
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [b'P', b'K', 3, 4, ..] => Some(Self::Zip),
            _ => None,
        }
    }

    /// What a text is; none if it is UTF-8.
    #[must_use]
    pub fn of(text: &[u8]) -> Option<Self> {
        Self::begins(text).or_else(|| std::str::from_utf8(text).is_err().then_some(Self::CodePage))
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf16 => "UTF-16",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Zip => "a ZIP archive or an Excel workbook",
            Self::CodePage => "windows-1250, or another encoding of one byte a character",
        }
    }
}

/// What it looks like, and what to do.
impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self {
            Self::Utf16 | Self::CodePage => "save it as UTF-8",
            Self::Gzip => "send it compressed once, with Content-Encoding: gzip",
            Self::Zstd => "send it compressed once, with Content-Encoding: zstd",
            Self::Zip => "send the text itself",
        };
        write!(f, "it looks like {}; {advice}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf_8_is_named() {
        let utf_16 =
            |of: fn(u16) -> [u8; 2]| "{\"name\":\"Čaj\"}".encode_utf16().flat_map(of).collect::<Vec<u8>>();
        for (bytes, looks_like) in [
            ([&[0xff, 0xfe][..], &utf_16(u16::to_le_bytes)].concat(), Some(Foreign::Utf16)),
            (utf_16(u16::to_le_bytes), Some(Foreign::Utf16)),
            (utf_16(u16::to_be_bytes), Some(Foreign::Utf16)),
            (vec![0x1f, 0x8b, 8, 0], Some(Foreign::Gzip)),
            (vec![0x28, 0xb5, 0x2f, 0xfd, 4], Some(Foreign::Zstd)),
            (b"PK\x03\x04\x14".to_vec(), Some(Foreign::Zip)),
            (b"{\"name\":\"\xc8aj\"}".to_vec(), Some(Foreign::CodePage)),
            ("\u{feff}{\"name\":\"Čaj\"}".into(), None),
            (b"{\0".to_vec(), None),
            (b"\0\0\0\0".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(Foreign::of(&bytes), looks_like, "{bytes:?}");
        }
        assert_eq!(Foreign::Utf16.to_string(), "it looks like UTF-16; save it as UTF-8");
    }
}
