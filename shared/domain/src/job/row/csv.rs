//! Rows of CSV (`docs/reference/syncs.md#csv`). [`columns`] makes the rows of the JSON forms of them before they are stored; a
//! [`CsvForm`], which the job keeps, is what makes CSV of a stored row again.
//!
//! A row that CSV itself is wrong with (a cell too many, lines of an order that differ, a number that a spreadsheet has
//! shortened) cannot be such JSON. Its lines are stored as they came, in `_lines`, and judged when its chunk is executed, so it is
//! refused as others are, and again when it is retried.

pub mod columns;

use std::borrow::Cow;
use std::collections::BTreeMap;

use longshore_kernel::csv::read::Record;
use longshore_kernel::json;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What clears a field.
const NULL: &str = r"\N";
/// Begins the names of members that are ignored, in rows of every form.
pub(in crate::job) const IGNORED: char = '_';
/// Begins the names of the fields of an item …
const ITEM: &str = "item.";
/// … and the member that has them.
const ITEMS: &str = "items";
/// Begins a row that is stored as its lines.
const LINES: &[u8] = br#"{"_lines":["#;
/// The fields that say the same of all lines of a row, by which it is known.
const KEYS: [&str; 2] = ["productSku", "orderNumber"];
/// Fields of digits that are no numbers; zips, too.
const DIGITS: [&str; 4] = ["productSku", "referenceNumbers", "orderNumber", "externalId"];

/// The form of a file of CSV, which its job keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsvForm {
    /// What is between two cells.
    pub delimiter: char,
    /// Whether a number has a comma before its fraction.
    pub decimal_comma: bool,
    /// The names of the columns, as they were sent: also those that begin with `_` and are ignored, such as `_line` of a file that
    /// was given back and is sent again.
    pub names: Vec<String>,
}

/// Why a row is refused: for programs, and for people.
pub(in crate::job) type Refusal = (&'static str, String);

impl CsvForm {
    /// What is between two elements of a list.
    fn separator(&self) -> char {
        if self.delimiter == '|' { ',' } else { '|' }
    }

    /// What is wrong with the lines of a row. They are those of one order, or it is one.
    fn judge(&self, lines: &[Record]) -> Option<Refusal> {
        let names = self.names.len();
        if let Some(line) = lines.iter().find(|line| line.cells().skip(names).any(|cell| !cell.is_empty())) {
            let cells = line.count();
            return Some((
                "malformed_row",
                format!("has {cells} cells, and the first line of the file names {names}"),
            ));
        }
        let first = lines.first()?;
        for (place, name) in self.names.iter().enumerate() {
            if lines.len() > 1 && !name.starts_with(IGNORED) && item_field(name).is_none() {
                let differs = |line: &Record| ![first.cell(place), ""].contains(&line.cell(place));
                if let Some(nth) = lines.iter().position(differs) {
                    let nth = nth + 1;
                    let message = format!(
                        "{name} of the {nth}. line of the order differs from the first; repeat it, or leave it empty"
                    );
                    return Some(("contradiction", message));
                }
            }
            if is_of_digits(name)
                && let Some(shortened) = lines.iter().find_map(|line| shortened(line.cell(place)))
            {
                let message = format!(
                    "{name} looks like a number that a spreadsheet has shortened ({shortened}); format the column as text, and fill it again"
                );
                return Some(("looks_like_a_spreadsheet_number", message));
            }
        }
        None
    }

    /// A row to be stored as its lines.
    fn stored_lines(&self, lines: &[Record]) -> Vec<u8> {
        let cells: Vec<Vec<&str>> = lines.iter().map(|line| line.cells().collect()).collect();
        let mut stored = LINES.split_last().map_or(&[][..], |(_, begin)| begin).to_vec();
        write(&mut stored, &cells);
        let key = KEYS.iter().find_map(|key| {
            let place = self.names.iter().position(|name| name.eq_ignore_ascii_case(key))?;
            Some((key, lines.first()?.cell(place)))
        });
        if let Some((key, text)) = key.filter(|(_, text)| !text.is_empty()) {
            stored.extend_from_slice(b",\"");
            stored.extend_from_slice(key.as_bytes());
            stored.extend_from_slice(b"\":");
            write(&mut stored, &text);
        }
        stored.push(b'}');
        stored
    }

    /// The lines of a row that was stored as them.
    fn lines(row: &[u8]) -> Option<Vec<Record>> {
        #[derive(Deserialize)]
        struct Stored<'r> {
            #[serde(borrow, rename = "_lines")]
            lines: Vec<Vec<Cow<'r, str>>>,
        }
        let stored = row.starts_with(LINES).then(|| serde_json::from_slice::<Stored<'_>>(row).ok())??;
        Some(stored.lines.into_iter().map(|cells| cells.into_iter().collect()).collect())
    }

    /// What calls itself so, and is refused for what, if a stored row is to be judged by its lines.
    pub(super) fn refusal(&self, row: &[u8]) -> Option<(Option<String>, Refusal)> {
        #[derive(Deserialize)]
        struct Key {
            #[serde(rename = "productSku", alias = "orderNumber")]
            key: Option<String>,
        }
        let lines = Self::lines(row)?;
        let key = serde_json::from_slice::<Key>(row).ok().and_then(|row| row.key);
        let unread = || ("malformed_row", "its lines cannot be read".to_owned());
        Some((key, self.judge(&lines).unwrap_or_else(unread)))
    }

    /// What a property path of the JSON forms is called in this one: `item.quantity of item 2` for `items[1].quantity`.
    pub(super) fn column(path: &str) -> Cow<'_, str> {
        let item = path.strip_prefix("items[").and_then(|rest| rest.split_once(']'));
        match item.and_then(|(index, field)| Some((index.parse::<usize>().ok()?, field))) {
            Some((index, field)) => {
                let number = index.saturating_add(1);
                if field.is_empty() {
                    format!("item {number}").into()
                } else {
                    format!("item{field} of item {number}").into()
                }
            }
            None => path.into(),
        }
    }

    /// The lines of a stored row, each with a cell for each of [`CsvForm::names`]: what was sent, as a person would write it. An
    /// order has a line for each item; its own fields are in the first one, and its number in all of them. What a program could take
    /// for a formula is for the writer to protect.
    #[must_use]
    pub fn cells(&self, row: &[u8]) -> Vec<Vec<String>> {
        if let Some(lines) = Self::lines(row) {
            return lines.iter().map(|line| line.cells().map(str::to_owned).collect()).collect();
        }
        let members = json::members(row).unwrap_or_default();
        let items: Vec<&RawValue> = find(&members, ITEMS)
            .and_then(|items| serde_json::from_str(items.get()).ok())
            .unwrap_or_default();
        let line = |number: usize| {
            let item = items.get(number).and_then(|item| json::members(item.get().as_bytes()).ok());
            let cell = |name: &String| match item_field(name) {
                Some(field) => item.as_ref().and_then(|item| self.cell(item, field)),
                None if number == 0 || is_key(name) => self.cell(&members, name),
                None => None,
            };
            self.names.iter().map(|name| cell(name).unwrap_or_default()).collect()
        };
        (0..items.len().max(1)).map(line).collect()
    }

    /// The cell of a member, by its dotted name.
    fn cell(&self, members: &BTreeMap<String, &RawValue>, name: &str) -> Option<String> {
        if let Some(value) = find(members, name) {
            return Some(self.text(value.get()));
        }
        let (outer, inner) = name.split_once('.')?;
        self.cell(&json::members(find(members, outer)?.get().as_bytes()).ok()?, inner)
    }

    /// A value as a cell has it.
    fn text(&self, value: &str) -> String {
        match value.as_bytes().first() {
            Some(b'n') => NULL.to_owned(),
            Some(b'"') => serde_json::from_str(value).unwrap_or_default(),
            Some(b'[') => match serde_json::from_str::<Vec<String>>(value) {
                Ok(texts) if !texts.is_empty() => texts.join(&self.separator().to_string()),
                _ => value.to_owned(),
            },
            Some(b'-' | b'0'..=b'9') if self.decimal_comma => value.replace('.', ","),
            _ => value.to_owned(),
        }
    }
}

/// The field of an item that a column has.
fn item_field(name: &str) -> Option<&str> {
    let (prefix, field) = name.split_at_checked(ITEM.len())?;
    prefix.eq_ignore_ascii_case(ITEM).then_some(field)
}

fn is_key(name: &str) -> bool {
    KEYS.iter().any(|key| key.eq_ignore_ascii_case(name))
}

/// Whether a column has digits that are no number.
fn is_of_digits(name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or_default();
    let is_zip =
        name.len() >= 3 && name.get(name.len() - 3..).is_some_and(|end| end.eq_ignore_ascii_case("zip"));
    is_zip || DIGITS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// A part of a cell that a spreadsheet has written as `8.59E+12`.
fn shortened(cell: &str) -> Option<&str> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_shortened = |part: &&str| {
        let Some((figure, power)) = part.trim().split_once(['E', 'e']) else { return false };
        let (whole, places) = figure.split_once(['.', ',']).unwrap_or((figure, "0"));
        let whole = whole.strip_prefix('-').unwrap_or(whole);
        whole.len() == 1
            && is_digits(whole)
            && is_digits(places)
            && power.strip_prefix('+').is_some_and(is_digits)
    };
    // a comma is between elements, too, or before the fraction
    std::iter::once(cell).chain(cell.split('|')).chain(cell.split(',')).find(is_shortened)
}

fn find<'r>(members: &BTreeMap<String, &'r RawValue>, name: &str) -> Option<&'r RawValue> {
    members.get(name).copied().or_else(|| {
        members.iter().find(|(member, _)| member.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    })
}

/// Writes text as JSON.
fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    // strings in memory: it cannot fail
    let _ = serde_json::to_writer(out, value);
}
