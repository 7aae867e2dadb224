use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use longshore_demo::catalogue::{Catalogue, Expected};
use longshore_demo::orders::Orders;
use longshore_demo::proof;
use longshore_demo::site::{Site, operator_of};
use longshore_testkit::stack::{Stack, StackSettings};

/// Runs the proof on a new stack, which is removed afterwards.
async fn prove(catalogue: &Catalogue) -> anyhow::Result<()> {
    let stack = Stack::start(&StackSettings::from_environment()?).await?;
    let site = Site::on(&stack, "Proof").await?;

    let ran = proof::run(&site, catalogue, &stack, drop).await;
    let report = ran.with_context(|| stack.ends_of_logs())?;

    assert!(report.faults().is_empty(), "{report}");
    if catalogue.name == Catalogue::shipped().name {
        let operator = operator_of(&stack).await?;
        let ran = proof::orders::run(&site, &operator, &Orders::shipped(), &stack, drop).await;
        let report = ran.with_context(|| stack.ends_of_logs())?;
        assert!(report.faults().is_empty(), "{report}");
    }
    Ok(())
}

#[tokio::test]
async fn a_catalogue_and_its_orders_go_through_a_killed_worker_and_an_emptied_redis_without_losing_a_change()
{
    prove(&Catalogue::shipped()).await.unwrap();
}

#[tokio::test]
async fn so_does_a_real_catalogue_of_2231_products_and_15_bad_rows() {
    let Some(path) = real_catalogue() else {
        // On the terminal itself: the harness hides the output of a test that passes.
        let mut terminal = std::io::stderr().lock();
        writeln!(terminal, "\n!!! SKIPPED: the proof on real data; LONGSHORE_REAL_DATA does not name it\n")
            .unwrap();
        return;
    };
    let catalogue = Catalogue::read(&path).unwrap();
    assert_eq!(catalogue.expected(), Expected { taken: 2_231, refused: 15 });
    prove(&catalogue).await.unwrap();
}

/// The real catalogue, if this machine has it: the file in `LONGSHORE_REAL_DATA`, or the usual one beside the
/// checkout.
fn real_catalogue() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/online-retail-products.ndjson");
    let named = std::env::var_os("LONGSHORE_REAL_DATA").map(PathBuf::from);
    Some(named.unwrap_or_else(|| beside.into())).filter(|path| path.is_file())
}
