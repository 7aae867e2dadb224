//! The format and the dimensions of an image, read from its header.

use imagesize::ImageType;

/// Bytes that are enough to distinguish the formats.
const SIGNATURE: usize = 16;

/// A picture, as its own bytes describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picture {
    content_type: &'static str,
    /// Pixels.
    pub width: i32,
    /// Pixels.
    pub height: i32,
}

/// Why some bytes are no picture that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unrecognised {
    /// There are none.
    #[error("is empty")]
    Empty,
    /// They are something else.
    #[error("must be a JPEG, PNG, WebP or GIF; the content of the file is none of these")]
    Format,
    /// Their head breaks off, or contradicts itself.
    #[error("is damaged: its dimensions cannot be read")]
    Damaged,
}

impl Unrecognised {
    /// What is wrong, for programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Empty => "required",
            Self::Format => "unsupported_image",
            Self::Damaged => "damaged_image",
        }
    }
}

impl Picture {
    /// Recognises a picture. The work is bounded by the bytes that are there, not by the dimensions they claim.
    pub fn recognise(bytes: &[u8]) -> Result<Self, Unrecognised> {
        if bytes.is_empty() {
            return Err(Unrecognised::Empty);
        }
        let head = bytes.get(..SIGNATURE).unwrap_or(bytes);
        let content_type = match imagesize::image_type(head) {
            Ok(ImageType::Jpeg) => "image/jpeg",
            Ok(ImageType::Png) => "image/png",
            Ok(ImageType::Webp) => "image/webp",
            Ok(ImageType::Gif) => "image/gif",
            _ => return Err(Unrecognised::Format),
        };
        let size = imagesize::blob_size(bytes).map_err(|_| Unrecognised::Damaged)?;
        let pixels = |n: usize| i32::try_from(n).ok().filter(|n| *n > 0).ok_or(Unrecognised::Damaged);
        Ok(Self { content_type, width: pixels(size.width)?, height: pixels(size.height)? })
    }

    /// Its media type.
    #[must_use]
    pub fn content_type(&self) -> &'static str {
        self.content_type
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIF: &[u8] = b"GIF89a\x03\x00\x02\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00";
    const PNG: &[u8] =
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00";
    const JPEG: &[u8] = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xc0\x00\x11\x08\x00\x02\x00\x03\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01\xff\xd9";
    const WEBP: &[u8] =
        b"RIFF\x1a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x01\x00\x00";

    #[test]
    fn the_format_of_a_picture_is_read_from_its_bytes() {
        for (bytes, content_type) in
            [(GIF, "image/gif"), (PNG, "image/png"), (JPEG, "image/jpeg"), (WEBP, "image/webp")]
        {
            assert_eq!(Picture::recognise(bytes), Ok(Picture { content_type, width: 3, height: 2 }));
        }
    }

    #[test]
    fn other_files_and_cut_heads_are_no_pictures() {
        assert_eq!(Picture::recognise(b""), Err(Unrecognised::Empty));
        for bytes in [&b"<svg xmlns='http://www.w3.org/2000/svg'/>"[..], b"BM\x00\x00", b"%PDF-1.7", b"\0"] {
            assert_eq!(Picture::recognise(bytes), Err(Unrecognised::Format), "{bytes:?}");
        }
        for bytes in [&GIF[..7], &PNG[..20], &JPEG[..20], &WEBP[..20]] {
            assert!(Picture::recognise(bytes).is_err(), "{bytes:?}");
        }
        let mut flat = PNG.to_vec();
        flat[16..20].fill(0);
        assert_eq!(Picture::recognise(&flat), Err(Unrecognised::Damaged));
    }

    #[test]
    fn a_picture_that_would_unfold_to_terabytes_costs_nothing() {
        let mut bomb = PNG.to_vec();
        bomb[16..24].copy_from_slice(b"\x7f\xff\xff\xff\x7f\xff\xff\xff");
        let picture = Picture::recognise(&bomb).unwrap();
        assert_eq!((picture.width, picture.height), (i32::MAX, i32::MAX));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(start in 0..4_usize, tail in prop::collection::vec(any::<u8>(), 0..300), keep in 0..40_usize) {
            let head = [GIF, PNG, JPEG, WEBP][start];
            let bytes = [&head[..keep.min(head.len())], &tail].concat();
            let _ = Picture::recognise(&bytes);
        }
    }
}
