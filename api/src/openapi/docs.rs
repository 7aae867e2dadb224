//! `/docs`: the API documentation as pages, rendered from the API document and from chapters in Markdown.
//! Every page works without script and loads nothing from elsewhere. The only script is the search.
//!
//! - `chapter`: the guides for newcomers, one file each.
//! - `operation`, `schema`: a page for each operation, each webhook event, and each named schema.
//! - `page`, `layout`, `markdown`, `search`, `asset`: shared by all pages.
//!
//! All names share one namespace, `/docs/{name}`: operations use their id, schemas begin with a capital,
//! assets contain a dot. Each chapter is a line of [`chapter::ALL`].

mod asset;
mod chapter;
mod layout;
mod markdown;
mod operation;
mod page;
mod schema;
mod search;

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use self::operation::Entry;
use self::page::Page;

/// A file under `/docs`.
#[derive(Debug)]
pub struct File {
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub content: Cow<'static, str>,
}

/// The start page.
#[must_use]
pub fn start() -> File {
    page(&chapter::ALL[0].page())
}

/// The file with this name.
#[must_use]
pub fn find(name: &str) -> Option<File> {
    if let Some(asset) = asset::find(name) {
        return Some(asset);
    }
    if let Some(chapter) = chapter::ALL.iter().find(|chapter| chapter.name == name) {
        return Some(page(&chapter.page()));
    }
    if let Some(entry) = SITE.entries.iter().find(|entry| entry.id == name) {
        return Some(page(&entry.page(&SITE)));
    }
    let schema = SITE.document["components"]["schemas"].get(name)?;
    Some(page(&schema::page(&SITE, name, schema)))
}

fn page(page: &Page<'_>) -> File {
    File { media_type: "text/html; charset=utf-8", content: layout::render(&SITE, page).into() }
}

/// The source of the pages.
#[derive(Debug)]
struct Site {
    document: &'static Value,
    /// Operations and webhook events, in the order of their tags.
    entries: Vec<Entry>,
}

static SITE: LazyLock<Site> = LazyLock::new(|| Site::new(super::document()));

impl Site {
    fn new(document: &'static Value) -> Self {
        let mut entries: Vec<Entry> = operation::entries(&document["paths"], false)
            .chain(operation::entries(&document["webhooks"], true))
            .collect();
        let tags: Vec<_> = Self::tags(document).map(|(name, _)| name).collect();
        // stable: within a tag, they keep the order of their paths
        entries.sort_by_key(|entry| tags.iter().position(|tag| *tag == entry.tag));
        Self { document, entries }
    }

    /// Name and description of each tag.
    fn tags(document: &'static Value) -> impl Iterator<Item = (&'static str, &'static str)> {
        elements(&document["tags"]).map(|tag| (text(&tag["name"]), text(&tag["description"])))
    }

    /// The target of a reference, or the value itself.
    fn follow<'v>(&'v self, value: &'v Value) -> &'v Value {
        let reference = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        reference.and_then(|pointer| self.document.pointer(pointer)).unwrap_or(value)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names() -> Vec<&'static str> {
        let chapters = chapter::ALL.iter().map(|chapter| chapter.name);
        let schemas = members(&SITE.document["components"]["schemas"]).map(|(name, _)| name.as_str());
        chapters.chain(SITE.entries.iter().map(|entry| entry.id)).chain(schemas).collect()
    }

    #[test]
    fn every_page_has_a_unique_name() {
        let names = names();
        assert!(names.len() > 250, "{}", names.len());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn every_link_of_every_page_has_a_target() {
        let known: BTreeSet<_> = names().into_iter().collect();
        for name in &known {
            let page = find(name).unwrap().content;
            for link in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                let is_known = match link.strip_prefix("/docs/") {
                    Some(rest) => {
                        let file = rest.split(['?', '#']).next().unwrap();
                        known.contains(file) || asset::find(file).is_some()
                    }
                    None => {
                        ["/docs", "/openapi.json", "#main", "#pages"].contains(&link)
                            || link.starts_with("https://")
                    }
                };
                assert!(is_known, "{link} in {name}");
            }
        }
    }

    #[test]
    fn no_page_has_an_inline_script_or_style() {
        for name in names() {
            let page = find(name).unwrap().content;
            assert!(!page.contains("style=") && !page.contains("<style"), "{name}");
            assert_eq!(
                page.matches("<script").count(),
                page.matches("<script src=\"/docs/").count(),
                "{name}"
            );
        }
    }

    #[test]
    fn an_operation_shows_its_request_and_its_responses() {
        let page = find("list_products").unwrap().content;
        for expected in
            ["/api/product/list", "&quot;limit&quot;: 100", "ProductQuery", "not_acceptable", "curl"]
        {
            assert!(page.contains(expected), "{expected}");
        }
    }

    #[test]
    fn a_body_shows_the_members_of_its_objects_and_of_each_of_its_forms() {
        for (operation, members) in [
            ("create_expedition", ["deliveryStreet", "productSku", "stockAdviceItem"]),
            ("sync_products", ["products", "inventoryId", "workAroundLot"]),
            ("login_admin", ["login", "email", "password"]),
        ] {
            let page = find(operation).unwrap().content;
            let body = page.split("<h2>Body</h2>").nth(1).unwrap().split("<h2>Answers</h2>").next().unwrap();
            for member in members {
                assert!(body.contains(&format!("<td><code>{member}</code>")), "{member} of {operation}");
            }
        }
    }

    #[test]
    fn the_page_of_a_list_shows_an_example_and_its_roles() {
        let page = find("list_products").unwrap().content;
        for expected in ["&quot;results&quot;: [", "&quot;returned&quot;: 1", "Roles: superadmin, admin"] {
            assert!(page.contains(expected), "{expected}");
        }
    }

    #[test]
    fn the_text_comes_before_the_list_of_pages() {
        let page = find("errors").unwrap().content;
        assert!(page.find("<main").unwrap() < page.find("<nav").unwrap());
    }
}
