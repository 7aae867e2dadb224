//! The guides for newcomers, in order. `./dev test` runs their commands.

use maud::Markup;

use super::markdown;
use super::page::Page;

#[derive(Debug)]
pub(super) struct Chapter {
    /// Its name in URLs.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Markdown that begins with the title.
    pub(super) text: &'static str,
}

/// All chapters; `/docs` shows the first.
pub(super) const ALL: [Chapter; 8] = [
    Chapter { name: "start", title: "Start", text: include_str!("chapter/start.md") },
    Chapter { name: "access", title: "Access", text: include_str!("chapter/access.md") },
    Chapter { name: "lists", title: "Lists", text: include_str!("chapter/lists.md") },
    Chapter { name: "errors", title: "Errors", text: include_str!("chapter/errors.md") },
    Chapter { name: "jobs", title: "Jobs", text: include_str!("chapter/jobs.md") },
    Chapter { name: "orders", title: "Orders", text: include_str!("chapter/orders.md") },
    Chapter { name: "webhooks", title: "Webhooks", text: include_str!("chapter/webhooks.md") },
    Chapter { name: "glossary", title: "Glossary", text: include_str!("../../../../docs/glossary.md") },
];

impl Chapter {
    pub(super) fn page(&self) -> Page<'_> {
        let content: Markup = markdown::render(self.text);
        Page { name: self.name, title: self.title, tag: "", content }
    }
}
