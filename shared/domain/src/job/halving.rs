//! Rows that the database itself refuses, or that end in an internal error, are found by halving; they do not fail the whole chunk.
//!
//! The validation knows the rules of a row; the database knows more (a unique value that was taken a moment ago, a
//! reference that has just gone), and a stored record may be one that cannot be read. One such row would roll back the statement with all of its rows. So a refused part is rolled
//! back to its savepoint, halved, and tried again, until only the refused row is left: about twice log₂ n statements for one
//! bad row in n.
//!
//! Each part locks what it changes, in the order that everybody keeps. Parts that come one after the other do not: so all that
//! they will lock is locked before the first of them, outside of their savepoints, and no part waits for a lock of its own.

use std::future::Future;
use std::ops::Range;

use sqlx::{Acquire, PgConnection};

use super::item_error::INTERNAL;
use longshore_kernel::cause::causes;
use longshore_kernel::sqlstate::{is_of_a_record, is_refused_value, violated_constraint};

/// Why an item was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Position of the item among those given.
    pub position: usize,
    /// Why, for programs.
    pub code: &'static str,
    /// Why, for people: of the database, the sentence that the constraint's name is.
    pub message: String,
}

/// What came of the parts, in any order: each with the positions it covers.
#[derive(Debug)]
pub struct Halved<T> {
    /// Parts that were applied.
    pub applied: Vec<(Range<usize>, T)>,
    /// Items that were refused.
    pub refused: Vec<Refused>,
}

/// What is applied to a part of the items, as a whole or not at all.
pub trait Statement<I> {
    /// The result for a part.
    type Out;
    /// Applies it.
    fn apply(
        &self,
        tx: &mut PgConnection,
        items: &[I],
    ) -> impl Future<Output = Result<Self::Out, sqlx::Error>> + Send;
    /// Locks what applying the items in parts will lock, in the order that everybody keeps. It changes nothing.
    fn lock(
        &self,
        tx: &mut PgConnection,
        items: &[I],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Applies a statement to all items, or to as many as the database takes.
pub async fn halve<I, S: Statement<I>>(
    tx: &mut PgConnection,
    items: &[I],
    statement: &S,
) -> Result<Halved<S::Out>, sqlx::Error> {
    let mut halved = Halved { applied: Vec::new(), refused: Vec::new() };
    if items.is_empty() {
        return Ok(halved);
    }
    let mut parts: Vec<Range<usize>> = std::iter::once(0..items.len()).collect();
    let mut tried = None;
    while let Some(part) = parts.pop() {
        let Some(slice) = items.get(part.clone()) else { continue };
        let mut savepoint = tx.begin().await?;
        match statement.apply(&mut savepoint, slice).await {
            Ok(applied) => {
                savepoint.commit().await?;
                halved.applied.push((part, applied));
            }
            Err(error) if is_of_a_record(&error) => {
                savepoint.rollback().await?;
                if part.len() == 1 && tried.replace(part.start) != Some(part.start) {
                    parts.push(part);
                } else if part.len() == 1 {
                    halved.refused.push(refused(part.start, &error));
                } else {
                    if part.len() == items.len() {
                        statement.lock(tx, items).await?;
                    }
                    let middle = part.start + part.len() / 2;
                    parts.push(middle..part.end);
                    parts.push(part.start..middle);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(halved)
}

fn refused(position: usize, error: &sqlx::Error) -> Refused {
    let (code, message) = match violated_constraint(error) {
        Some(constraint) => ("refused", format!("the database refused it: {}", constraint.replace('_', " "))),
        None if is_refused_value(error) => {
            ("refused", "the database refused it: a value cannot be stored".to_owned())
        }
        None => {
            tracing::error!(position, error = %causes(error), "a row ends in an internal error, and is refused");
            (INTERNAL.0, INTERNAL.1.to_owned())
        }
    };
    Refused { position, code, message }
}
