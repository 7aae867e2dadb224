//! To find that a crate has no examples to run, rustdoc expands all of it. So a crate says `doctest = false` where that is so, and nowhere
//! else: an example that is not run is wrong one day.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::fs;
use std::path::Path;

/// The languages of blocks that are no examples.
const OTHER: &[&str] = &["text", "sql", "json", "ignore"];

/// The lines that begin an example in what is documented.
fn examples(source: &str) -> Vec<&str> {
    let documented =
        source.lines().map(str::trim).filter(|line| line.starts_with("//!") || line.starts_with("///"));
    let fences = documented.filter(|line| line[3..].trim_start().starts_with("```"));
    // of each pair, the first
    fences
        .step_by(2)
        .filter(|line| !OTHER.contains(&line[3..].trim_start().trim_start_matches('`')))
        .collect()
}

fn examples_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(examples_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            found.extend(examples(&source).into_iter().map(|line| format!("{}: {line}", path.display())));
            if source.contains("#![doc = include_str!") {
                found.push(format!("{}: a file", path.display()));
            }
        }
    }
    found
}

#[test]
fn the_examples_of_a_crate_are_run_if_it_has_any() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    let (mut run, mut not_run) = (0, 0);
    for member in members.split('"').skip(1).step_by(2) {
        let folder = root.join(member);
        if !folder.join("src/lib.rs").exists() {
            continue;
        }
        let found = examples_below(&folder.join("src"));
        let runs = !fs::read_to_string(folder.join("Cargo.toml")).unwrap().contains("doctest = false");
        assert_eq!(
            runs,
            !found.is_empty(),
            "{member}: `doctest = false` in its [lib] belongs to a crate without examples: {found:?}"
        );
        *if runs { &mut run } else { &mut not_run } += 1;
    }
    assert!(run > 0 && not_run > 0);
}

#[test]
fn an_example_is_a_block_that_is_of_no_other_language() {
    let source = "//! ```text\n//! a\n//! ```\n/// ```\n/// assert!(true);\n/// ```\nfn f() {}\n//! ```rust,no_run\n//! ```";
    assert_eq!(examples(source), ["/// ```", "//! ```rust,no_run"]);
}
