//! `upgrade`: an earlier version is upgraded to this one and rolled back, under load (`docs/upgrades.md`).
//! The earlier one is built in a worktree and a target folder of its own, both in `.dev/upgrade`; the next run begins with them.

use std::fs;

use anyhow::{Context as _, ensure};

use crate::place::{DEV, Place};
use crate::run::{self, step};
use crate::scratch::Folder;

/// Upgrades the version of a tag, or of another reference of git.
pub(crate) fn upgrade(place: &Place, version: &str, from: Option<&str>) -> anyhow::Result<()> {
    let from = from.unwrap_or(version);
    let mut parse = place.command("git");
    let parsed = parse.args(["rev-parse", "--verify", "--quiet", &format!("{from}^{{commit}}")]).output();
    let parsed = parsed.context("git")?;
    ensure!(parsed.status.success(), "git knows no {from}");
    let commit = String::from_utf8_lossy(&parsed.stdout).trim().to_owned();

    step(&format!("Building {from}, which is {commit} (the first time takes minutes)"));
    let folder = place.dev.join("upgrade");
    let (tree, target) = (folder.join("tree"), folder.join("target"));
    fs::create_dir_all(&folder)?;
    let mut git = place.command("git");
    if tree.exists() {
        git.arg("-C").arg(&tree).args(["checkout", "--quiet", "--force", "--detach", &commit]);
    } else {
        // its folder may have been removed
        git.args(["worktree", "add", "--force", "--detach"]).arg(&tree).arg(&commit);
    }
    run::run(&mut git)?;
    run::run(place.build(DEV).current_dir(&tree).env("CARGO_TARGET_DIR", &target))?;
    step("Building this version");
    run::run(&mut place.build(DEV))?;

    step("Upgrading and rolling back");
    let (old, new) = (target.join("debug"), place.program(DEV, ""));
    // The load writes to the database of the old version, so it is of that one, unless that does not know how.
    let its_own = old.join("longshore-bench");
    let knows = run::succeeds(run::command(&its_own).args(["upgrade", "--help"]));
    let scratch = Folder::create(&place.data()?)?;
    let mut bench = run::command(if knows { its_own } else { new.join("longshore-bench") });
    bench.env("TMPDIR", scratch.path()).arg("upgrade").arg("--old").arg(old).arg("--new").arg(new);
    let dump = place.root.join("docs/releases").join(version).join("demo.dump");
    if dump.exists() {
        bench.arg("--dump").arg(dump);
    }
    run::run(&mut bench)
}
