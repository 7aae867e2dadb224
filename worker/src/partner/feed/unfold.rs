//! Decompresses a gzipped feed in small pieces ([`Unfolder::piece`]): a piece grows to at most a thousand
//! times its size, and no more than that is in memory. A feed that grows out of all proportion is refused.

use bytes::Bytes;
use longshore_kernel::unfold::{self, Bounds, Coding, Step, Unfoldable};

/// Compressed bytes per piece.
const FOLDED_PIECE: usize = 512;
/// Uncompressed bytes per piece.
const PLAIN_PIECE: usize = 64 * 1024;
/// The size to which any feed may grow; a larger one only by this ratio. Text seldom compresses to less than
/// a tenth.
const BOUNDS: Bounds = Bounds { free: 64 * 1024 * 1024, ratio: 300 };

/// The first bytes of a gzip file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decompresses a feed, or passes it on if it is not compressed.
#[derive(Debug)]
pub(super) enum Unfolder {
    /// Not known yet: too few bytes have come.
    Undecided(Vec<u8>),
    /// Not compressed.
    Plain,
    /// Compressed with gzip.
    Gzip(Box<unfold::Unfolder>),
}

impl Unfolder {
    pub(super) fn new() -> Self {
        Self::Undecided(Vec::new())
    }

    /// How many bytes to push at once.
    pub(super) fn piece(&self) -> usize {
        match self {
            Self::Plain => PLAIN_PIECE,
            Self::Undecided(_) | Self::Gzip(_) => FOLDED_PIECE,
        }
    }

    /// Takes compressed bytes, and gives the decompressed ones.
    pub(super) fn push<E: From<Unfoldable>>(
        &mut self,
        bytes: &[u8],
        mut give: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Undecided(begun) => {
                begun.extend_from_slice(bytes);
                if begun.len() < MAGIC.len() {
                    return Ok(());
                }
                let begun = std::mem::take(begun);
                *self = if begun.starts_with(&MAGIC) {
                    let unfolder = unfold::Unfolder::new(Coding::Gzip, BOUNDS);
                    Self::Gzip(Box::new(unfolder.map_err(|_| Unfoldable::Damaged("gzip"))?))
                } else {
                    Self::Plain
                };
                self.push(&begun, give)
            }
            Self::Plain => give(bytes),
            Self::Gzip(unfolder) => {
                unfolder.push(Bytes::copy_from_slice(bytes));
                run(unfolder, give)
            }
        }
    }

    /// Ends the feed.
    pub(super) fn finish<E: From<Unfoldable>>(
        self,
        mut give: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Undecided(begun) => give(&begun),
            Self::Plain => Ok(()),
            Self::Gzip(mut unfolder) => {
                unfolder.end();
                run(&mut unfolder, give)
            }
        }
    }
}

/// Decompresses the pushed bytes.
fn run<E: From<Unfoldable>>(
    unfolder: &mut unfold::Unfolder,
    mut give: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        match unfolder.step()? {
            Step::Piece(piece) => give(&piece)?,
            Step::More => {}
            Step::NeedsInput | Step::End => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn fold(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unfolded(folded: &[u8], piece: usize) -> Result<Vec<u8>, Unfoldable> {
        let (mut unfolder, mut all) = (Unfolder::new(), Vec::new());
        for piece in folded.chunks(piece) {
            unfolder.push(piece, |bytes| {
                all.extend_from_slice(bytes);
                Ok::<_, Unfoldable>(())
            })?;
        }
        unfolder.finish(|bytes| {
            all.extend_from_slice(bytes);
            Ok::<_, Unfoldable>(())
        })?;
        Ok(all)
    }

    #[test]
    fn compressed_bytes_are_decompressed_and_others_pass() {
        let text = b"{\"productSku\":\"A\"}\n".repeat(1000);
        let doubled = [fold(&text), fold(&text)].concat();
        for piece in [1, 3, 100_000] {
            assert_eq!(unfolded(&fold(&text), piece).unwrap(), text);
            assert_eq!(unfolded(&text, piece).unwrap(), text);
            assert_eq!(unfolded(&doubled, piece).unwrap(), text.repeat(2));
        }
        assert_eq!(unfolded(b"{", 1).unwrap(), b"{");
    }

    #[test]
    fn a_damaged_or_truncated_archive_is_an_error() {
        let folded = fold(&b"row\n".repeat(1000));
        assert!(matches!(unfolded(&folded[..folded.len() / 2], 7), Err(Unfoldable::Damaged(_))));
        let mut damaged = folded.clone();
        damaged[12] ^= 0xff;
        assert!(unfolded(&damaged, 7).is_err());
    }

    #[test]
    fn a_feed_that_grows_out_of_all_proportion_is_refused() {
        let bomb = fold(&vec![b' '; 80 * 1024 * 1024]);
        assert!(bomb.len() < 200_000, "{}", bomb.len());
        let (mut unfolder, mut most) = (Unfolder::new(), 0);
        let refused = bomb.chunks(FOLDED_PIECE).find_map(|piece| {
            let look = |bytes: &[u8]| {
                most = most.max(bytes.len());
                Ok::<_, Unfoldable>(())
            };
            unfolder.push(piece, look).err()
        });
        assert_eq!(refused, Some(Unfoldable::Bomb(300)));
        assert!(most <= unfold::PIECE, "{most}");
    }
}
