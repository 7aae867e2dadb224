//! What the programs contain that others wrote, under which licences, and the texts that come with it: most licences demand that
//! these go with each copy.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::PROGRAMS;
use crate::place::Place;
use crate::tools;

/// How the names of the files begin that have a licence, or a notice that goes with one.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// What is no crate.
const OTHERS: [(&str, &str, &str); 1] = [("uPlot 1.6.32", "MIT", "api/console/src/asset/uplot")];

/// The text of the file.
pub(crate) fn text(place: &Place) -> anyhow::Result<String> {
    let mut parts = crates(place)?;
    parts.extend(
        OTHERS.map(|(name, licence, folder)| (name.into(), (licence.into(), place.root.join(folder)))),
    );
    let mut list = String::new();
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for (name, (licence, folder)) in &parts {
        let mut files = Vec::new();
        add_files(folder, &mut files)?;
        files.sort();
        let alone = if files.is_empty() { ", without a file of its text" } else { "" };
        writeln!(list, "{name}: {licence}{alone}")?;
        for file in files {
            let of = file.strip_prefix(folder)?.display();
            let text = String::from_utf8_lossy(&fs::read(&file)?).replace('\r', "");
            texts.entry(text.trim_matches('\n').to_owned()).or_default().push(format!("{name} ({of})"));
        }
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(text, of)| (of, text)).collect();
    texts.sort();
    let line = "=".repeat(80);
    let texts: Vec<_> =
        texts.iter().map(|(of, text)| format!("{line}\n{}\n{line}\n\n{text}\n", of.join("\n"))).collect();
    Ok(format!(
        "Longshore's programs contain the standard library of Rust (MIT OR Apache-2.0) and these parts, each under the\n\
         licence that it names. What they say of it follows.\n\n{list}\n{}",
        texts.join("\n")
    ))
}

/// The crates in the programs by name and version, each with its licence and the folder of its source.
fn crates(place: &Place) -> anyhow::Result<BTreeMap<String, (String, PathBuf)>> {
    let sources = tools::cargo_home()?.join("registry/src");
    let sources = fs::read_dir(&sources).with_context(|| sources.display().to_string())?;
    let sources = sources.map(|index| index.map(|index| index.path())).collect::<Result<Vec<_>, _>>()?;
    let mut tree = place.cargo(&[
        "tree",
        "--locked",
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ]);
    let tree =
        tree.args(PROGRAMS.iter().flat_map(|(_, package)| ["-p", package])).output().context("cargo")?;
    ensure!(tree.status.success(), "cargo tree: {}", String::from_utf8_lossy(&tree.stderr));
    let mut crates = BTreeMap::new();
    for line in String::from_utf8(tree.stdout)?.lines() {
        let Some((part, licence)) = line.split_once('|') else { continue };
        let mut words = part.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if words.any(|word| word.contains('/')) {
            // a path: it is ours
            continue;
        }
        let version = version.trim_start_matches('v');
        let folder = format!("{name}-{version}");
        let folder = sources.iter().map(|index| index.join(&folder)).find(|folder| folder.is_dir());
        let folder = folder.with_context(|| format!("there is no source of {part}"))?;
        let licence = licence.trim_end_matches(" (*)").to_owned();
        ensure!(!licence.is_empty(), "{part} names no licence");
        crates.insert(format!("{name} {version}"), (licence, folder));
    }
    Ok(crates)
}

/// Adds the files about licences below a folder: what a crate has of others, such as C, is deeper.
fn add_files(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_dir() {
            add_files(&path, found)?;
        } else if NAMES.iter().any(|start| name.starts_with(start))
            && path.extension().is_none_or(|of| of != "rs")
        {
            found.push(path);
        }
    }
    Ok(())
}
