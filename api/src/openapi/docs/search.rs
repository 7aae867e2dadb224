//! The search index of the script: an entry for each page, with every word to search for.

use serde_json::{Value, json};

use super::{Site, chapter, members, text};

/// The index as JSON: URL, title, a line below it, and further words in lowercase.
pub(super) fn index(site: &Site) -> String {
    let of = |name: &str, title: &str, line: &str, words: &[&str]| {
        json!([format!("/docs/{name}"), title, line, words.join(" ").to_lowercase()])
    };
    let chapters =
        chapter::ALL.iter().map(|chapter| of(chapter.name, chapter.title, "Chapter", &[chapter.text]));
    let operations = site.entries.iter().map(|entry| {
        let line = format!("{} {}", entry.method, entry.path);
        of(entry.id, entry.summary, &line, &[entry.id, entry.tag, text(&entry.operation["description"])])
    });
    let schemas = members(&site.document["components"]["schemas"]).map(|(name, schema)| {
        let fields: Vec<_> = members(&schema["properties"]).map(|(field, _)| field.as_str()).collect();
        of(name, name, "Schema", &[text(&schema["description"]), &fields.join(" ")])
    });
    Value::Array(chapters.chain(operations).chain(schemas).collect()).to_string()
}
