//! The rooms (the modules at the top of the crate) stand on floors, and a room imports only from below: so each can be read
//! without what stands above it, and no circle of rooms comes about. `src/lib.rs` says what each of them is for.

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors, the lowest first. Rooms of one floor do not import each other.
const FLOORS: &[&[&str]] = &[
    &["platform"],
    &["list"],
    &["record"],
    &["job"],
    &["account"],
    &["catalog", "partner", "shipping", "warehouse", "webhook"],
    &["operate"],
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files of Rust below a folder, each with its text, without comments.
fn files(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            found.push((path, code.collect::<Vec<_>>().join("\n")));
        }
    }
}

fn name(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// What follows each `before` of a text.
fn after<'t>(text: &'t str, before: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(before).map(|(at, _)| &text[at + before.len()..])
}

/// The names right after each `crate::`, those in braces included.
fn imported(code: &str) -> impl Iterator<Item = &str> {
    after(code, "crate::").flat_map(|path| match path.strip_prefix('{') {
        None => vec![name(path)],
        Some(group) => {
            let group = group.split('}').next().unwrap_or_default();
            assert!(!group.contains('{'), "one `use` for each room: crate::{{{group}}}");
            group.split(',').map(|part| name(part.trim_start())).filter(|name| !name.is_empty()).collect()
        }
    })
}

/// Which room imports from which, each with a file that does.
fn arrows() -> BTreeMap<(String, String), PathBuf> {
    let source = source();
    let mut all = Vec::new();
    files(&source, &mut all);
    let room = |path: &Path| {
        let first = path.strip_prefix(&source).unwrap().iter().next().unwrap();
        Path::new(first).file_stem().unwrap().to_str().unwrap().to_owned()
    };
    // a macro is named at the top of the crate, and belongs to the room that writes it
    let mut home: BTreeMap<&str, String> = BTreeMap::new();
    for (path, code) in &all {
        for exported in after(code, "#[macro_export]") {
            home.extend(after(exported, "macro_rules! ").next().map(|made| (name(made), room(path))));
        }
    }
    let mut arrows = BTreeMap::new();
    for (path, code) in &all {
        let from = room(path);
        for to in imported(code) {
            let to = home.get(to).cloned().unwrap_or_else(|| to.to_owned());
            if to != from && from != "lib" {
                arrows.insert((from.clone(), to), path.clone());
            }
        }
    }
    arrows
}

#[test]
fn a_room_imports_only_from_lower_floors() {
    let lib = fs::read_to_string(source().join("lib.rs")).unwrap();
    let rooms: BTreeSet<&str> = after(&lib, "\npub mod ").map(name).collect();
    let floors: BTreeMap<&str, usize> = FLOORS
        .iter()
        .enumerate()
        .flat_map(|(floor, rooms)| rooms.iter().map(move |room| (*room, floor)))
        .collect();
    assert_eq!(rooms, floors.keys().copied().collect(), "each room has one floor");

    let arrows = arrows();
    let mut wrong = Vec::new();
    for ((from, to), file) in &arrows {
        let (from, to) = (from.as_str(), to.as_str());
        let floor = floors.get(to).unwrap_or_else(|| panic!("{to} is no room: {}", file.display()));
        if floors[from] <= *floor {
            wrong.push(format!("{from} may not import from {to}: {}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
