//! Criteria about a document that is in no table, such as the body of an event: the words of lists, as a predicate of the path
//! language of Postgres (`jsonpath`), which judges a document without a statement of its own.
//!
//! A document matches where a list would find a row with the same values. What is absent is null.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use sqlx::PgExecutor;

use super::criteria::{self, Operand, Operator};
use super::resource::{Field, Kind};
use longshore_kernel::input::Reader;

/// What is asked of a member of documents.
#[derive(Clone, Debug)]
pub struct Condition {
    member: Member,
    comparisons: Vec<(Operator, Operand)>,
}

/// A member of documents.
#[derive(Clone, Debug)]
pub struct Member {
    /// Where its path begins.
    root: &'static str,
    /// The names that lead to it from there.
    names: Vec<String>,
    /// How many of these lead to an array of objects, some of which must match.
    rows: Option<usize>,
    field: &'static Field,
}

impl Member {
    /// What is said beside the documents, in a variable of Postgres' path language, such as `$type`.
    #[must_use]
    pub fn variable(root: &'static str, field: &'static Field) -> Self {
        Self { root, names: Vec::new(), rows: None, field }
    }

    /// What `path` leads to below a field that is in an object of these names; nothing: there is no such member.
    #[must_use]
    pub fn below(object: &[&str], field: &'static Field, path: &str) -> Option<Self> {
        let mut names: Vec<String> = object.iter().map(ToString::to_string).collect();
        let (mut field, mut rows) = (field, None);
        let mut path = path.split('.');
        names.push(path.next()?.to_owned());
        for name in path {
            let inner = match field.kind {
                Kind::Object(inner) => inner,
                Kind::Rows(_, inner) if rows.is_none() => {
                    rows = Some(names.len());
                    inner
                }
                _ => return None,
            };
            field = inner.iter().find(|field| field.name == name)?;
            names.push(name.to_owned());
        }
        Some(Self { root: "$", names, rows, field })
    }
}

/// Reads criteria with up to so many conditions. `find` has what a path leads to, in each kind of documents that has it.
pub fn read(
    reader: &mut Reader,
    value: Value,
    most: usize,
    find: impl Fn(&mut Reader, &str) -> Vec<Member>,
) -> Option<Vec<Condition>> {
    criteria::each(reader, value, most, |reader, path, asked| {
        let found = find(reader, path);
        let read = |reader: &mut Reader, member: &Member| {
            let comparisons = criteria::comparisons(reader, member.field, path, asked.clone())?;
            Some(Condition { member: member.clone(), comparisons })
        };
        // what one kind of documents never says, another may
        let tried = |member: &Member| {
            let mut trial = Reader::default();
            read(&mut trial, member).filter(|_| trial.into_violations().is_empty())
        };
        let words: Option<Vec<&[&str]>> = found.iter().map(|member| member.field.among).collect();
        let said_by_all = || {
            let words = words?.concat();
            let any = Member { field: &ANY_WORD, ..found.first()?.clone() };
            let is_word = |text: &String| words.contains(&text.as_str());
            tried(&any).filter(|read| {
                read.comparisons.iter().all(|(how, with)| match with {
                    Operand::Texts(several) => several.iter().all(is_word),
                    Operand::Text(one) => matches!(how, Operator::Like | Operator::NotLike) || is_word(one),
                    _ => true,
                })
            })
        };
        let accepted = found.iter().find_map(tried).or_else(said_by_all);
        accepted.or_else(|| read(reader, found.first()?))
    })
}

/// How many values are compared with, and how many texts are looked for.
#[must_use]
pub fn weight(conditions: &[Condition]) -> (usize, usize) {
    let comparisons = || conditions.iter().flat_map(|condition| &condition.comparisons);
    let is_pattern = |how: &Operator| matches!(how, Operator::Like | Operator::NotLike);
    let values = comparisons().map(|(_, with)| literals(with).len()).sum();
    (values, comparisons().filter(|(how, _)| is_pattern(how)).count())
}

/// The predicate that is true of documents which meet all conditions. `unless` has for a condition what makes a document match
/// whatever it says there.
pub async fn predicate(
    executor: impl PgExecutor<'_>,
    conditions: &[Condition],
    unless: impl Fn(&[String]) -> Option<String>,
) -> Result<String, sqlx::Error> {
    let alike = alike(executor, conditions).await?;
    let conditions = conditions.iter().map(|condition| {
        let condition_holds = condition.predicate(&alike);
        match unless(&condition.member.names) {
            Some(other) => format!("({condition_holds} || {other})"),
            None => condition_holds,
        }
    });
    let all: Vec<String> = conditions.collect();
    Ok(if all.is_empty() { ALWAYS.to_owned() } else { all.join(" && ") })
}

/// A field that is read where several kinds of documents have one, each with words of its own.
static ANY_WORD: Field = Field::text("word", "").or_null();

const ALWAYS: &str = "(1 == 1)";
const NEVER: &str = "(1 == 2)";

/// The path below `root`.
#[must_use]
pub fn path(root: &str, names: &[String]) -> String {
    names.iter().fold(root.to_owned(), |path, name| format!("{path}.{}", json!(name)))
}

/// The letters that differ from one of these patterns in their case only, as `ILIKE` has it.
async fn alike(
    executor: impl PgExecutor<'_>,
    conditions: &[Condition],
) -> Result<HashMap<char, String>, sqlx::Error> {
    let patterns = conditions.iter().flat_map(|condition| &condition.comparisons);
    let letters: BTreeSet<char> = patterns
        .filter_map(|comparison| match comparison {
            (Operator::Like | Operator::NotLike, Operand::Text(text)) => Some(text.chars()),
            _ => None,
        })
        .flatten()
        .collect();
    if letters.is_empty() {
        return Ok(HashMap::new());
    }
    let letters: Vec<String> = letters.into_iter().map(String::from).collect();
    let found = sqlx::query!(
        // all that have a case; what is between the two is no character
        r#"SELECT asked.letter AS "letter!", string_agg(other.letter, '') AS "alike!"
           FROM unnest($1::text[]) AS asked (letter)
           JOIN (SELECT chr(code) AS letter, lower(chr(code)) AS folded
                 FROM (SELECT generate_series(1, 55295) UNION ALL SELECT generate_series(57344, 131071)) AS every (code)
                 OFFSET 0) AS other (letter, folded) ON folded = lower(asked.letter)
           GROUP BY asked.letter"#,
        &letters,
    )
    .fetch_all(executor)
    .await?;
    let found = found.into_iter().filter_map(|row| Some((row.letter.chars().next()?, row.alike)));
    Ok(found.collect())
}

impl Condition {
    fn predicate(&self, alike: &HashMap<char, String>) -> String {
        let Member { root, names, rows, field } = &self.member;
        let compared = |value: &str| {
            let comparisons = self.comparisons.iter();
            let all: Vec<_> =
                comparisons.map(|(how, with)| compare(value, field, *how, with, alike)).collect();
            all.join(" && ")
        };
        match rows {
            None => compared(&path(root, names)),
            Some(rows) => {
                let (array, of_row) = names.split_at(*rows);
                // null is no row, though a path goes on from it
                format!(
                    "exists({} ? (@.type() == \"object\" && {}))",
                    path(root, array),
                    compared(&path("@", of_row))
                )
            }
        }
    }
}

/// A comparison with the value at a path. Of an array, it is true if it is of some element.
fn compare(
    path: &str,
    field: &Field,
    operator: Operator,
    operand: &Operand,
    alike: &HashMap<char, String>,
) -> String {
    let is_moment = matches!(field.kind, Kind::Timestamp);
    let method = if is_moment { ".datetime()" } else { "" };
    let value = format!("{path}{method}");
    let literals = literals(operand);
    let each = |sign: &str| -> Vec<String> {
        literals.iter().map(|text| format!("{value} {sign} {text}{method}")).collect()
    };
    let any = || {
        let equal = each("==");
        if equal.is_empty() { NEVER.to_owned() } else { format!("({})", equal.join(" || ")) }
    };
    // that of nothing would be true, as it is false that it is equal to something
    let is_there = format!("{path} != null");
    let contains = || match operand {
        Operand::Text(text) => format!("{value} like_regex {}", json!(pattern(text, alike))),
        _ => NEVER.to_owned(),
    };
    match operator {
        Operator::Eq | Operator::Flag | Operator::In => any(),
        Operator::Neq | Operator::Nin => format!("{is_there} && !{}", any()),
        Operator::Like => contains(),
        Operator::NotLike => format!("{is_there} && !({})", contains()),
        Operator::Gt => each(">").concat(),
        Operator::Gte => each(">=").concat(),
        Operator::Lt => each("<").concat(),
        Operator::Lte => each("<=").concat(),
        Operator::Null if matches!(operand, Operand::Boolean(true)) => {
            format!("!({path}.type() != \"null\")")
        }
        Operator::Null => format!("{path}.type() != \"null\""),
    }
}

/// What is compared with, as a document says it.
fn literals(operand: &Operand) -> Vec<String> {
    let texts = |texts: &[String]| texts.iter().map(|text| json!(text).to_string()).collect();
    match operand {
        Operand::Id(id) => vec![json!(id).to_string()],
        Operand::Ids(ids) => ids.iter().map(|id| json!(id).to_string()).collect(),
        Operand::Text(text) => vec![json!(text).to_string()],
        Operand::Texts(several) => texts(several),
        Operand::Integer(number) => vec![number.to_string()],
        Operand::Integers(numbers) => numbers.iter().map(ToString::to_string).collect(),
        Operand::Number(number) => vec![number.clone()],
        Operand::Numbers(numbers) => numbers.clone(),
        Operand::Timestamp(at) => vec![json!(at.to_rfc3339()).to_string()],
        Operand::Timestamps(times) => times.iter().map(|at| json!(at.to_rfc3339()).to_string()).collect(),
        Operand::Date(day) => vec![json!(day).to_string()],
        Operand::Dates(days) => days.iter().map(|day| json!(day).to_string()).collect(),
        Operand::Boolean(is_so) => vec![is_so.to_string()],
    }
}

/// The regular expression of what contains a text in whatever case.
fn pattern(text: &str, alike: &HashMap<char, String>) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        match alike.get(&character) {
            Some(letters) if letters.chars().nth(1).is_some() => {
                pattern.push('[');
                pattern.push_str(letters);
                pattern.push(']');
            }
            _ => {
                if character.is_ascii_punctuation() {
                    pattern.push('\\');
                }
                pattern.push(character);
            }
        }
    }
    pattern
}
