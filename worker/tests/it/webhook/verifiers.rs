//! Verification by others: the `standardwebhooks` packages of PyPI and npm, with real deliveries.
//!
//! They are installed once, in the cache folder of the user. If that is impossible (no interpreter, no
//! network), the test reports that it is skipped.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use longshore_domain::webhook::subscription;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::support::World;

const MIGRATIONS: &sqlx::migrate::Migrator = &longshore_kernel::migration::MIGRATIONS;

/// Prints for each case of the standard input whether it verifies.
const PYTHON: &str = "
import json, sys
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
def good(case):
    try:
        Webhook(case['secret']).verify(case['body'], case['headers'])
        return True
    except WebhookVerificationError:
        return False
print(json.dumps([good(case) for case in json.load(sys.stdin)]))
";

const NODE: &str = "
const { Webhook, WebhookVerificationError } = require('standardwebhooks');
const cases = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const good = ({ secret, body, headers }) => {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
};
console.log(JSON.stringify(cases.map(good)));
";

/// The folder of a package in the cache folder of the user.
fn folder(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home =
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| OsString::from("/tmp"))).join(".cache");
    cache.unwrap_or_else(home).join("longshore").join(name)
}

/// Runs an installer in a new folder, unless it was done before; concurrent tests may do the same.
fn installed(name: &str, install: impl Fn(&Path) -> Command) -> Option<PathBuf> {
    let folder = folder(name);
    if folder.exists() {
        return Some(folder);
    }
    std::fs::create_dir_all(folder.parent()?).ok()?;
    let fresh = tempfile::tempdir_in(folder.parent()?).ok()?;
    let output = install(fresh.path()).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(name, &String::from_utf8_lossy(&output.stderr)),
        Err(error) => return skipped(name, &error.to_string()),
    }
    // another test may have installed it first
    let _ = std::fs::rename(fresh.keep(), &folder);
    folder.exists().then_some(folder)
}

/// Reports it on the terminal itself: the harness hides the output of a test that passes.
fn skipped(name: &str, why: &str) -> Option<PathBuf> {
    writeln!(std::io::stderr().lock(), "\n!!! SKIPPED: {name} could not be installed: {why}\n").unwrap();
    None
}

/// The result of a verifier for each case.
fn verdicts(mut command: Command, cases: &Value) -> Vec<bool> {
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(cases.to_string().as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Cases of a delivery signed with two secrets, and the expected results.
async fn cases(options: &PgConnectOptions) -> (Value, Vec<bool>) {
    let world = World::new(options).await;
    let hook = world.hook("/hook", json!({})).await;
    let mut secrets = vec![hook.secret.clone()];
    for _ in 0..2 {
        let answer = subscription::rotate_secret(&world.services, &world.context(), hook.id).await.unwrap();
        let shown: Value = serde_json::from_str(&answer.body.unwrap()).unwrap();
        secrets.push(shown["secret"].as_str().unwrap().to_owned());
    }
    world.events(&hook, 1).await;
    world.drain(&hook).await;
    let receipt = &world.receiver.receipts()[0];
    let body = String::from_utf8(receipt.body.to_vec()).unwrap();
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers: Value = names.iter().map(|name| ((*name).to_owned(), json!(receipt.header(name)))).collect();
    let case = |secret: &str, body: &str, headers: &Value| json!({"secret": secret, "body": body, "headers": headers});
    let stranger = longshore_domain::calling::signature::new_secret();
    let stranger = longshore_domain::calling::signature::shown(&stranger);
    let mut other_id = headers.clone();
    other_id["webhook-id"] = json!("another");
    let mut cases: Vec<_> = secrets.iter().map(|secret| case(secret, &body, &headers)).collect();
    cases.push(case(secrecy::ExposeSecret::expose_secret(&stranger), &body, &headers));
    cases.push(case(&secrets[0], &body.replace("no 1", "no 2"), &headers));
    cases.push(case(&secrets[0], &body, &other_id));
    (json!(cases), vec![true, true, true, false, false, false])
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_package_of_pypi_verifies_what_arrives(_: PgPoolOptions, options: PgConnectOptions) {
    let packages = installed("standardwebhooks-pypi-1.0.1", |folder| {
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "standardwebhooks==1.0.1",
        ]);
        pip.arg("--target").arg(folder);
        pip
    });
    let Some(packages) = packages else { return };
    let (cases, expected) = cases(&options).await;
    let mut python = Command::new("python3");
    python.args(["-c", PYTHON]).env("PYTHONPATH", packages);
    assert_eq!(verdicts(python, &cases), expected);
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_package_of_npm_verifies_what_arrives(_: PgPoolOptions, options: PgConnectOptions) {
    let packages = installed("standardwebhooks-npm-1.0.0", |folder| {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "standardwebhooks@1.0.0",
        ]);
        npm.arg("--prefix").arg(folder);
        npm
    });
    let Some(packages) = packages else { return };
    let (cases, expected) = cases(&options).await;
    let mut node = Command::new("node");
    node.args(["-e", NODE]).env("NODE_PATH", packages.join("node_modules"));
    assert_eq!(verdicts(node, &cases), expected);
}
