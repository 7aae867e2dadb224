//! The layout of every page.

use maud::{DOCTYPE, html};

use super::page::Page;
use super::{Site, chapter};

pub(super) fn render(site: &Site, page: &Page<'_>) -> String {
    let here = |name: &str| (name == page.name).then_some("page");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.title) " – Longshore API" }
                link rel="icon" href="/docs/icon.svg";
                link rel="stylesheet" href="/docs/docs.css";
                script src="/docs/docs.js" defer {}
            }
            body {
                a.skip href="#main" { "To the content" }
                header {
                    a.brand href="/docs" { img src="/docs/icon.svg" alt="" width="20" height="20"; "Longshore API" }
                    // shown by the script, without which it does not work
                    form #search role="search" hidden {
                        label.unseen for="words" { "Search the documentation" }
                        input #words type="search" placeholder="Search (press /)" autocomplete="off" spellcheck="false";
                        section #found aria-label="Search results" aria-live="polite" {}
                    }
                    a.pages href="#pages" { "All pages" }
                    a.document href="/openapi.json" { "openapi.json" }
                }
                main #main { (page.content) }
                nav #pages aria-label="Chapters and operations" {
                    ul {
                        @for chapter in chapter::ALL {
                            li { a href={ "/docs/" (chapter.name) } aria-current=[here(chapter.name)] { (chapter.title) } }
                        }
                    }
                    @for (tag, about) in Site::tags(site.document) {
                        details open[tag == page.tag] {
                            summary title=(about) { (tag) }
                            ul {
                                @for entry in site.entries.iter().filter(|entry| entry.tag == tag) {
                                    li { a href={ "/docs/" (entry.id) } aria-current=[here(entry.id)] { (entry.summary) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    .into_string()
}
