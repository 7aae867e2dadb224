//! `release`: keeps what later releases are compared with (`docs/reference/compatibility.md#upgrades`), in `docs/releases/<version>`:
//! the API document, whose webhooks have an example of each event, the checksums of the migrations, which are not edited any more, and a
//! dump of the demo data, for trying upgrades.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::place::{DEV, Place, checksums};
use crate::run::{self, step};
use crate::scratch::Scratch;

/// Makes the demo data in an empty service, and dumps its database.
const MAKE: &str = r#"longshore-demo seed --env-file "$1/env" --base-url "$BASE_URL" --worker-metrics-url "$WORKER_METRICS_URL"
pg_dump --format=custom --compress=9 --no-owner --file="$1/demo.dump" "$DATABASE_URL""#;

pub(crate) fn release(place: &Place, version: &str) -> anyhow::Result<()> {
    step("Building");
    run::run(&mut place.build(DEV))?;
    let mut document = place.command(place.program(DEV, "longshore-api"));
    let document = document.arg("openapi").output().context("longshore-api")?;
    ensure!(document.status.success(), "longshore-api openapi: {}", document.status);
    let says = format!("\"version\": \"{version}\"");
    ensure!(
        String::from_utf8_lossy(&document.stdout).contains(&says),
        "the checkout is another version than {version}: set it in Cargo.toml first"
    );

    step("Making the demo data");
    let scratch = Scratch::of_tests(place, &[("fsync", "off")])?;
    let mut beside = place.command(place.program(DEV, "longshore-bench"));
    beside.env("DATABASE_URL", &scratch.database_url).args(["with", "--", "bash", "-euc", MAKE, "release"]);
    beside.arg(scratch.folder.path()).env("PATH", crate::tools::path_with(&[place.program(DEV, "")])?);
    run::run(&mut beside)?;

    let kept = place.root.join("docs/releases").join(version);
    fs::create_dir_all(&kept)?;
    fs::write(kept.join("openapi.json"), &document.stdout)?;
    let is_sql = |name: &str| Path::new(name).extension().is_some_and(|extension| extension == "sql");
    let (_, sums) = checksums("sha384sum", &place.root.join("migrations"), is_sql)?;
    fs::write(kept.join("migrations.sha384"), sums)?;
    fs::copy(scratch.folder.path().join("demo.dump"), kept.join("demo.dump"))?;
    println!("\nkept in {}; commit it with the release", kept.display());
    Ok(())
}
