//! A page, as the layout gets it.

use maud::Markup;

/// A page without the layout.
#[derive(Debug)]
pub(super) struct Page<'p> {
    /// Its name in URLs.
    pub(super) name: &'p str,
    pub(super) title: &'p str,
    /// The tag of the page, if any.
    pub(super) tag: &'p str,
    pub(super) content: Markup,
}
