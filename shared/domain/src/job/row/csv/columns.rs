//! The columns of a file, and the rows that its lines make.

use std::collections::HashMap;

use longshore_kernel::csv::read::{Record, said};
use longshore_kernel::csv::write::is_number;
use longshore_kernel::input::{Reader, Schema};
use longshore_kernel::json::REPEATED_KEY;
use longshore_kernel::problem::{MALFORMED_BODY, Problem, Violation};
use serde_json::value::RawValue;

use super::{CsvForm, IGNORED, ITEM, ITEMS, KEYS, NULL, write};
use crate::job::payload::LONGEST_ROW;

/// Bytes of the lines of one order in memory.
const LONGEST_ORDER: usize = 4 * LONGEST_ROW;
/// Characters of the name of a column.
const LONGEST_NAME: usize = 255;

/// What may be done with a column that is no field ([`IGNORED`]).
const LEAVE_OUT: &str = "; begin its name with _ to leave the column out";

/// What a cell is read as. What is no such value stays text, which the rule of its field refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Boolean,
    /// Texts.
    List,
    /// An array of objects, as JSON.
    Json,
}

/// A field that CSV can give, by its dotted name.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    kind: Kind,
}

/// A column of a file.
#[derive(Clone, Debug)]
struct Column {
    place: usize,
    kind: Kind,
    /// The members that its value is within, and its own, each as JSON has it before the value.
    path: Vec<Vec<u8>>,
}

/// Makes rows of lines.
#[derive(Debug)]
pub struct Columns {
    form: CsvForm,
    /// The columns of the row, and of its items, each in the order of the dotted names.
    own: Vec<Column>,
    of_items: Vec<Column>,
    /// The column by which lines are one row, where a row has several.
    key: Option<usize>,
    /// The lines of a row that may have more, and their bytes in memory.
    waiting: Vec<Record>,
    held: usize,
}

/// A row, and the line that it begins in.
pub type Made = (Vec<u8>, u64);

impl Columns {
    /// Reads the line with the names, of rows that a schema accepts.
    ///
    /// # Errors
    /// A name that is unknown, empty, or there twice.
    pub fn new(schema: &Schema, delimiter: u8, names: &Record) -> Result<Self, Problem> {
        let fields = fields(schema);
        let names: Vec<String> = names.cells().map(|name| said(name).trim().to_owned()).collect();
        let (mut own, mut of_items, mut seen) = (Vec::new(), Vec::new(), HashMap::new());
        let (mut reader, mut refused) = (Reader::default(), Vec::new());
        for (place, name) in names.iter().enumerate() {
            let plain = name.to_lowercase();
            let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
            if name.is_empty() {
                let column = format!("column {}", place + 1);
                refused.push(Violation::new(column, "required", "must have a name"));
            } else if name.chars().nth(LONGEST_NAME).is_some() {
                let message = format!("must have at most {LONGEST_NAME} characters");
                refused.push(Violation::new(name, "invalid_length", message));
            } else if let Some(first) = seen.insert(plain, place) {
                let message =
                    format!("must be given only once; columns {} and {} have it", first + 1, place + 1);
                refused.push(Violation::new(name, REPEATED_KEY, message));
            } else if name.starts_with(IGNORED) {
                own.push(Column { place, kind: Kind::Text, path: vec![member(name)] });
            } else if let Some(Field { name, kind }) = field {
                let (of, name) = match name.strip_prefix(ITEM) {
                    Some(name) => (&mut of_items, name),
                    None => (&mut own, name.as_str()),
                };
                of.push(Column { place, kind: *kind, path: name.split('.').map(member).collect() });
            } else {
                let known = fields.iter().map(|field| field.name.as_str());
                reader.member(name, |reader| reader.refuse_unknown(name, known, LEAVE_OUT));
            }
        }
        refused.extend(reader.into_violations());
        if !refused.is_empty() {
            return Err(Problem::invalid(refused));
        }
        for columns in [&mut own, &mut of_items] {
            // the members of one object beside each other
            columns.sort_by(|a, b| a.path.cmp(&b.path));
        }
        let has_items = fields.iter().any(|field| field.name.starts_with(ITEM));
        let is_key = |name: &String| KEYS.iter().any(|key| key.eq_ignore_ascii_case(name));
        let key = names.iter().position(is_key).filter(|_| has_items);
        let form = CsvForm { delimiter: char::from(delimiter), decimal_comma: false, names };
        Ok(Self { form, own, of_items, key, waiting: Vec::new(), held: 0 })
    }

    /// The form of the file, as far as it was read.
    #[must_use]
    pub fn form(&self) -> &CsvForm {
        &self.form
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes a line, and returns the row that it ends or makes. One in which nothing is given is passed over.
    ///
    /// # Errors
    /// The row is too long.
    pub fn push(&mut self, line: &mut Record) -> Result<Option<Made>, Problem> {
        if line.cells().all(str::is_empty) {
            return Ok(None);
        }
        line.say();
        let Some(key) = self.key else { return self.row(std::slice::from_ref(line)).map(Some) };
        let continues = |first: &Record| !line.cell(key).is_empty() && first.cell(key) == line.cell(key);
        let made = if self.waiting.first().is_some_and(continues) { None } else { self.rest()? };
        self.held += line.held();
        self.waiting.push(std::mem::take(line));
        if self.held > LONGEST_ORDER {
            return Err(self.too_long());
        }
        Ok(made)
    }

    /// The row that may have had more lines.
    ///
    /// # Errors
    /// It is too long.
    pub fn rest(&mut self) -> Result<Option<Made>, Problem> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        let waiting = std::mem::take(&mut self.waiting);
        self.held = 0;
        self.row(&waiting).map(Some)
    }

    fn too_long(&self) -> Problem {
        too_long(self.waiting.first().map_or(0, Record::line))
    }

    /// The row that lines are: as the JSON forms have it, or, where that cannot be, its lines.
    fn row(&mut self, lines: &[Record]) -> Result<Made, Problem> {
        let line = lines.first().map_or(0, Record::line);
        let row = match self.form.judge(lines) {
            Some(_) => self.form.stored_lines(lines),
            None => self.json(lines),
        };
        if row.len() > LONGEST_ROW { Err(too_long(line)) } else { Ok((row, line)) }
    }

    fn json(&mut self, lines: &[Record]) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let Some(first) = lines.first() else { return out };
        self.object(&self.own, first, &mut out);
        let mut comma = has_comma(&self.form, &self.own, first);
        let has_item =
            |line: &&Record| self.of_items.iter().any(|column| !line.cell(column.place).is_empty());
        for (number, line) in lines.iter().filter(has_item).enumerate() {
            comma |= has_comma(&self.form, &self.of_items, line);
            if number == 0 {
                // instead of the end of the row
                out.pop();
                begin(&mut out, &member(ITEMS));
                out.push(b'[');
            } else {
                out.push(b',');
            }
            self.object(&self.of_items, line, &mut out);
        }
        if lines.iter().any(|line| has_item(&line)) {
            out.extend_from_slice(b"]}");
        }
        self.form.decimal_comma |= comma;
        out
    }

    /// Writes what a line gives of an object.
    fn object(&self, columns: &[Column], line: &Record, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut open: &[Vec<u8>] = &[];
        for column in columns {
            let cell = line.cell(column.place);
            let Some((name, outer)) = column.path.split_last().filter(|_| !cell.is_empty()) else { continue };
            let common = open.iter().zip(outer).take_while(|(open, outer)| open == outer).count();
            out.extend(open.iter().skip(common).map(|_| b'}'));
            for name in outer.iter().skip(common) {
                begin(out, name);
                out.push(b'{');
            }
            open = outer;
            begin(out, name);
            self.value(column.kind, cell, out);
        }
        out.extend(open.iter().map(|_| b'}'));
        out.push(b'}');
    }

    fn value(&self, kind: Kind, cell: &str, out: &mut Vec<u8>) {
        let trimmed = cell.trim();
        match kind {
            _ if cell == NULL => out.extend_from_slice(b"null"),
            Kind::Number if self.form.is_number(trimmed) => number(trimmed, out),
            Kind::Boolean => match boolean(trimmed) {
                Some(word) => out.extend_from_slice(if word { b"true" } else { b"false" }),
                None => write(out, &cell),
            },
            Kind::List => write(out, &cell.split(self.form.separator()).collect::<Vec<_>>()),
            Kind::Json if is_objects(trimmed) => out.extend_from_slice(trimmed.as_bytes()),
            Kind::Text | Kind::Number | Kind::Json => write(out, &cell),
        }
    }
}

impl CsvForm {
    /// Whether a cell is a number. In a file whose delimiter is the comma, it has no other meaning.
    fn is_number(&self, cell: &str) -> bool {
        /// Digits that a number may have: more are no number of a person.
        const MOST_DIGITS: usize = 30;
        cell.len() <= MOST_DIGITS && is_number(cell) && !(self.delimiter == ',' && cell.contains(','))
    }
}

fn has_comma(form: &CsvForm, columns: &[Column], line: &Record) -> bool {
    let numbers = columns.iter().filter(|column| column.kind == Kind::Number);
    let mut cells = numbers.map(|column| line.cell(column.place).trim());
    form.delimiter != ','
        && !form.decimal_comma
        && cells.any(|cell| cell.contains(',') && form.is_number(cell))
}

/// What a text says of yes or no.
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    let is_one_of = |words: [&str; 3]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    if is_one_of(["true", "1", "yes"]) {
        return Some(true);
    }
    is_one_of(["false", "0", "no"]).then_some(false)
}

/// Whether a text is an object of JSON, or an array of them.
fn is_objects(text: &str) -> bool {
    let inner = text.strip_prefix('[').map_or(text, str::trim_start);
    let is_array = inner.len() < text.len();
    (inner.starts_with('{') || (is_array && inner == "]")) && serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Writes a number of a person as JSON has it: without a plus, and without zeros before it.
fn number(cell: &str, out: &mut Vec<u8>) {
    let (sign, digits) = match cell.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", cell.strip_prefix('+').unwrap_or(cell)),
    };
    let (whole, places) = digits.split_once(['.', ',']).map_or((digits, None), |(a, b)| (a, Some(b)));
    let whole = whole.trim_start_matches('0');
    out.extend_from_slice(sign.as_bytes());
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole.as_bytes() });
    if let Some(places) = places {
        out.push(b'.');
        out.extend_from_slice(places.as_bytes());
    }
}

/// A name, as JSON has it before the value.
fn member(name: impl AsRef<str>) -> Vec<u8> {
    let mut written = Vec::new();
    write(&mut written, &name.as_ref());
    written.push(b':');
    written
}

/// Begins a member.
fn begin(out: &mut Vec<u8>, name: &[u8]) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(name);
}

fn too_long(line: u64) -> Problem {
    Problem::new(&MALFORMED_BODY, format!("the row in line {line} is longer than {LONGEST_ROW} bytes"))
}

/// The fields of rows.
fn fields(schema: &Schema) -> Vec<Field> {
    let mut found = Vec::new();
    let Schema::Object(members) = schema else { return found };
    for member in members {
        match &member.schema {
            Schema::Array(_, items) if member.name == ITEMS => add(items, ITEM, &mut found),
            schema => add(schema, member.name, &mut found),
        }
    }
    found
}

/// Adds the field of a name, or, of an object, those of its members.
fn add(schema: &Schema, name: &str, found: &mut Vec<Field>) {
    let kind = match schema {
        Schema::Object(members) => {
            for member in members {
                let dot = if name.ends_with('.') { "" } else { "." };
                add(&member.schema, &format!("{name}{dot}{}", member.name), found);
            }
            return;
        }
        Schema::OrNull(schema) => return add(schema, name, found),
        _ => kind(schema),
    };
    found.push(Field { name: name.to_owned(), kind });
}

fn kind(schema: &Schema) -> Kind {
    match schema {
        Schema::Integer(_) | Schema::Number(_) => Kind::Number,
        Schema::Boolean => Kind::Boolean,
        Schema::Array(_, elements) if kind(elements) == Kind::Text => Kind::List,
        Schema::Array(..) | Schema::Object(_) | Schema::AnyObject | Schema::Anything => Kind::Json,
        Schema::OrNull(schema) => kind(schema),
        // a zip is text, though it may be given as an integer
        Schema::Either(schemas) => match schemas.first() {
            Some(first) => kind(first),
            None => Kind::Text,
        },
        Schema::Text { .. }
        | Schema::Base64
        | Schema::Id
        | Schema::Timestamp
        | Schema::Date
        | Schema::OneOf(_) => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use longshore_kernel::csv::write::is_marked;
    use longshore_kernel::input::{Member, Object, array, boolean, int32, object, or_null, text};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn schema() -> Schema {
        Object::schema(|row| {
            row.optional("orderNumber", text(1..=32));
            row.nullable("note", text(0..=99));
            row.nullable("priority", int32(0..=9));
            row.optional("cod", boolean());
            row.optional("referenceNumbers", array(0..=9, text(1..=9)));
            row.nullable("billingZip", text(0..=9));
            row.nullable(
                "options",
                object(|options| {
                    options.nullable("id", text(0..=9));
                    options.nullable("deep", object(|deep| Some(deep.nullable("flag", boolean()))));
                    Some(())
                }),
            );
            let part = object(|part| part.required("id", text(1..=9)));
            row.optional("parts", array(0..=9, part));
            let item = object(|item| {
                item.optional("productSku", text(1..=9));
                item.required("quantity", int32(0..=9));
                item.nullable("value", or_null(int32(0..=9)));
                Some(())
            });
            row.optional("items", array(1..=9, item));
        })
    }

    /// The rows of lines, each with its line.
    fn made(lines: &[&[&str]]) -> (CsvForm, Vec<Made>) {
        let mut lines = lines.iter().map(|cells| cells.iter().collect::<Record>());
        let mut columns = Columns::new(&schema(), b';', &lines.next().unwrap()).unwrap();
        let mut made: Vec<Made> = lines.filter_map(|mut line| columns.push(&mut line).unwrap()).collect();
        made.extend(columns.rest().unwrap());
        (columns.form, made)
    }

    fn rows(lines: &[&[&str]]) -> Vec<Value> {
        let (form, made) = made(lines);
        let row = |(row, _): &Made| match form.refusal(row) {
            Some((key, (code, message))) => json!([key, code, message]),
            None => serde_json::from_slice(row).unwrap(),
        };
        made.iter().map(row).collect()
    }

    #[test]
    fn cells_are_read_as_the_types_of_their_fields() {
        let names =
            &["ORDERNUMBER", "cod", "priority", "options.id", "note", "options.deep.flag", "_x", "parts"];
        for (cells, row) in [
            (vec!["A"], json!({"orderNumber": "A"})),
            (
                vec!["A", "Yes", " +07 ", "1"],
                json!({"orderNumber": "A", "cod": true, "priority": 7, "options": {"id": "1"}}),
            ),
            (vec!["A", "maybe", "1 000"], json!({"orderNumber": "A", "cod": "maybe", "priority": "1 000"})),
            (
                vec!["A", "0", "1,50", "", "\\N"],
                json!({"orderNumber": "A", "cod": false, "priority": 1.5, "note": null}),
            ),
            (
                vec!["A", "", "-0.5", "x", "'=1", "no", "1"],
                json!({"orderNumber": "A", "priority": -0.5, "note": "=1", "_x": "1", "options": {"id": "x", "deep": {"flag": false}}}),
            ),
            (
                vec!["A", "", "1E+03", "", "", "", "", "[{\"id\": \"x\"}]"],
                json!({"orderNumber": "A", "priority": "1E+03", "parts": [{"id": "x"}]}),
            ),
            (vec!["A", "", "", "", "", "", "", "[1]"], json!({"orderNumber": "A", "parts": "[1]"})),
            (vec!["A", "", "", "", "", "", "", "{"], json!({"orderNumber": "A", "parts": "{"})),
        ] {
            assert_eq!(rows(&[names, &cells]), [row], "{cells:?}");
        }
        assert!(rows(&[names, &["", "", ""]]).is_empty());
    }

    #[test]
    fn lines_of_one_number_that_follow_each_other_are_one_order() {
        let names: &[&str] = &["orderNumber", "note", "item.productSku", "Item.quantity", "_x"];
        let item = |sku: &str, quantity: i32| json!({"productSku": sku, "quantity": quantity});
        assert_eq!(
            rows(&[
                names,
                &["1", "hi", "A", "1", "x"],
                &["1", "", "B", "2", "y"],
                &["1", "hi", "C", "3"],
                &["2", "", "A", "1"],
                &["", "", "A", "1"],
                &["", "", "A", "1"],
                &["1"],
            ]),
            [
                json!({"orderNumber": "1", "note": "hi", "_x": "x", "items": [item("A", 1), item("B", 2), item("C", 3)]}),
                json!({"orderNumber": "2", "items": [item("A", 1)]}),
                json!({"items": [item("A", 1)]}),
                json!({"items": [item("A", 1)]}),
                json!({"orderNumber": "1"}),
            ]
        );
        let refused = rows(&[names, &["1", "", "A", "1"], &["1", "late", "B", "1"]]);
        let message = "note of the 2. line of the order differs from the first; repeat it, or leave it empty";
        assert_eq!(refused, [json!(["1", "contradiction", message])]);
    }

    #[test]
    fn what_csv_is_wrong_with_is_refused_by_its_lines() {
        let names: &[&str] = &["orderNumber", "billingZip", "referenceNumbers", "note", "item.productSku"];
        let code = |cells: &[&str]| rows(&[names, cells])[0][1].clone();
        for cells in [
            vec!["8.59E+12"],
            vec!["A", "1,1E+10"],
            vec!["A", "", "x|5E+9"],
            vec!["A", "", "", "", "8,59E+12"],
        ] {
            assert_eq!(code(&cells), "looks_like_a_spreadsheet_number", "{cells:?}");
        }
        assert_eq!(code(&["A", "", "", "", "", "", "x"]), "malformed_row");
        for cells in [
            vec!["A", "1E5"],
            vec!["E+12", "E+1"],
            vec!["A", "", "", "8.59E+12"],
            vec!["A", "", "", "", "", ""],
        ] {
            assert!(rows(&[names, &cells])[0].is_object(), "{cells:?}");
        }
    }

    #[test]
    fn names_are_refused_with_all_that_is_wrong() {
        let names: Record =
            ["orderNumber", "", "Note", "note", "nota", "item.colour", "items"].iter().collect();
        let refused = Columns::new(&schema(), b';', &names).unwrap_err();
        let refused: Vec<_> = refused.violations().iter().map(ToString::to_string).collect();
        assert_eq!(
            refused,
            [
                "column 2 must have a name",
                "note must be given only once; columns 3 and 4 have it",
                "nota is not a known field; did you mean note?",
                "item.colour is not a known field; begin its name with _ to leave the column out",
                "items is not a known field; begin its name with _ to leave the column out",
            ]
        );
    }

    #[test]
    fn an_order_of_endless_lines_is_refused() {
        let names: Record = ["orderNumber", "note"].iter().collect();
        let mut columns = Columns::new(&schema(), b';', &names).unwrap();
        let refused = (0..1_000_000).find_map(|_| {
            let mut line: Record = ["A", "x"].iter().collect();
            columns.push(&mut line).err()
        });
        assert!(refused.unwrap().detail().contains("is longer than"));
        assert!(columns.held() <= 2 * LONGEST_ORDER);
    }

    #[test]
    fn a_property_path_is_called_as_its_column() {
        for (path, column) in [
            ("name", "name"),
            ("items[1].quantity", "item.quantity of item 2"),
            ("items[0]", "item 1"),
            ("items", "items"),
            ("carrierOptions.id", "carrierOptions.id"),
        ] {
            assert_eq!(CsvForm::column(path), column);
        }
    }

    #[test]
    fn a_field_of_each_type_has_a_column() {
        let of = |name: &'static str, schema| Member { name, schema, is_required: false, default: None };
        let either = Schema::Either(vec![Schema::Number(0.0..=1.0), Schema::OneOf(&["x"])]);
        let members = vec![of("a", either), of("b", Schema::Anything), of("c", Schema::Date)];
        let kinds: Vec<_> = fields(&Schema::Object(members)).into_iter().map(|field| field.kind).collect();
        assert_eq!(kinds, [Kind::Number, Kind::Json, Kind::Text]);
    }

    fn cell() -> impl Strategy<Value = String> {
        let known = [
            "",
            "",
            "A",
            "A",
            "\\N",
            "yes",
            "0",
            "1,50",
            "2.0",
            "+05",
            "007",
            "-1",
            "a|b",
            "a,b",
            "=1",
            "'=1",
            "8.59E+12",
            "[{\"id\":\"x\"}]",
            "[]",
            "{}",
            "\u{e9}\"\n",
            " 5 ",
            "123456789012345678901",
        ];
        prop_oneof![prop::sample::select(known.map(str::to_owned).to_vec()), "[a;'|,=0-9.]{0,5}"]
    }

    proptest! {
        #[test]
        fn a_stored_row_makes_the_cells_that_make_it(
            names in prop::sample::subsequence(vec![
                "orderNumber", "note", "PRIORITY", "cod", "referenceNumbers", "billingZip", "options.id", "options.deep.flag", "parts",
                "item.productSku", "item.quantity", "item.value", "_x",
            ], 1..13),
            lines in prop::collection::vec(prop::collection::vec(cell(), 1..15), 0..6),
        ) {
            let table = |lines: Vec<Vec<String>>| {
                let cells: Vec<Vec<&str>> = lines.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
                let all: Vec<&[&str]> = std::iter::once(names.as_slice()).chain(cells.iter().map(Vec::as_slice)).collect();
                made(&all)
            };
            let (form, first) = table(lines);
            let protected = |cell: String| if is_marked(&cell) { format!("'{cell}") } else { cell };
            let cells = |(row, _): &Made| {
                form.cells(row).into_iter().map(|line| line.into_iter().map(protected).collect::<Vec<_>>()).collect::<Vec<_>>()
            };
            for row in &first {
                // one by one: what stood between two rows of one number may have been an empty line
                let (_, again) = table(cells(row));
                let again: Vec<&Vec<u8>> = again.iter().map(|(row, _)| row).collect();
                prop_assert_eq!(again, vec![&row.0], "{}", String::from_utf8_lossy(&row.0));
            }
        }
    }
}
