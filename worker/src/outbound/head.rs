//! Makes the head of an HTTP/1 answer readable, and reads its status.
//!
//! Browsers, curl and most libraries accept heads that break the grammar of RFC 9112, so their senders never learn of it. The status
//! says what became of a call, so such a head must not hide it. The parser of the client is set to join folded lines, to accept a
//! blank before a colon and to leave out lines that are no field. Here its remaining reasons to fail are taken out of the bytes before it
//! sees them: control characters, a carriage return alone (a blank, RFC 9112, section 2.2), and too many lines.
//! What still fails there leaves the [status](Heads::status).

use http::StatusCode;

/// Fields that the parser takes: those of one head. It reserves room for all of them at each head, so further lines are left out.
pub(super) const LINES: usize = 1_000;

/// Stands for a control character.
const PLACEHOLDER: u8 = b'?';

/// Bytes of a line that tell a status: `HTTP/1.1 200`, and a blank or the end.
const START: usize = 13;

/// The heads that come over a connection.
#[derive(Debug, Default)]
pub(super) struct Heads {
    within: Within,
    /// Bytes of the current line so far.
    line: usize,
    /// Lines of fields so far.
    lines: usize,
    start: [u8; START],
    status: Option<StatusCode>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Status,
    Fields,
    Body,
}

impl Heads {
    /// The status of the answer, once its line has arrived. An interim one is none.
    pub(super) fn status(&self) -> Option<StatusCode> {
        self.status.filter(|status| !is_interim(*status))
    }

    /// Whether the head is complete, and a body follows.
    pub(super) fn is_complete(&self) -> bool {
        self.within == Within::Body
    }

    /// Makes the next bytes readable, in place. Returns how many are left.
    pub(super) fn tidy(&mut self, bytes: &mut [u8]) -> usize {
        let mut kept = 0;
        for at in 0..bytes.len() {
            if self.is_complete() {
                bytes.copy_within(at.., kept);
                return kept + bytes.len() - at;
            }
            if let Some(byte) = self.tidied(bytes[at]) {
                bytes[kept] = byte;
                kept += 1;
            }
        }
        kept
    }

    fn tidied(&mut self, byte: u8) -> Option<u8> {
        let byte = match byte {
            b'\n' => return self.end_line(),
            b'\r' if self.line == 0 => return None,
            b'\r' => b' ',
            b'\t' => b'\t',
            control if control.is_ascii_control() => PLACEHOLDER,
            other => other,
        };
        if self.within == Within::Status
            && let Some(start) = self.start.get_mut(self.line)
        {
            *start = byte;
        }
        self.line += 1;
        (self.lines < LINES).then_some(byte)
    }

    fn end_line(&mut self) -> Option<u8> {
        let (within, is_empty, is_kept) = (self.within, self.line == 0, self.lines < LINES);
        match within {
            Within::Status if !is_empty => {
                self.status = status_of(&self.start);
                self.within = Within::Fields;
            }
            Within::Fields if is_empty => {
                if self.status.is_some_and(is_interim) {
                    *self = Self::default();
                } else {
                    self.within = Within::Body;
                }
            }
            Within::Fields => self.lines += 1,
            Within::Status | Within::Body => {}
        }
        self.line = 0;
        (is_empty || is_kept).then_some(b'\n')
    }
}

/// Whether another head follows.
fn is_interim(status: StatusCode) -> bool {
    status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS
}

/// The status of a line, of which the first bytes are given; the rest of a shorter one is zero.
fn status_of(start: &[u8; START]) -> Option<StatusCode> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9', b' ', hundreds, tens, ones, b' ' | 0] =
        *start
    else {
        return None;
    };
    StatusCode::from_bytes(&[hundreds, tens, ones]).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes that are left if they arrive in pieces of this size, and the status.
    fn tidied(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<u16>) {
        let (mut heads, mut left) = (Heads::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            let mut piece = piece.to_vec();
            let kept = heads.tidy(&mut piece);
            left.extend_from_slice(&piece[..kept]);
        }
        (left, heads.status().map(|status| status.as_u16()))
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(tidied(bytes, bytes.len()).0).unwrap()
    }

    #[test]
    fn control_characters_of_a_head_are_replaced_and_its_body_stays() {
        assert_eq!(
            text(b"HTTP/1.1 200 O\x01K\r\nset-cookie: a\0b\x7fc\td\r\nx: 1\r2\r\n\r\n\0\r\n\x01\r\n"),
            "HTTP/1.1 200 O?K \nset-cookie: a?b?c\td \nx: 1 2 \n\n\0\r\n\x01\r\n"
        );
    }

    #[test]
    fn lines_beyond_the_limit_are_left_out_and_the_end_of_the_head_is_not() {
        let head = format!("HTTP/1.1 200 OK\n{}\nbody", "a: b\n".repeat(3 * LINES));
        assert_eq!(text(head.as_bytes()), format!("HTTP/1.1 200 OK\n{}\nbody", "a: b\n".repeat(LINES)));
    }

    #[test]
    fn the_status_is_that_of_the_last_head() {
        for (head, status) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503\n", Some(503)),
            ("\r\n\r\nHTTP/1.1 204 \r\n", Some(204)),
            ("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 202 OK\r\nx", Some(202)),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2", None),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\n", Some(101)),
            ("HTTP/1.1 102 Processing\r\n", None),
            ("HTTP/1.1 200 OK", None),
            ("HTTP/1.1 2000\r\n", None),
            ("HTTP/1.1 099 Low\r\n", None),
            ("SSH-2.0-OpenSSH_9.6\r\n", None),
        ] {
            for piece in [1, 7, head.len()] {
                assert_eq!(tidied(head.as_bytes(), piece).1, status, "{head:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_left_does_not_depend_on_how_the_bytes_arrive(
            rest in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b':'), any::<u8>()], 0..200),
            piece in 1usize..20
        ) {
            let bytes = [b"HTTP/1.1 200 OK\r\n", &rest[..]].concat();
            prop_assert_eq!(tidied(&bytes, piece), tidied(&bytes, bytes.len()));
        }
    }
}
