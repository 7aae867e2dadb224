//! Compression, and decompression of gzip and zstd in bounded steps: a small input can neither fill the memory nor hold a thread.
//! Input that expands beyond a plausible ratio is refused.
//!
//! [`Unfolder::push`] takes what came, [`Unfolder::step`] gives at most [`PIECE`] bytes of what it unfolds to, until it
//! needs input again.

use std::io::{self, BufRead, ErrorKind, Read, Write as _};

use bytes::{Buf as _, Bytes};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use zstd::stream::read::Decoder as ZstdDecoder;

/// Bytes that one step gives at most.
pub const PIECE: usize = 64 * 1024;

/// Bytes that one step takes at most: members without content give nothing, however many there are.
const INPUT_STEP: usize = 16 * 1024;

/// The largest window of a zstd frame, as a power of two: 8 MiB, what RFC 8878 asks decoders for.
const LARGEST_WINDOW: u32 = 23;

/// Bytes of the state of a decoder; of zstd's, without its window.
const GZIP_STATE: usize = 128 * 1024;
const ZSTD_STATE: usize = 512 * 1024;

/// How hard zstd works on what is folded once.
const ZSTD_LEVEL: i32 = 9;

/// How something is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952, of any number of members; zeros may follow the last one, as tapes and block devices add them.
    Gzip,
    /// RFC 8878, of any number of frames.
    Zstd,
}

/// Folds what is folded once and served often.
pub fn fold(coding: Coding, bytes: &[u8]) -> io::Result<Vec<u8>> {
    match coding {
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        Coding::Zstd => zstd::stream::encode_all(bytes, ZSTD_LEVEL),
    }
}

/// How much something may unfold to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that are always allowed.
    pub free: u64,
    /// Past those, so many times what came.
    pub ratio: u64,
}

/// Why something could not be unfolded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfoldable {
    /// It is not what it says, damaged, or cut off.
    #[error("it is not valid {0}")]
    Damaged(&'static str),
    /// It is made to fill memories.
    #[error("it decompresses to more than {0} times its size")]
    Bomb(u64),
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// What it unfolded; never empty.
    Piece(Bytes),
    /// Nothing yet; the next step continues.
    More,
    /// Nothing is left of what was pushed.
    NeedsInput,
    /// All of it is unfolded.
    End,
}

/// Unfolds one stream.
pub struct Unfolder {
    decoder: Decoder,
    bounds: Bounds,
    gave: u64,
    /// Zeros have followed a member of gzip.
    padded: bool,
    room: Vec<u8>,
}

enum Decoder {
    Gzip(Box<GzDecoder<Mouth>>),
    Zstd(Box<ZstdDecoder<'static, Mouth>>),
}

impl Unfolder {
    /// Begins a stream.
    ///
    /// # Errors
    /// Only where there is no memory.
    pub fn new(coding: Coding, bounds: Bounds) -> io::Result<Self> {
        let decoder = match coding {
            Coding::Gzip => Decoder::Gzip(Box::new(GzDecoder::new(Mouth::default()))),
            Coding::Zstd => {
                let mut decoder = ZstdDecoder::with_buffer(Mouth::default())?;
                decoder.window_log_max(LARGEST_WINDOW)?;
                Decoder::Zstd(Box::new(decoder))
            }
        };
        Ok(Self { decoder, bounds, gave: 0, padded: false, room: vec![0; PIECE] })
    }

    /// Takes more of the stream; only once it needs input.
    pub fn push(&mut self, bytes: Bytes) {
        let input = self.input();
        debug_assert!(input.pushed.is_empty(), "it needed no input");
        input.pushed = bytes;
    }

    /// Bytes that it keeps in memory, at most.
    #[must_use]
    pub fn held(&self) -> usize {
        match &self.decoder {
            Decoder::Gzip(_) => GZIP_STATE,
            Decoder::Zstd(_) => {
                ZSTD_STATE + usize::try_from(self.gave).unwrap_or(usize::MAX).min(1 << LARGEST_WINDOW)
            }
        }
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.input().is_last = true;
    }

    /// Unfolds a little more.
    pub fn step(&mut self) -> Result<Step, Unfoldable> {
        self.input().left = INPUT_STEP;
        let read = match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.read(&mut self.room),
            Decoder::Zstd(decoder) => decoder.read(&mut self.room),
        };
        let input = self.input();
        match read {
            Ok(0) => self.next_member(),
            // no data arrived: a missing body, regardless of its headers
            Err(_) if input.is_last && input.took == 0 && input.pushed.is_empty() => Ok(Step::End),
            Ok(length) => {
                self.judge(length)?;
                Ok(Step::Piece(Bytes::copy_from_slice(self.room.get(..length).unwrap_or_default())))
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(self.damaged()),
            Err(_) if input.pushed.is_empty() => Ok(Step::NeedsInput),
            Err(_) => Ok(Step::More),
        }
    }

    /// What follows a member of gzip; frames of zstd continue by themselves.
    fn next_member(&mut self) -> Result<Step, Unfoldable> {
        let Decoder::Gzip(decoder) = &mut self.decoder else { return Ok(Step::End) };
        let input = decoder.get_mut();
        let zeros = input.pushed.iter().take_while(|byte| **byte == 0).count();
        input.consume(zeros);
        self.padded |= zeros > 0;
        if input.pushed.is_empty() {
            return Ok(if input.is_last { Step::End } else { Step::NeedsInput });
        }
        if self.padded {
            return Err(self.damaged());
        }
        let input = std::mem::take(input);
        **decoder = GzDecoder::new(input);
        Ok(Step::More)
    }

    fn judge(&mut self, length: usize) -> Result<(), Unfoldable> {
        self.gave += length as u64;
        let took = self.input().took;
        if self.gave > self.bounds.free.max(took.saturating_mul(self.bounds.ratio)) {
            return Err(Unfoldable::Bomb(self.bounds.ratio));
        }
        Ok(())
    }

    fn input(&mut self) -> &mut Mouth {
        match &mut self.decoder {
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Zstd(decoder) => decoder.get_mut(),
        }
    }

    fn damaged(&self) -> Unfoldable {
        Unfoldable::Damaged(match &self.decoder {
            Decoder::Gzip(_) => "gzip",
            Decoder::Zstd(_) => "zstd with a window of at most 8 MiB",
        })
    }
}

impl std::fmt::Debug for Unfolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unfolder")
            .field("bounds", &self.bounds)
            .field("gave", &self.gave)
            .finish_non_exhaustive()
    }
}

/// What was pushed and is not unfolded yet; to read on past it would block, until it is known to be the last.
#[derive(Debug, Default)]
struct Mouth {
    pushed: Bytes,
    /// Bytes that this step may still take.
    left: usize,
    took: u64,
    is_last: bool,
}

impl BufRead for Mouth {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let next = self.pushed.get(..self.left.min(self.pushed.len())).unwrap_or_default();
        if next.is_empty() && !(self.is_last && self.pushed.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(next)
    }

    fn consume(&mut self, amount: usize) {
        self.pushed.advance(amount);
        self.left = self.left.saturating_sub(amount);
        self.took += amount as u64;
    }
}

impl Read for Mouth {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { free: 1024 * 1024, ratio: 200 };
    const BOTH: [Coding; 2] = [Coding::Gzip, Coding::Zstd];

    fn fold(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        super::fold(coding, bytes).unwrap()
    }

    /// What it unfolds to, pushed in pieces of a size, and in how many steps.
    fn unfold(coding: Coding, folded: &[u8], size: usize) -> (Result<Vec<u8>, Unfoldable>, usize) {
        let (mut unfolder, mut all, mut steps) = (Unfolder::new(coding, BOUNDS).unwrap(), Vec::new(), 0);
        let mut pieces = folded.chunks(size);
        loop {
            steps += 1;
            match unfolder.step() {
                Ok(Step::Piece(piece)) => {
                    assert!((1..=PIECE).contains(&piece.len()));
                    all.extend_from_slice(&piece);
                }
                Ok(Step::More) => {}
                Ok(Step::NeedsInput) => match pieces.next() {
                    Some(piece) => unfolder.push(Bytes::copy_from_slice(piece)),
                    None => unfolder.end(),
                },
                Ok(Step::End) => return (Ok(all), steps),
                Err(unfoldable) => return (Err(unfoldable), steps),
            }
        }
    }

    #[test]
    fn the_decompressed_body_depends_neither_on_chunking_nor_on_the_number_of_members() {
        let text: Vec<u8> =
            (0..20_000).flat_map(|n| format!("{{\"productSku\":\"A{n}\"}}\n").into_bytes()).collect();
        for coding in BOTH {
            let members = [fold(coding, &text), fold(coding, b""), fold(coding, &text)].concat();
            for size in [1, 3, 1000, 1_000_000] {
                assert_eq!(unfold(coding, &members, size).0.unwrap(), text.repeat(2), "{coding:?} by {size}");
            }
            assert_eq!(unfold(coding, b"", 1).0.unwrap(), b"");
            assert_eq!(unfold(coding, &fold(coding, b""), 1).0.unwrap(), b"");
        }
    }

    #[test]
    fn zeros_behind_gzip_are_padding() {
        let text = b"a row of some length\n".repeat(1000);
        for members in [1, 2] {
            for zeros in [1, 512, 100_000] {
                let padded = [fold(Coding::Gzip, &text).repeat(members), vec![0; zeros]].concat();
                for size in [1, 1000, 1_000_000] {
                    let unfolded = unfold(Coding::Gzip, &padded, size).0.unwrap();
                    assert_eq!(unfolded, text.repeat(members), "{zeros} by {size}");
                }
            }
        }
        assert!(unfold(Coding::Gzip, &[0; 100], 7).0.is_err());
    }

    #[test]
    fn a_truncated_damaged_or_continued_body_is_refused() {
        let text = b"a row of some length\n".repeat(1000);
        for coding in BOTH {
            let folded = fold(coding, &text);
            for end in [1, 5, folded.len() / 2, folded.len() - 1] {
                let cut = unfold(coding, &folded[..end], 7).0;
                assert!(matches!(cut, Err(Unfoldable::Damaged(_))), "{coding:?} cut at {end}: {cut:?}");
            }
            let followed = [folded.as_slice(), b"garbage"].concat();
            assert!(matches!(unfold(coding, &followed, 7).0, Err(Unfoldable::Damaged(_))), "{coding:?}");
            let padded = [folded.as_slice(), &[0; 100], &folded].concat();
            assert!(matches!(unfold(coding, &padded, 7).0, Err(Unfoldable::Damaged(_))), "{coding:?}");
            assert!(
                matches!(unfold(coding, b"{\"name\":1}", 7).0, Err(Unfoldable::Damaged(_))),
                "{coding:?}"
            );
        }
        let mut damaged = fold(Coding::Gzip, &text);
        let checksum = damaged.len() - 8;
        damaged[checksum] ^= 1;
        assert!(matches!(unfold(Coding::Gzip, &damaged, 7).0, Err(Unfoldable::Damaged("gzip"))));
    }

    #[test]
    fn a_bomb_is_given_up_early() {
        let zeros = vec![0; 64 * 1024 * 1024];
        for coding in BOTH {
            let bomb = fold(coding, &zeros);
            let (refused, steps) = unfold(coding, &bomb, bomb.len());
            assert_eq!(refused, Err(Unfoldable::Bomb(200)), "{coding:?}");
            assert!(steps < 400, "{coding:?}: {steps}");
        }
    }

    #[test]
    fn a_window_of_2_gib_is_not_opened() {
        // magic, a frame without a content size, a window of 2^31 bytes, and an empty last block
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (31 - 10) << 3, 0x01, 0x00, 0x00];
        assert!(matches!(unfold(Coding::Zstd, &frame, 1).0, Err(Unfoldable::Damaged(_))));
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (23 - 10) << 3, 0x01, 0x00, 0x00];
        assert_eq!(unfold(Coding::Zstd, &frame, 1).0.unwrap(), b"");
    }

    #[test]
    fn members_without_content_do_not_keep_a_step_for_ever() {
        for coding in BOTH {
            let members = fold(coding, b"").repeat(100_000);
            let (all, steps) = unfold(coding, &members, members.len());
            assert_eq!(all.unwrap(), b"");
            assert!(steps >= members.len() / INPUT_STEP, "{coding:?}: {steps}");
        }
    }
}
