//! `--map`: columns of a file of CSV get the names that the service knows, and numbers another unit, or they are left out. All
//! else of the file is passed on as it is, byte for byte, so that its lines keep their numbers and the service judges them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use encoding_rs::Encoding;

use crate::Usage;

/// What may be between two cells, as the service finds it.
const DELIMITERS: [u8; 4] = *b",;\t|";

/// All columns that nothing else names.
const OTHERS: &str = "*";

/// A field that the service does not read. So it is with all names that begin with this.
const LEFT_OUT: &str = "_";

/// Bytes of the first line, at most.
const LONGEST_HEAD: u64 = 1024 * 1024;

/// The new name of a column, and a factor of its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renaming {
    from: String,
    to: String,
    factor: Option<Decimal>,
}

impl Renaming {
    /// Reads `weight_kg=weight*1000`.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let wrong = "must be COLUMN=FIELD, COLUMN=FIELD*FACTOR with a decimal number (weight_kg=weight*1000), or *=_ to leave all \
                     other columns out";
        let (from, to) = text.rsplit_once('=').ok_or(wrong)?;
        let (to, factor) = match to.split_once('*') {
            Some((to, factor)) => (to, Some(Decimal::read(factor.trim(), b'.').ok_or(wrong)?)),
            None => (to, None),
        };
        let (from, to) = (from.trim(), to.trim());
        let is_name = !to.is_empty() && to.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
        if from.is_empty() || !is_name || (from == OTHERS) && (to, factor) != (LEFT_OUT, None) {
            return Err(wrong);
        }
        Ok(Self { from: from.to_owned(), to: to.to_owned(), factor })
    }
}

/// How a file is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Bytes of the first line, which `head` replaces.
    skipped: u64,
    head: Vec<u8>,
    /// The delimiter of the file.
    pub(super) delimiter: u8,
    /// The factor of each column that has one.
    factors: Vec<Option<Decimal>>,
}

impl Plan {
    /// Reads the first line of a file.
    pub(super) fn of(path: &Path, charset: Option<&str>, renamings: &[Renaming]) -> anyhow::Result<Self> {
        let head = first_line(BufReader::new(File::open(path)?.take(LONGEST_HEAD)))?;
        Ok(Self::of_head(&head, charset, renamings)?)
    }

    fn of_head(line: &[u8], charset: Option<&str>, renamings: &[Renaming]) -> Result<Self, Usage> {
        let encoding = Encoding::for_label(charset.unwrap_or("utf-8").as_bytes());
        let encoding = encoding
            .filter(|encoding| encoding.is_ascii_compatible())
            .ok_or_else(|| Usage("--map reads files whose letters are bytes: save it as UTF-8".to_owned()))?;
        let counts = DELIMITERS.map(|delimiter| cells(line, delimiter).count());
        // the first of those that are as many
        let most = DELIMITERS.into_iter().zip(counts).rev().max_by_key(|(_, count)| *count);
        let delimiter = most.map_or(b',', |(delimiter, _)| delimiter);
        let names: Vec<String> = cells(line, delimiter).map(|cell| named(cell, encoding)).collect();
        let mut given: Vec<Option<&Renaming>> = vec![None; names.len()];
        let (others, renamings): (Vec<_>, Vec<_>) = renamings.iter().partition(|one| one.from == OTHERS);
        for renaming in renamings {
            let from = renaming.from.to_lowercase();
            let column = names
                .iter()
                .zip(&mut given)
                .find(|(name, given)| given.is_none() && name.to_lowercase() == from);
            let Some((_, given)) = column else {
                let there = names.join(", ");
                return Err(Usage(format!("the file has no column {}; it has {there}", renaming.from)));
            };
            *given = Some(renaming);
        }
        let mut head: Vec<u8> = Vec::with_capacity(line.len());
        for (number, ((cell, name), given)) in (1..).zip(cells(line, delimiter).zip(&names).zip(&given)) {
            if number > 1 {
                head.push(delimiter);
            }
            match given {
                Some(Renaming { to, .. }) if to != name => head.extend_from_slice(to.as_bytes()),
                // unique, whatever it was
                None if !others.is_empty() => {
                    head.extend_from_slice(format!("{LEFT_OUT}{number}").as_bytes());
                }
                // a name that stays is in the letters of the file
                _ => head.extend_from_slice(cell),
            }
        }
        let factors = given.iter().map(|given| given.and_then(|renaming| renaming.factor)).collect();
        let end = line.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        head.extend(line.iter().skip(line.len() - end));
        let skipped = u64::try_from(line.len()).unwrap_or(u64::MAX);
        Ok(Self { skipped, head, delimiter, factors })
    }

    /// The file as it is sent.
    pub(super) fn pass_on(&self, file: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        let mut file = BufReader::new(file);
        let head = io::Cursor::new(self.head.clone());
        let mut rest = Rest {
            delimiter: self.delimiter,
            factors: self.factors.clone(),
            column: 0,
            is_quoted: false,
            cell: Vec::new(),
            ready: io::Cursor::new(Vec::new()),
        };
        let mut skipped = self.skipped;
        let rows = Reading(move |buffer: &mut [u8]| {
            skipped -= io::copy(&mut (&mut file).take(skipped), &mut io::sink())?;
            rest.read(&mut file, buffer)
        });
        Box::new(head.chain(rows))
    }
}

/// The first line that is not blank, with those before it and with its end.
fn first_line(mut file: impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let before = line.len();
        file.read_until(b'\n', &mut line)?;
        let is_open = line.iter().fold(false, |is_open, byte| is_open ^ (*byte == b'"'));
        let is_blank = line.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        if line.len() == before || !is_blank && !is_open {
            return Ok(line);
        }
    }
}

/// The cells of a line, with their quotes and without the end of the line.
fn cells(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    let end = line.iter().rev().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let mut is_quoted = false;
    line.get(..line.len() - end).unwrap_or_default().split(move |byte| {
        is_quoted ^= *byte == b'"';
        !is_quoted && *byte == delimiter
    })
}

/// The name that a cell of the first line says.
fn named(cell: &[u8], encoding: &'static Encoding) -> String {
    let text = encoding.decode_with_bom_removal(cell).0;
    let text = text.trim();
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    quoted.map_or_else(|| text.to_owned(), |text| text.replace("\"\"", "\"").trim().to_owned())
}

/// A reader that a closure is.
struct Reading<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for Reading<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (self.0)(buffer)
    }
}

/// What is behind the first line.
struct Rest {
    delimiter: u8,
    factors: Vec<Option<Decimal>>,
    column: usize,
    is_quoted: bool,
    /// What has arrived of a cell that has a factor.
    cell: Vec<u8>,
    ready: io::Cursor<Vec<u8>>,
}

impl Rest {
    fn read(&mut self, file: &mut impl BufRead, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.ready.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let piece = file.fill_buf()?;
            let (arrived, mut out) = (piece.len(), Vec::with_capacity(piece.len()));
            for byte in piece {
                self.pass(*byte, &mut out);
            }
            if arrived == 0 {
                self.end_cell(&mut out);
                if out.is_empty() {
                    return Ok(0);
                }
            }
            file.consume(arrived);
            self.ready = io::Cursor::new(out);
        }
    }

    fn pass(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.is_quoted ^= byte == b'"';
        if !self.is_quoted && (byte == self.delimiter || matches!(byte, b'\r' | b'\n')) {
            self.end_cell(out);
            self.column = if byte == self.delimiter { self.column + 1 } else { 0 };
            out.push(byte);
        } else if self.factor().is_some() {
            self.cell.push(byte);
        } else {
            out.push(byte);
        }
    }

    fn factor(&self) -> Option<Decimal> {
        self.factors.get(self.column).copied().flatten()
    }

    fn end_cell(&mut self, out: &mut Vec<u8>) {
        let product = self.factor().and_then(|factor| factor.times(&self.cell, self.delimiter));
        match product {
            Some(product) => out.extend(product.into_bytes()),
            None => out.extend(&self.cell),
        }
        self.cell.clear();
    }
}

/// A decimal number: `digits` and how many of them are behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: i128,
    behind: usize,
}

impl Decimal {
    fn read(text: &str, point: u8) -> Option<Self> {
        let (whole, part) = text.split_once(char::from(point)).unwrap_or((text, ""));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let unsigned = whole.trim_start_matches(['+', '-']);
        let (has_whole, has_part) = (is_number(unsigned), is_number(part));
        // some exports write .5
        if !(has_whole || unsigned.is_empty() && has_part) || text.contains(char::from(point)) && !has_part {
            return None;
        }
        // 18 digits on either side of a multiplication are exact
        let digits = format!("{whole}{part}");
        Some(Self { digits: digits.parse().ok().filter(|_| digits.len() <= 18)?, behind: part.len() })
    }

    /// A number of a file times this one, rounded, since all numbers of products and stocks are whole; nothing if it is none, for
    /// the service to judge.
    fn times(self, cell: &[u8], delimiter: u8) -> Option<String> {
        let text = str::from_utf8(cell).ok()?.trim();
        let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text).trim();
        let point = if delimiter != b',' && text.contains(',') { b',' } else { b'.' };
        let number = Self::read(text, point)?;
        let one = 10_i128.pow(u32::try_from(number.behind + self.behind).ok()?);
        let product = number.digits * self.digits;
        Some(((product + product.signum() * one / 2) / one).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(file: &str, charset: Option<&str>, maps: &[&str], piece: usize) -> Result<Vec<u8>, String> {
        passed_bytes(file.as_bytes(), charset, maps, piece)
    }

    fn passed_bytes(
        file: &[u8],
        charset: Option<&str>,
        maps: &[&str],
        piece: usize,
    ) -> Result<Vec<u8>, String> {
        let renamings: Vec<_> = maps.iter().map(|text| Renaming::read(text).unwrap()).collect();
        let plan = Plan::of_head(&first_line(file).unwrap(), charset, &renamings).map_err(|usage| usage.0)?;
        let mut passed = plan.pass_on(Box::new(io::Cursor::new(file.to_vec())));
        let (mut out, mut buffer) = (Vec::new(), vec![0; piece]);
        loop {
            match passed.read(&mut buffer).unwrap() {
                0 => return Ok(out),
                length => out.extend(&buffer[..length]),
            }
        }
    }

    #[test]
    fn names_and_units_change_and_nothing_else() {
        let file = "\u{feff}SKU;Name;\"weight_kg\"\r\n\r\nM-1;\"a;\r\n\"\"b\"\"\";1,250\r\nM-2;x; \"0,5\" \r\nM-3;1,5;heavy\r\nM-4;;\r\nM-5;y;-2";
        let maps = ["sku=productSku", "weight_KG=weight*1000", "name=name"];
        let wanted = "productSku;name;weight\r\n\r\nM-1;\"a;\r\n\"\"b\"\"\";1250\r\nM-2;x;500\r\nM-3;1,5;heavy\r\nM-4;;\r\nM-5;y;-2000";
        for piece in [1, 2, 7, 10_000] {
            let passed = passed(file, None, &maps, piece).unwrap();
            assert_eq!(String::from_utf8(passed).unwrap(), wanted);
        }
        // without a renaming nothing changes at all, not even what is no CSV
        for file in ["", "\r\n", "a,b\n\"open", "a\"b\nc", "\na|b\r\n1|2\n"] {
            assert_eq!(passed(file, None, &[], 3).unwrap(), file.as_bytes());
        }
    }

    #[test]
    fn all_other_columns_are_left_out() {
        let file = "Handle,Title,,Variant SKU,Title\nmug,\"Mug, blue\",,M-1,x\n";
        let maps = ["*=_", "title=name", "variant sku=productSku"];
        let wanted = "_1,name,_3,productSku,_5\nmug,\"Mug, blue\",,M-1,x\n";
        assert_eq!(passed(file, None, &maps, 5).unwrap(), wanted.as_bytes());
        // columns may change their names, and of two with one name each has its own
        assert_eq!(passed("a,b,b\n", None, &["a=b", "b=a", "b=c"], 9).unwrap(), b"b,a,c\n");
        assert!(passed("a,b\n", None, &["a=b", "a=c"], 9).unwrap_err().contains("no column a"));
        for wrong in ["*=name", "*=_*2", "*=_x"] {
            assert!(Renaming::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_column_is_found_in_the_letters_of_the_file() {
        let file = b"N\xe1zev\tC\n\x9eba\t2\n";
        let passed = passed_bytes(file, Some("windows-1250"), &["název=name", "C=weight*0.25"], 4);
        assert_eq!(passed.unwrap(), b"name\tweight\n\x9eba\t1\n");
        let refused = passed_bytes(file, Some("windows-1250"), &["C=weight", "nazev=name"], 4).unwrap_err();
        assert_eq!(refused, "the file has no column nazev; it has Název, C");
        assert!(passed_bytes(file, Some("utf-16"), &["C=weight"], 4).unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn numbers_are_multiplied_exactly_and_rounded() {
        let times = |number: &str, factor: &str, delimiter| {
            Decimal::read(factor, b'.').unwrap().times(number.as_bytes(), delimiter)
        };
        for (number, factor, delimiter, product) in [
            ("0.1", "30", b';', Some("3")),
            ("1,005", "100", b';', Some("101")),
            ("-1,004", "100", b';', Some("-100")),
            (".5", "453.59237", b',', Some("227")),
            ("-.5", "3", b',', Some("-2")),
            (".", "3", b',', None),
            ("12345678901234567", "0.00000000000000001", b',', Some("0")),
            ("1,005", "100", b',', None),
            ("+7", "0.1", b',', Some("1")),
            ("1.000.000", "2", b';', None),
            ("12345678901234567890", "2", b';', None),
            ("1e3", "2", b';', None),
            ("", "2", b';', None),
        ] {
            assert_eq!(times(number, factor, delimiter).as_deref(), product, "{number} * {factor}");
        }
        for wrong in ["weight", "=weight", "kg=", "kg=weight*x", "kg=wei ght", "kg=weight*"] {
            assert!(Renaming::read(wrong).is_err(), "{wrong}");
        }
    }
}
