//! No statement sets a session beyond its transaction, or expects to find one again: behind a pooler, the next transaction is in another
//! session (`docs/scaling.md#poolers`).

#![expect(clippy::unwrap_used, reason = "a test fails where it must not go on")]

use std::fs;
use std::path::{Path, PathBuf};

/// Where the SQL of the service is.
const FOLDERS: [&str; 5] = ["shared", "api/src", "api/http/src", "worker/src", "migrations/functions"];

/// What connects to Postgres itself, or names the words only.
const DIRECT: [&str; 3] = [
    // a migration waits for locks
    "shared/kernel/src/migration.rs",
    // the file of a pooler sets the sessions
    "shared/kernel/src/pooler.rs",
    // says to operators what to set
    "shared/operate/src/doctor/",
];

/// How statements begin that last as long as a session.
const STATEMENTS: [&str; 11] = [
    "set session ",
    "set role",
    "set time zone",
    "reset ",
    "listen ",
    "unlisten ",
    "discard ",
    "prepare ",
    "deallocate ",
    "load '",
    "create temp",
];

/// What lasts as long as a session, anywhere in a statement.
const WORDS: [&str; 10] = [
    "pg_advisory_lock(",
    "pg_advisory_lock_shared(",
    "pg_try_advisory_lock(",
    "pg_try_advisory_lock_shared(",
    "pg_advisory_unlock",
    " with hold",
    "currval(",
    "lastval(",
    "pglistener",
    "into temp",
];

/// Statements that are not kept are in one session only, so they are in transactions. Each of these files begins one.
const NOT_KEPT: [&str; 2] = ["shared/domain/src/list/matching.rs", "shared/domain/src/list/stream.rs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "sql") {
            found.push(path);
        }
    }
}

/// The text without comments, in small letters, with single spaces.
fn code(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let code: Vec<_> = lines.filter(|line| !line.starts_with("//") && !line.starts_with("--")).collect();
    code.join(" ").split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// What in a text sets a session.
fn faults(code: &str) -> Vec<String> {
    let mut faults: Vec<_> =
        WORDS.iter().filter(|word| code.contains(*word)).map(|word| (*word).to_owned()).collect();
    // a statement begins a literal, or follows another one
    for (at, _) in code.match_indices(['"', ';']) {
        let statement = code[at + 1..].trim_start();
        let sets =
            statement.strip_prefix("set ").and_then(|set| set.split(['"', ';']).next()).is_some_and(|set| {
                // that of an update has values and conditions
                let is_of_update = ["$", " + ", " where "].iter().any(|part| set.contains(part));
                !set.starts_with("local ") && !is_of_update && (set.contains('=') || set.contains(" to "))
            });
        if sets || STATEMENTS.iter().any(|beginning| statement.starts_with(beginning)) {
            faults.push(statement.chars().take(60).collect());
        }
    }
    for (at, call) in code.match_indices("set_config(") {
        let arguments = code[at + call.len()..].split(')').next().unwrap();
        if !arguments.ends_with(", true") {
            faults.push(format!("{call}{arguments})"));
        }
    }
    faults
}

#[test]
fn no_statement_of_the_service_sets_a_session() {
    let mut all = Vec::new();
    for folder in FOLDERS {
        files(&root().join(folder), &mut all);
    }
    assert!(all.len() > 300, "{}", all.len());
    let mut read = 0;
    for file in all {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        if DIRECT.iter().any(|direct| name.starts_with(direct)) || name.contains("/tests/") {
            continue;
        }
        let code = code(&fs::read_to_string(&file).unwrap());
        read += code.matches("set_config(").count() + code.matches("set local ").count();
        assert_eq!(faults(&code), Vec::<String>::new(), "{name}");
        if code.contains(".persistent(false)") {
            assert!(NOT_KEPT.contains(&name.as_str()) && code.contains(".transaction("), "{name}");
        }
    }
    assert!(read > 10, "the settings of transactions were not seen: {read}");
}

#[test]
fn what_sets_a_session_is_seen() {
    for sql in [
        "\"SET statement_timeout = '5s'\"",
        "\"SET LOCAL a = 1; SET b TO 2\"",
        "\"SET ROLE x\"",
        "\"RESET ALL\"",
        "\"LISTEN x\"",
        "\"SELECT set_config('a', $1, false)\"",
        "\"SELECT pg_advisory_lock(1)\"",
        "\"DECLARE c CURSOR WITH HOLD FOR\"",
        "\"CREATE TEMP TABLE x ()\"",
    ] {
        assert_eq!(faults(&code(sql)).len(), 1, "{sql}");
    }
    for sql in [
        "\"BEGIN; SET LOCAL a = 1\"",
        "\"UPDATE x SET a = 1\"",
        "\"SELECT set_config('a', $1, true)\"",
        "\"SELECT pg_advisory_xact_lock(1)\"",
        "\"set of things\"",
        "// \"SET a = 1\"",
    ] {
        assert_eq!(faults(&code(sql)), Vec::<String>::new(), "{sql}");
    }
}
