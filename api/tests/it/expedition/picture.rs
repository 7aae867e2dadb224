//! The picture of the transitions in `docs/reference/orders.md#transitions` is that of the table in the database.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use longshore_domain::list::fields::expedition::ExpeditionStatus;
use sqlx::PgPool;

use super::MIGRATIONS;

/// How the picture begins in the page.
const HEAD: &str = "| from ╲ to |";

/// A row for each status, a column for each status, and a mark where an order may go from one to the other.
fn picture(pairs: &BTreeSet<(String, String)>) -> String {
    let statuses: Vec<&str> = ExpeditionStatus::WORDS.to_vec();
    let numbers: Vec<String> = (1..=statuses.len()).map(|number| number.to_string()).collect();
    let mut lines = vec![
        format!("{HEAD} {} |", numbers.join(" | ")),
        format!("|{}", " --- |".repeat(statuses.len() + 1)),
    ];
    let rows = [("(new)".to_owned(), "new")].into_iter().chain(
        statuses.iter().zip(&numbers).map(|(status, number)| (format!("{number} `{status}`"), *status)),
    );
    for (name, from) in rows {
        let cells = statuses.iter().map(|to| {
            if from == *to {
                "·"
            } else if pairs.contains(&(from.to_owned(), (*to).to_owned())) {
                "●"
            } else {
                ""
            }
        });
        let cells: Vec<String> = cells.map(|cell| format!(" {cell} |")).collect();
        lines.push(format!("| {name} |{}", cells.concat()).replace("|  |", "| |"));
    }
    lines.join("\n").replace("|  |", "| |")
}

#[sqlx::test(migrator = "MIGRATIONS")]
async fn the_picture_of_the_transitions_is_that_of_the_database(pool: PgPool) {
    let pairs: Vec<(String, String)> =
        sqlx::query_as("SELECT from_status, to_status FROM expedition_transition")
            .fetch_all(&pool)
            .await
            .unwrap();
    let pairs: BTreeSet<_> = pairs.into_iter().collect();
    let known: BTreeSet<&str> = ExpeditionStatus::WORDS.iter().copied().chain(["new"]).collect();
    for (from, to) in &pairs {
        assert!(known.contains(from.as_str()) && known.contains(to.as_str()), "{from} {to}");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/orders.md");
    let page = fs::read_to_string(page).unwrap();
    let shown: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with(HEAD))
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected = picture(&pairs);
    assert_eq!(
        shown.join("\n"),
        expected,
        "docs/reference/orders.md#transitions must have this table:\n{expected}"
    );
}
