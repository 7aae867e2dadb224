//! What a newcomer reads, in order. `./dev test` runs the commands of the chapters.

use maud::Markup;

use super::layout::Page;
use super::markdown;

#[derive(Debug)]
pub(super) struct Chapter {
    /// Its name in addresses.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// In Markdown; it begins with its title.
    pub(super) text: &'static str,
}

/// Every chapter; the first one is what `/docs` shows.
pub(super) const ALL: [Chapter; 7] = [
    Chapter { name: "start", title: "Start", text: include_str!("chapter/start.md") },
    Chapter { name: "access", title: "Access", text: include_str!("chapter/access.md") },
    Chapter { name: "lists", title: "Lists", text: include_str!("chapter/lists.md") },
    Chapter { name: "errors", title: "Errors", text: include_str!("chapter/errors.md") },
    Chapter { name: "jobs", title: "Jobs", text: include_str!("chapter/jobs.md") },
    Chapter { name: "webhooks", title: "Webhooks", text: include_str!("chapter/webhooks.md") },
    Chapter { name: "glossary", title: "Glossary", text: include_str!("../../../docs/glossary.md") },
];

impl Chapter {
    pub(super) fn page(&self) -> Page<'_> {
        let content: Markup = markdown::render(self.text);
        Page { name: self.name, title: self.title, tag: "", content }
    }
}
