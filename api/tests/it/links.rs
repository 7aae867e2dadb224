//! Links between the pages of the product, and from code to pages: each names an existing file and heading.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Extensions of the files to read; `dev` has none.
const EXTENSIONS: &[&str] = &["js", "md", "mjs", "py", "rs", "sh", "sql", "toml", "ts", "yml"];

/// Folders of builds and package managers.
const BUILT: &[&str] = &["node_modules", "target"];

/// Documents that readers do not have. Applied migrations keep their text.
const PAPERS: &[&str] = &[concat!("decisions", ", section"), concat!("specification", ", part")];

fn root() -> PathBuf {
    normal(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")))
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && !BUILT.contains(&name.as_str()) {
                files(&path, found);
            }
        } else if name == "dev"
            || path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
        {
            found.push(path);
        }
    }
}

/// The lines of a page outside code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

/// The anchors that GitHub creates for the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for heading in prose(page).filter(|line| line.starts_with('#')) {
        let slug: String = heading
            .trim_start_matches('#')
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let numbered = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

/// The pages that a text names by their path from the root, each with its heading, if any.
fn citations(text: &str) -> Vec<&str> {
    let part_of_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let mut found = Vec::new();
    for (start, _) in text.match_indices("docs/") {
        if text[..start].ends_with(part_of_path) {
            continue;
        }
        let rest = &text[start..];
        let path = &rest[..rest.find(|c| !part_of_path(c)).unwrap_or(rest.len())];
        let Some(end) = path.find(".md") else { continue };
        let after = &rest[end + ".md".len()..];
        let anchor = after.strip_prefix('#').map_or(0, |anchor| {
            1 + anchor.find(|c: char| !c.is_alphanumeric() && !"-_".contains(c)).unwrap_or(anchor.len())
        });
        found.push(&rest[..end + ".md".len() + anchor]);
    }
    found
}

/// Targets of the Markdown links of a page to other files of the tree, or to its own headings.
fn links(page: &str) -> Vec<&str> {
    prose(page)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .filter(|target| !target.is_empty() && !target.starts_with('/') && !target.contains(':'))
        .collect()
}

/// What is wrong with a target, which is relative to `folder`, or without a path in `page`.
fn fault(folder: &Path, page: &Path, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() { page.to_owned() } else { normal(&folder.join(path)) };
    if !file.exists() {
        return Some(format!("{target}: there is no such file"));
    }
    let anchor = anchor?;
    let headings = anchors(&fs::read_to_string(&file).unwrap());
    (!headings.contains(anchor)).then(|| format!("{target}: the page has no such heading"))
}

/// Checks a file: the number of its links and citations, and the faults.
fn check(root: &Path, file: &Path, text: &str) -> (usize, Vec<String>) {
    let is_page = file.extension().is_some_and(|extension| extension == "md");
    let mut faults = Vec::new();
    let mut checked = 0;
    for target in citations(text) {
        checked += 1;
        faults.extend(fault(root, file, target));
        if !is_page && target.starts_with("docs/reference/") && !target.contains('#') {
            faults.push(format!("{target}: code names the heading, too"));
        }
    }
    for target in if is_page { links(text) } else { Vec::new() } {
        checked += 1;
        faults.extend(fault(file.parent().unwrap(), file, target));
    }
    let cited = PAPERS.iter().filter(|paper| text.contains(**paper));
    faults.extend(cited.map(|paper| format!("cites a paper that readers do not have ({paper})")));
    let name = file.strip_prefix(root).unwrap_or(file).display();
    (checked, faults.into_iter().map(|fault| format!("{name}: {fault}")).collect())
}

#[test]
fn every_link_to_a_page_names_a_file_and_a_heading_that_exist() {
    let root = root();
    let mut found = Vec::new();
    files(&root, &mut found);
    let (mut checked, mut faults) = (0, Vec::new());
    for file in found {
        let (links, wrong) = check(&root, &file, &fs::read_to_string(&file).unwrap());
        checked += links;
        faults.extend(wrong);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(checked > 200, "only {checked} links were found");
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_a_fault() {
    let root = root();
    let faults = |name: &str, text: &str| check(&root, &root.join(name), text).1.len();
    let page = concat!("docs/", "reference/lists.md");
    for (name, text, expected) in [
        ("api/src/lib.rs", format!("//! Lists ({page}#paths)."), 0),
        ("api/src/lib.rs", format!("//! Lists ({page}#path)."), 1),
        ("api/src/lib.rs", format!("//! Lists ({page})."), 1),
        ("api/src/lib.rs", concat!("//! docs/", "reference/list.md#paths").to_owned(), 1),
        ("api/src/lib.rs", format!("//! Lists ({} 1).", PAPERS[0]), 1),
        ("docs/limits.md", "[paths](reference/lists.md#paths) [here](#webhooks)".to_owned(), 0),
        ("docs/limits.md", "[paths](reference/lists.md#path) [here](#web-hooks)".to_owned(), 2),
        ("docs/limits.md", "[lists](lists.md)".to_owned(), 1),
        ("docs/limits.md", "```text\n[lists](lists.md)\n```".to_owned(), 0),
    ] {
        assert_eq!(faults(name, &text), expected, "{name}: {text}");
    }
}

#[test]
fn anchors_of_headings_are_those_of_github() {
    let page = "# A `word`, and more\n## Two\n```\n# no heading\n```\n## Two\n### What_is-it?\n";
    let expected = ["a-word-and-more", "two", "two-1", "what_is-it"];
    assert_eq!(anchors(page), expected.into_iter().map(str::to_owned).collect());
}

#[test]
fn the_api_document_cites_no_page() {
    let document = fs::read_to_string(root().join("api/openapi.json")).unwrap();
    assert!(!document.contains(concat!("docs/", "reference")) && citations(&document).is_empty());
    assert!(PAPERS.iter().all(|paper| !document.contains(paper)));
}
