//! `longshore wms check` against a fake WMS: a good one, and one that breaks each rule.

use std::process::Stdio;
use std::time::Duration;

use longshore_testkit::wms::{Breach, Mischief, On, Stage, Wms};
use serde_json::{Value, json};
use tokio::process::Command;

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A SKU that the fake refuses.
const REFUSED: &str = "REFUSED-1";

/// How a check ended.
#[derive(Debug)]
struct Checked {
    status: i32,
    stdout: String,
    stderr: String,
}

async fn check(url: &str, options: &[&str]) -> Checked {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command.env_clear().args(["wms", "check", url]).args(options).stdin(Stdio::null());
    let ended = command.output().await.unwrap();
    Checked {
        status: ended.status.code().unwrap(),
        stdout: String::from_utf8(ended.stdout).unwrap(),
        stderr: String::from_utf8(ended.stderr).unwrap(),
    }
}

/// A WMS that verifies signatures and refuses a SKU.
async fn wms() -> Wms {
    let wms = Wms::start().await.unwrap();
    wms.trust(SECRET).unwrap();
    wms.refuse_sku(REFUSED);
    wms
}

async fn check_all(wms: &Wms) -> Checked {
    check(&wms.url(), &["--secret", SECRET, "--refused-sku", REFUSED, "--timeout", "2", "--json"]).await
}

/// The names of the rules with this verdict.
fn of_verdict<'r>(report: &'r Value, verdict: &str) -> Vec<&'r str> {
    let rules = report["rules"].as_array().unwrap().iter().filter(|rule| rule["verdict"] == verdict);
    rules.map(|rule| rule["rule"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_wms_that_keeps_the_rules_passes_and_has_no_order_left() {
    let wms = wms().await;
    let checked = check(&wms.url(), &["--secret", SECRET, "--refused-sku", REFUSED]).await;
    assert_eq!(checked.status, 0, "{checked:?}");
    assert!(checked.stdout.ends_with("20 kept, 0 broken, 0 unchecked\n"), "{checked:?}");
    assert_eq!(checked.stderr, "");
    assert!(wms.book().values().all(|entry| !entry.stage.is_here()), "{:?}", wms.book());
}

#[tokio::test]
async fn what_cannot_be_checked_is_said() {
    let wms = Wms::start().await.unwrap();
    let checked = check(&format!("{}/", wms.url()), &[]).await;
    assert_eq!(checked.status, 0, "{checked:?}");
    assert!(
        checked.stdout.contains("\nunchecked  a call without a signature is refused: give --secret\n"),
        "{checked:?}"
    );
    assert!(checked.stdout.ends_with("12 kept, 0 broken, 8 unchecked\n"), "{checked:?}");
}

#[tokio::test]
async fn each_broken_rule_is_found() {
    for (breach, rules) in [
        (Breach::TakesTwice, &["repeats", "at_once", "later", "refuses", "forged_withdrawal"][..]),
        (Breach::ComparesBodies, &["repeats"]),
        (Breach::TakesLower, &["lower"]),
        (Breach::TakesWithdrawn, &["withdrawn", "overtaken"]),
        (Breach::TakesUnknownWithdrawn, &["overtaken"]),
        (Breach::RefusesNext, &["next", "later", "overtaken"]),
        (Breach::WithdrawsHigher, &["later"]),
        (Breach::FailsUnknown, &["unknown", "overtaken"]),
        (Breach::TrustsForged, &["unsigned", "forged", "altered", "old", "forged_withdrawal", "forged_test"]),
        (Breach::TrustsOld, &["old", "forged_withdrawal", "forged_test"]),
        (Breach::FindsAny, &["connection_test", "forged_test"]),
        (Breach::TestsUnverified, &["forged_test"]),
        (Breach::ReadsOneSignature, &["two_signatures"]),
        (Breach::RefusesSilently, &["refuses", "duplicate"]),
        (Breach::TakesDuplicate, &["duplicate"]),
        (Breach::TakesRefused, &["refuses"]),
    ] {
        let wms = wms().await;
        wms.break_rule(breach);
        let checked = check_all(&wms).await;
        assert_eq!(checked.status, 1, "{breach:?}: {checked:?}");
        let report: Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(of_verdict(&report, "broken"), rules, "{breach:?}: {report:#}");
        assert_eq!(of_verdict(&report, "unchecked"), [""; 0], "{breach:?}");
    }
}

#[tokio::test]
async fn a_wms_that_does_not_know_connection_tests_breaks_no_rule() {
    let wms = wms().await;
    wms.break_rule(Breach::KnowsNoTest);
    let checked = check_all(&wms).await;
    assert_eq!(checked.status, 0, "{checked:?}");
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(of_verdict(&report, "broken"), [""; 0], "{report:#}");
    assert_eq!(of_verdict(&report, "unchecked"), ["connection_test", "forged_test"], "{report:#}");
}

#[tokio::test]
async fn a_wms_that_takes_no_order_is_not_checked_further() {
    for (breach, found) in [
        (Breach::TrustsNone, "was answered 401; an order that is taken is 200, 201, 202 or 204"),
        (Breach::Slow, "was not answered within 2 s"),
        (Breach::Large, "with more than 65536 bytes"),
        (Breach::Redirects, "was answered 307, and Longshore follows no redirect"),
        (Breach::NoJson, "and it is not the JSON that it says"),
        (Breach::OddId, "was answered with wmsInternalId {\"id\":1}; it must be text of 1 to 255 characters"),
    ] {
        let wms = wms().await;
        wms.break_rule(breach);
        let checked = check_all(&wms).await;
        assert_eq!(checked.status, 1, "{breach:?}: {checked:?}");
        let report: Value = serde_json::from_str(&checked.stdout).unwrap();
        assert_eq!(of_verdict(&report, "broken"), ["takes"], "{breach:?}: {report:#}");
        assert_eq!(of_verdict(&report, "unchecked").len(), 19, "{breach:?}");
        assert!(report["rules"][0]["found"].as_str().unwrap().contains(found), "{breach:?}: {report:#}");
    }
}

#[tokio::test]
async fn a_fault_of_one_call_is_found_and_named_in_a_sentence() {
    for (mischief, found) in [
        (Mischief::Status(500), "the PUT of number 1 was answered 500"),
        (Mischief::DoneStatus(409), "409 says that it has this number, which it never got"),
        (Mischief::Status(422), "the PUT of number 1 was answered 422"),
        (Mischief::Status(410), "the PUT of number 1 was answered 410"),
        (Mischief::DoneCut, "the PUT of number 1 got no whole answer"),
        (Mischief::Short, "the PUT of number 1 got no whole answer"),
        (Mischief::Flood, "with more than 65536 bytes"),
        (Mischief::DoneHang, "the PUT of number 1 was not answered within 2 s"),
        (Mischief::Late(Duration::from_secs(5)), "the PUT of number 1 was not answered within 2 s"),
    ] {
        let wms = wms().await;
        wms.misbehave(On::Put, mischief.clone());
        let checked = check_all(&wms).await;
        assert_eq!(checked.status, 1, "{mischief:?}: {checked:?}");
        assert!(checked.stdout.contains(found), "{mischief:?}: {checked:?}");
    }
}

/// Spoils the call that comes after this many others of its kind.
fn spoil_after(wms: &Wms, calls: usize, on: On, mischief: Mischief) {
    for _ in 0..calls {
        wms.misbehave(on, Mischief::None);
    }
    wms.misbehave(on, mischief);
}

#[tokio::test]
async fn a_lie_and_a_loss_of_everything_are_found() {
    for (calls, on, mischief, rule) in [
        (8, On::Put, Mischief::Lie, "gives_back"),
        (2, On::Delete, Mischief::Lie, "withdrawn"),
        (0, On::Delete, Mischief::Forget, "gives_back"),
    ] {
        let wms = wms().await;
        spoil_after(&wms, calls, on, mischief.clone());
        let report: Value = serde_json::from_str(&check_all(&wms).await.stdout).unwrap();
        assert_eq!(of_verdict(&report, "broken"), [rule], "{mischief:?}: {report:#}");
    }
}

#[tokio::test]
async fn orders_that_are_not_given_back_are_named() {
    let wms = wms().await;
    // the rules withdraw nine times before all orders are asked back
    spoil_after(&wms, 9, On::Delete, Mischief::Status(409));
    let options = ["--secret", SECRET, "--sku", "K-1", "--json"];
    let checked = check(&wms.url(), &options).await;
    let report: Value = serde_json::from_str(&checked.stdout).unwrap();
    let left = report["leftOver"].as_array().unwrap();
    assert_eq!((checked.status, left.len()), (0, 1), "{report:#}");
    let left = left[0].as_str().unwrap().parse().unwrap();
    assert_eq!(wms.order(left).unwrap().stage, Stage::Taken);
}

#[tokio::test]
async fn an_order_of_a_file_is_handed_over_with_new_ids() {
    let wms = wms().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order.json");
    std::fs::write(
        &file,
        json!({"note": "of a file", "items": [{"productSku": "K-1", "quantity": 3}]}).to_string(),
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let checked = check(&wms.url(), &["--secret", SECRET, "--order", file]).await;
    assert_eq!(checked.status, 0, "{checked:?}");
    let orders = wms.book();
    let order = &orders.values().find(|entry| !entry.order.is_null()).unwrap().order;
    assert_eq!(
        (order["note"].as_str(), order["items"][0]["productSku"].as_str()),
        (Some("of a file"), Some("K-1"))
    );

    std::fs::write(file, "{}").unwrap();
    let checked = check(&wms.url(), &["--order", file]).await;
    assert_eq!(checked.status, 1, "{checked:?}");
    assert!(checked.stderr.contains("is not an order: it has no items"), "{checked:?}");
}

#[tokio::test]
async fn a_wms_that_cannot_be_reached_and_wrong_usage_have_their_own_exit_status() {
    let gone = Wms::start().await.unwrap().url();
    let checked = check(&gone, &[]).await;
    assert_eq!(checked.status, 4, "{checked:?}");
    assert!(checked.stderr.contains(&format!("{gone} cannot be reached: ")), "{checked:?}");
    for (url, options) in [
        ("ftp://there", &[][..]),
        ("http://127.0.0.1:1", &["--timeout", "0"]),
        ("http://127.0.0.1:1", &["--sku", "1", "--order", "2"]),
    ] {
        assert_eq!(check(url, options).await.status, 2, "{url} {options:?}");
    }
    let checked = check("http://127.0.0.1:1", &["--secret", "whsec_?"]).await;
    assert_eq!(
        (checked.status, checked.stderr.contains("the secret is not whsec_ and base64")),
        (1, true),
        "{checked:?}"
    );
}
