//! The rooms of a crate (the modules at its top) form no circle, and those of the domain stand on floors: a room imports
//! only from below, so each can be read without what is above it. `src/lib.rs` says what each of them is for.
//!
//! Files form as few circles as possible ([`CIRCLES`] has those that are left). A file has an arrow to another one if its code,
//! tests aside, names an item of that by a path; a re-export is followed to the file that it is of. A circle is several files
//! each of which leads to each other one. A file that is above all others of a circle, as `lane.rs` is above `lane/`, is taken
//! out of it, and what is left is looked at again: a parent may name what is below it and be named there, but a circle that
//! only passes through it, or that leaves its folder, counts whole.

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
    "shared/http-time",
    "shared/serve",
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

/// The circles of files that are left, by the folder of their crate. The list may only shrink.
const CIRCLES: &[(&str, &str)] = &[
    // an object is read by rules, and is one itself
    ("shared/kernel", "input/object input/rule"),
    // the tables of fields name each other as their records do
    ("shared/domain", "list/fields/carrier list/fields/service"),
    ("shared/domain", "list/fields/expedition list/fields/expedition_item"),
    (
        "shared/domain",
        "list/fields/eshop list/fields/organisation list/fields/supplier list/fields/warehouse list/fields/wms",
    ),
    // an order is written with its hand-over, which is a step of that writing
    ("shared/domain", "expedition/handover expedition/write"),
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

/// A file by its place below `src`: `webhook`, `lane`. The root of a crate is at none.
type Place<'t> = Vec<&'t str>;

/// The paths that a file names, and what it imports, by the name that this has in it.
#[derive(Default)]
struct File<'t> {
    paths: Vec<Place<'t>>,
    imports: BTreeMap<&'t str, Place<'t>>,
}

struct Crate<'t>(BTreeMap<Place<'t>, File<'t>>);

impl<'t> Crate<'t> {
    fn read(source: &Path, all: &'t [(PathBuf, String)]) -> Self {
        let segments = |path: &'t str| path.split("::").map(str::trim).filter(|part| !part.is_empty());
        let mut read = Self(BTreeMap::from([(Vec::new(), File::default())]));
        for (path, code) in all {
            let inside = path.strip_prefix(source).unwrap();
            let parts = inside.parent().unwrap().iter().chain(inside.file_stem());
            let mut place: Place<'_> = parts.map(|part| part.to_str().unwrap()).collect();
            place.retain(|part| !["lib", "main"].contains(part));
            for made in code
                .split("#[macro_export]")
                .skip(1)
                .filter_map(|exported| after(exported, "macro_rules! ").next())
            {
                let home = place.iter().copied().chain([name(made)]).collect();
                read.0.entry(Vec::new()).or_default().imports.insert(name(made), home);
            }
            let file = read.0.entry(place).or_default();
            let words = code.split(|c: char| !c.is_alphanumeric() && !"_:$".contains(c));
            let named = words.filter(|word| word.contains("::") && !word.starts_with(':'));
            file.paths.extend(named.map(|path| segments(path).collect()));
            for import in code.split(';').filter_map(|statement| after(statement, "use ").last()) {
                let (head, group) = import.split_once('{').unwrap_or(("", import));
                for leaf in group.trim_end_matches('}').split(',').filter(|leaf| !leaf.trim().is_empty()) {
                    let (path, alias) = leaf.split_once(" as ").unwrap_or((leaf, ""));
                    let mut path: Place<'_> = segments(head).chain(segments(path)).collect();
                    path.pop_if(|last| *last == "self");
                    let alias =
                        [alias.trim()].into_iter().find(|alias| !alias.is_empty()).or(path.last().copied());
                    file.imports.extend(alias.map(|alias| (alias, path.clone())));
                    file.paths.push(path);
                }
            }
        }
        read
    }

    /// A path in a file as it is from the root; nothing if it leads out of the crate.
    fn rooted(&self, file: &[&'t str], path: &[&'t str]) -> Option<Place<'t>> {
        let up = path.iter().take_while(|part| **part == "super").count();
        let (first, rest) = path.split_first()?;
        Some(match *first {
            "super" => [&file[..file.len().checked_sub(up)?], &path[up..]].concat(),
            "crate" | "$crate" => rest.to_vec(),
            "self" => [file, rest].concat(),
            _ if self.0.contains_key(&[file, &[*first]].concat()) => [file, path].concat(),
            _ => {
                let import = self.0.get(file)?.imports.get(first).filter(|import| import[0] != *first)?;
                [&self.rooted(file, import)?, rest].concat()
            }
        })
    }

    /// The file of the item that a path from the root names, after all re-exports; nothing if it names a module.
    fn home(&self, path: &[&'t str]) -> Option<Place<'t>> {
        let depth = (0..=path.len()).take_while(|depth| self.0.contains_key(&path[..*depth])).last()?;
        let (file, item) = (&path[..depth], path.get(depth)?);
        let import = self.0[file].imports.get(item).and_then(|import| self.rooted(file, import));
        match import.map(|import| [&import, &path[depth + 1..]].concat()).filter(|further| further != path) {
            Some(further) => self.home(&further),
            None => Some(file.to_vec()),
        }
    }

    /// The circles among some of the files.
    fn circles(&self, among: &BTreeSet<Place<'t>>) -> Vec<BTreeSet<Place<'t>>> {
        let arrows = |from: &Place<'t>| -> BTreeSet<Place<'t>> {
            let named = self.0[from].paths.iter().filter_map(|path| self.home(&self.rooted(from, path)?));
            named.filter(|to| to != from && among.contains(to)).collect()
        };
        let arrows: BTreeMap<_, _> = among.iter().map(|file| (file, arrows(file))).collect();
        let reached = |from| {
            let (mut found, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(file) = next.pop() {
                next.extend(arrows[file].iter().filter(|to| found.insert(*to)));
            }
            found
        };
        let reached: BTreeMap<_, _> = among.iter().map(|file| (file, reached(file))).collect();
        let around =
            |file| reached[file].iter().filter(|to| reached[*to].contains(file)).map(|to| (*to).clone());
        let circles: BTreeSet<BTreeSet<_>> = among.iter().map(|file| around(file).collect()).collect();
        let open = |mut circle: BTreeSet<Place<'t>>| match circle
            .iter()
            .find(|file| circle.iter().all(|other| other.starts_with(file)))
            .cloned()
        {
            Some(above) => {
                circle.remove(&above);
                self.circles(&circle)
            }
            None => vec![circle],
        };
        circles.into_iter().filter(|circle| circle.len() > 1).flat_map(open).collect()
    }
}

/// The circles of files of a crate, each with the names of its files.
fn circles(source: &Path, all: &[(PathBuf, String)]) -> BTreeSet<String> {
    let read = Crate::read(source, all);
    let named =
        |circle: &BTreeSet<Place<'_>>| circle.iter().map(|file| file.join("/")).collect::<Vec<_>>().join(" ");
    read.circles(&read.0.keys().cloned().collect()).iter().map(named).collect()
}

#[test]
fn the_circles_of_files_are_those_that_are_listed() {
    for folder in CRATES {
        let (source, mut all) = (root().join(folder).join("src"), Vec::new());
        files(&source, &mut all);
        let listed =
            CIRCLES.iter().filter(|(of, _)| of == folder).map(|(_, circle)| (*circle).to_owned()).collect();
        assert_eq!(circles(&source, &all), listed, "in {folder}, left what is there, right what is listed");
    }
}

#[test]
fn a_circle_of_files_is_found_but_for_a_parent_that_is_in_its_children() {
    let found = |codes: &[(&str, &str)]| {
        let all: Vec<_> =
            codes.iter().map(|(file, code)| (PathBuf::from(file), (*code).to_owned())).collect();
        circles(Path::new(""), &all).len()
    };
    let parent = ("a.rs", "pub use self::b::{X, Z as Y}; fn f() { b::g() }");
    assert_eq!(found(&[parent, ("a/b.rs", "super::f()"), ("c.rs", "use crate::a; a::Y::new()")]), 0);
    assert_eq!(
        found(&[parent, ("a/b.rs", "use crate::{c}; c::f()"), ("c.rs", "use crate::a; a::Y::new()")]),
        1
    );
    assert_eq!(found(&[parent, ("a/b.rs", "crate::c::f()"), ("c.rs", "super::a::f()")]), 1);
}
