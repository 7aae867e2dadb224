//! The position in a catalogue, as it is stored between attempts.

use longshore_domain::partner::baselinker::answer;
use longshore_kernel::crypto::Hasher;

use super::NAME;
use crate::partner::PartnerError;

/// Pages of one catalogue; a partner whose list never ends is abandoned after this many.
const MOST_PAGES: u32 = 10_000;

/// Where the next row of a catalogue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Page of the list, from 1.
    pub(super) page: u32,
    /// Rows of the page that are already recorded.
    pub(super) skip: usize,
    /// A fingerprint of the page before it.
    pub(super) before: Option<u64>,
}

impl Default for Cursor {
    fn default() -> Self {
        Self { page: 1, skip: 0, before: None }
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.page, self.skip)?;
        self.before.map_or(Ok(()), |before| write!(f, ":{before}"))
    }
}

impl Cursor {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (page, skip) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let before = parts.next().map(str::parse).transpose().ok()?;
        Some(Self { page, skip, before })
    }

    /// Where the next page of the list begins; `None` after the last.
    pub(super) fn after(self, listed: &answer::Page) -> Result<Option<Self>, PartnerError> {
        let print = fingerprint(listed);
        if listed.is_full() && self.before == Some(print) {
            let sentence = format!("{NAME} keeps returning the same page of its list (page {})", self.page);
            return Err(PartnerError::transient(sentence));
        }
        let goes_on = listed.is_full() && self.page < MOST_PAGES;
        Ok(goes_on.then_some(Self { page: self.page + 1, skip: 0, before: Some(print) }))
    }
}

/// A hash of the ids on a page.
fn fingerprint(page: &answer::Page) -> u64 {
    let mut hasher = Hasher::default();
    for product in &page.products {
        match product {
            Ok(listed) => hasher.update(&listed.id.to_be_bytes()),
            Err(broken) => hasher.update(broken.key.as_bytes()),
        }
    }
    hasher.finish().first_chunk::<8>().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back() {
        for cursor in [Cursor::default(), Cursor { page: 7, skip: 1000, before: Some(u64::MAX) }] {
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }
        for text in ["", "1", "x:1", "1:2:x"] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }
}
