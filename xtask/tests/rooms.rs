//! The rooms of a crate (the modules at its top) form no circle, and those of the domain stand on floors: a room imports
//! only from below, so each can be read without what is above it. `src/lib.rs` says what each of them is for.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors of the domain, the lowest first. Rooms of one floor do not import each other.
const FLOORS: &[&[&str]] = &[
    &["list"],
    &["record"],
    &["job"],
    &["account", "calling"],
    &["catalog", "partner", "shipping", "warehouse", "webhook"],
    &["expedition"],
    &["standing"],
    &["attention"],
];

/// Every crate of the workspace, by its folder.
const CRATES: &[&str] = &[
    "shared/kernel",
    "shared/domain",
    "shared/operate",
    "api",
    "api/cli",
    "api/client",
    "api/console",
    "api/http",
    "worker",
    "bench",
    "bench/demo",
    "bench/stack",
    "bench/testkit",
    "xtask",
];

/// Imports from one room to another, each with a file that has it.
type Arrows = BTreeMap<(String, String), PathBuf>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of Rust below a folder, each with its code: without comments, and without the tests at its end.
fn files(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            let code = code.take_while(|line| *line != "mod tests {").collect::<Vec<_>>();
            found.push((path, code.join("\n")));
        }
    }
}

fn name(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// What follows each `before` of a text, where `before` does not continue a name or a path.
fn after<'t>(text: &'t str, before: &'t str) -> impl Iterator<Item = &'t str> {
    let in_a_path = |at: usize| text[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
    text.match_indices(before)
        .filter(move |(at, _)| !in_a_path(*at))
        .map(|(at, _)| &text[at + before.len()..])
}

/// The names at the beginning of a path, those in braces included.
fn heads(path: &str) -> Vec<&str> {
    match path.strip_prefix('{') {
        None => vec![name(path)],
        Some(group) => {
            let group = group.split('}').next().unwrap_or_default();
            assert!(!group.contains('{'), "one `use` for each room: {{{group}}}");
            group.split(',').map(|part| name(part.trim_start())).filter(|name| !name.is_empty()).collect()
        }
    }
}

/// What the code of a file imports from the top of its crate, by `crate::` or by the `super::`s that lead there.
fn imported<'t>(code: &'t str, supers: &'t str) -> Vec<&'t str> {
    after(code, "crate::").chain(after(code, supers)).flat_map(heads).collect()
}

/// The rooms of a crate, and the arrows between them.
fn read(folder: &str) -> (BTreeSet<String>, Arrows) {
    let source = root().join(folder).join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    let modules = |path: &Path| -> Vec<String> {
        let inside = path.strip_prefix(&source).unwrap().with_extension("");
        inside.iter().map(|part| part.to_str().unwrap().to_owned()).collect()
    };
    let rooms: BTreeSet<String> = all
        .iter()
        .map(|(path, _)| modules(path).swap_remove(0))
        .filter(|room| room != "lib" && room != "main")
        .collect();
    // A macro is named at the top of its crate, and belongs to the room that defines it.
    let mut home: BTreeMap<&str, String> = BTreeMap::new();
    for (path, code) in &all {
        for exported in after(code, "#[macro_export]") {
            let made = after(exported, "macro_rules! ").next();
            home.extend(made.map(|made| (name(made), modules(path).swap_remove(0))));
        }
    }
    let mut arrows = Arrows::new();
    for (path, code) in &all {
        let modules = modules(path);
        let supers = "super::".repeat(modules.len());
        for to in imported(code, &supers) {
            let (from, to) = (modules[0].clone(), home.get(to).cloned().unwrap_or_else(|| to.to_owned()));
            if to != from && rooms.contains(&from) && rooms.contains(&to) {
                arrows.insert((from, to), path.clone());
            }
        }
    }
    (rooms, arrows)
}

/// The arrows of circles: what is left when rooms that import nothing, or that nothing imports, are taken away, again and
/// again.
fn in_circles(mut arrows: Arrows) -> Arrows {
    loop {
        let importing: BTreeSet<String> = arrows.keys().map(|(from, _)| from.clone()).collect();
        let imported: BTreeSet<String> = arrows.keys().map(|(_, to)| to.clone()).collect();
        let before = arrows.len();
        arrows.retain(|(from, to), _| importing.contains(to) && imported.contains(from));
        if arrows.len() == before {
            return arrows;
        }
    }
}

fn shown(arrows: &Arrows) -> Vec<String> {
    arrows.iter().map(|((from, to), file)| format!("{from} imports {to}: {}", file.display())).collect()
}

#[test]
fn no_crate_has_a_circle_of_rooms() {
    let circles: Vec<String> = CRATES.iter().flat_map(|folder| shown(&in_circles(read(folder).1))).collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn every_crate_of_the_workspace_is_looked_at() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let members: BTreeSet<&str> = members.split('"').skip(1).step_by(2).collect();
    assert_eq!(members, CRATES.iter().copied().collect());
}

#[test]
fn a_circle_is_found() {
    let arrows = |pairs: &[(&str, &str)]| -> Arrows {
        pairs.iter().map(|(from, to)| (((*from).to_owned(), (*to).to_owned()), PathBuf::new())).collect()
    };
    assert!(in_circles(arrows(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    assert_eq!(in_circles(arrows(&[("a", "b"), ("b", "c"), ("c", "b")])).len(), 2);
}

#[test]
fn imports_are_found_in_each_of_their_forms() {
    let code = "use crate::list::Field;\nuse super::job;\nuse super::super::far;\n\
                pub(crate) use crate::{record, webhook::Event};\n$crate::account::x(); other_crate::catalog::y()";
    let found: BTreeSet<&str> = imported(code, "super::").into_iter().collect();
    assert_eq!(found, BTreeSet::from(["account", "job", "list", "record", "super", "webhook"]));
}

#[test]
fn a_room_of_the_domain_imports_only_from_lower_floors() {
    let (rooms, arrows) = read("shared/domain");
    let floors: BTreeMap<&str, usize> = FLOORS
        .iter()
        .enumerate()
        .flat_map(|(floor, rooms)| rooms.iter().map(move |room| (*room, floor)))
        .collect();
    assert_eq!(rooms.iter().map(String::as_str).collect::<BTreeSet<_>>(), floors.keys().copied().collect());
    let is_upwards = |from: &str, to: &str| floors[from] <= floors[to];
    let upwards: Arrows = arrows.into_iter().filter(|((from, to), _)| is_upwards(from, to)).collect();
    assert!(upwards.is_empty(), "{}", shown(&upwards).join("\n"));
}
