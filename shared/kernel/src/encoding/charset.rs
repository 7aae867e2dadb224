//! Texts in the character sets of spreadsheets, made UTF-8 while they arrive.

use encoding_rs::{DecoderResult, Encoding, ISO_8859_2, UTF_8, UTF_16LE, WINDOWS_1250, WINDOWS_1252};

use super::Foreign;

/// A character set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// UTF-8.
    #[default]
    Utf8,
    /// Windows in Central Europe.
    Windows1250,
    /// Windows in Western Europe.
    Windows1252,
    /// Central Europe elsewhere.
    Iso88592,
    /// Two bytes a character, in the order that its mark says, or the least first.
    Utf16,
}

/// Each by its name.
const NAMED: [(&str, Charset); 5] = [
    ("utf-8", Charset::Utf8),
    ("windows-1250", Charset::Windows1250),
    ("windows-1252", Charset::Windows1252),
    ("iso-8859-2", Charset::Iso88592),
    ("utf-16", Charset::Utf16),
];

/// Letters of Central Europe, and of Western Europe, that are not in ASCII.
const CENTRAL: &str = "áčďéěíňóřšťúůýžľôäöüßőűąćęłńśźż";
const WESTERN: &str = "àáâãäåæçèéêëìíîïñòóôõöøœùúûüÿß";

/// Bytes that are looked at for a character set that fits.
const LOOKED_AT: usize = 64 * 1024;

impl Charset {
    /// The one of a name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMED.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, charset)| *charset)
    }

    /// The names of all of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMED.iter().find(|(_, charset)| *charset == self).map_or("", |(name, _)| name)
    }

    /// The one that fits to bytes that are not UTF-8, if they are text.
    #[must_use]
    pub fn fitting(bytes: &[u8]) -> Option<Self> {
        match Foreign::begins(bytes) {
            Some(Foreign::Utf16) => return Some(Self::Utf16),
            Some(_) => return None,
            None => {}
        }
        let looked_at = bytes.get(..LOOKED_AT).unwrap_or(bytes);
        let fits = |(charset, letters): &(Self, &str)| {
            let (text, _) = charset.encoding().decode_without_bom_handling(looked_at);
            let others = text.chars().filter(|c| !c.is_ascii()).flat_map(char::to_lowercase);
            others.map(|c| if letters.contains(c) { 1 } else { -1 }).sum::<i32>()
        };
        // of those that fit as well, the last
        let candidates =
            [(Self::Windows1252, WESTERN), (Self::Iso88592, CENTRAL), (Self::Windows1250, CENTRAL)];
        candidates.into_iter().max_by_key(fits).map(|(charset, _)| charset)
    }

    fn encoding(self) -> &'static Encoding {
        match self {
            Self::Utf8 => UTF_8,
            Self::Windows1250 => WINDOWS_1250,
            Self::Windows1252 => WINDOWS_1252,
            Self::Iso88592 => ISO_8859_2,
            Self::Utf16 => UTF_16LE,
        }
    }
}

/// Makes UTF-8 of a text that arrives in pieces. A byte order mark at its beginning is left out; that of another Unicode form is
/// believed where the text was not said to be UTF-8.
pub struct Decoder(encoding_rs::Decoder);

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Decoder").field(&self.0.encoding().name()).finish()
    }
}

/// The text behind what was decoded is not of its character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable;

impl Decoder {
    /// Of a text in that character set.
    #[must_use]
    pub fn new(charset: Charset) -> Self {
        let encoding = charset.encoding();
        Self(if charset == Charset::Utf8 {
            encoding.new_decoder_with_bom_removal()
        } else {
            encoding.new_decoder()
        })
    }

    /// Adds a piece to the text, the last one or another; one that is not of the character set up to that place.
    pub fn decode(&mut self, piece: &[u8], is_last: bool, text: &mut String) -> Result<(), Undecodable> {
        let mut left = piece;
        loop {
            let room = self.0.max_utf8_buffer_length_without_replacement(left.len());
            text.reserve(room.unwrap_or(left.len()));
            let (result, read) = self.0.decode_to_string_without_replacement(left, text, is_last);
            left = left.get(read..).unwrap_or_default();
            match result {
                DecoderResult::InputEmpty => return Ok(()),
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => return Err(Undecodable),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text in pieces of that size, and whether it was of the character set.
    fn decoded(charset: Charset, bytes: &[u8], size: usize) -> (String, bool) {
        let (mut decoder, mut text) = (Decoder::new(charset), String::new());
        let fits = bytes.chunks(size).all(|piece| decoder.decode(piece, false, &mut text).is_ok())
            && decoder.decode(&[], true, &mut text).is_ok();
        (text, fits)
    }

    #[test]
    fn a_text_is_the_same_in_every_character_set_and_in_pieces_of_any_size() {
        let text = "kód;název\r\nH-1;Žluťoučký hrníček\r\n";
        let utf_16 = |of: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(of).collect::<Vec<u8>>();
        let (little, big) = (utf_16(u16::to_le_bytes), utf_16(u16::to_be_bytes));
        for (charset, bytes) in [
            (Charset::Utf8, text.as_bytes().to_vec()),
            (Charset::Utf8, [b"\xef\xbb\xbf", text.as_bytes()].concat()),
            (Charset::Windows1250, WINDOWS_1250.encode(text).0.into_owned()),
            (Charset::Windows1250, [b"\xef\xbb\xbf", text.as_bytes()].concat()),
            (Charset::Iso88592, ISO_8859_2.encode(text).0.into_owned()),
            (Charset::Utf16, little.clone()),
            (Charset::Utf16, [&[0xff, 0xfe][..], &little].concat()),
            (Charset::Utf16, [&[0xfe, 0xff][..], &big].concat()),
        ] {
            for size in [1, 2, 3, 100] {
                assert_eq!(decoded(charset, &bytes, size), (text.to_owned(), true), "{charset:?} {size}");
            }
        }
    }

    #[test]
    fn what_is_not_of_the_character_set_ends_the_text_before_it() {
        for size in [1, 2, 100] {
            assert_eq!(decoded(Charset::Utf8, b"a\nb\xc8x", size), ("a\nb".to_owned(), false));
            assert_eq!(decoded(Charset::Utf8, b"a\xc4", size), ("a".to_owned(), false));
            assert!(!decoded(Charset::Utf16, b"a\0\0\xd8b\0", size).1);
        }
    }

    #[test]
    fn the_character_set_that_fits_is_found() {
        let czech = "Příliš žluťoučký kůň úpěl ďábelské ódy";
        for (bytes, fitting) in [
            (WINDOWS_1250.encode(czech).0.into_owned(), Some(Charset::Windows1250)),
            (ISO_8859_2.encode(czech).0.into_owned(), Some(Charset::Iso88592)),
            (
                WINDOWS_1252.encode("garçon, crème brûlée à la maison").0.into_owned(),
                Some(Charset::Windows1252),
            ),
            (b"\xff\xfes\0k\0u\0".to_vec(), Some(Charset::Utf16)),
            (b"PK\x03\x04\x14".to_vec(), None),
        ] {
            assert_eq!(Charset::fitting(&bytes), fitting);
        }
        assert!(Charset::names().all(|name| Charset::named(name).is_some_and(|of| of.name() == name)));
        assert_eq!(Charset::named("Windows-1250"), Some(Charset::Windows1250));
    }
}
