//! `lines`: how much Rust each crate has, tests apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, ensure};

use crate::place::Place;

/// The lines of a crate. Comments and blank lines count among `lines`, not among `code`.
#[derive(Default)]
struct Count {
    files: usize,
    lines: usize,
    code: usize,
    tests: usize,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.lines += other.lines;
        self.code += other.code;
        self.tests += other.tests;
    }
}

/// Prints the lines of each crate, and their sum.
pub(crate) fn lines(place: &Place) -> anyhow::Result<()> {
    let crates: BTreeSet<String> = tracked(place, "*Cargo.toml")?
        .into_iter()
        .filter_map(|manifest| manifest.strip_suffix("/Cargo.toml").map(str::to_owned))
        .collect();
    let mut texts = BTreeMap::new();
    for path in tracked(place, "*.rs")? {
        // one that was deleted, but not committed yet, is tracked
        if let Ok(text) = fs::read_to_string(place.root.join(&path)) {
            texts.insert(path, text);
        }
    }
    let only_tests: BTreeSet<String> =
        texts.iter().flat_map(|(path, text)| files_of_tests(path, text)).collect();
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    let mut sum = Count::default();
    for (path, text) in &texts {
        let owner = crates.iter().filter(|owner| path.starts_with(&format!("{owner}/")));
        let owner =
            owner.max_by_key(|owner| owner.len()).with_context(|| format!("{path} is in no crate"))?;
        let count = count(text, path.contains("/tests/") || only_tests.contains(path));
        counts.entry(owner).or_default().add(&count);
        sum.add(&count);
    }
    println!("{:<18}{:>7}{:>9}{:>9}{:>9}", "crate", "files", "lines", "code", "tests");
    for (name, count) in counts.into_iter().chain([("sum", sum)]) {
        println!("{name:<18}{:>7}{:>9}{:>9}{:>9}", count.files, count.lines, count.code, count.tests);
    }
    Ok(())
}

fn tracked(place: &Place, pattern: &str) -> anyhow::Result<Vec<String>> {
    let listed = place.command("git").args(["ls-files", pattern]).output().context("git ls-files")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim());
    Ok(String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect())
}

/// The modules of a file that are compiled for tests only and have files of their own.
fn files_of_tests<'t>(path: &'t str, text: &'t str) -> impl Iterator<Item = String> + 't {
    let folder = path.trim_end_matches("/lib.rs").trim_end_matches(".rs");
    let pairs = text.lines().zip(text.lines().skip(1));
    let modules = pairs.filter(|(line, _)| *line == "#[cfg(test)]").filter_map(|(_, next)| {
        next.trim_start_matches("pub(crate) ").strip_prefix("mod ").and_then(|name| name.strip_suffix(';'))
    });
    modules.map(move |name| format!("{folder}/{name}.rs"))
}

/// The lines of a file; those from its module `tests` on are tests.
fn count(text: &str, is_test: bool) -> Count {
    let mut count = Count::default();
    let mut in_tests = is_test;
    if !is_test {
        count.files = 1;
    }
    for line in text.lines() {
        in_tests |= line == "mod tests {";
        let line = line.trim();
        if in_tests {
            count.tests += 1;
        } else {
            count.lines += 1;
            count.code += usize::from(!line.is_empty() && !line.starts_with("//"));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_of_tests_and_files_of_tests_are_not_counted_as_code() {
        let text = "//! About it.\n\nfn one() {}\n\n#[cfg(test)]\nmod tests {\n    fn two() {}\n}\n";
        let counted = count(text, false);
        assert_eq!((counted.files, counted.lines, counted.code, counted.tests), (1, 5, 2, 3));
        let counted = count(text, true);
        assert_eq!((counted.files, counted.lines, counted.code, counted.tests), (0, 0, 0, 8));
        let text = "mod a;\n#[cfg(test)]\nmod model;\n#[cfg(test)]\nmod tests {\n";
        assert_eq!(files_of_tests("x/src/fold.rs", text).collect::<Vec<_>>(), ["x/src/fold/model.rs"]);
    }
}
