//! `.npy`: a NumPy array of `f32` with two dimensions, `[rows][dim]`.
//!
//! The format is `\x93NUMPY`, a version, the header's length, and a Python dict with exactly the keys
//! `descr`, `fortran_order` and `shape` ([NEP 1](https://numpy.org/neps/nep-0001-npy-format.html)).
//! NumPy writes that dict in one fixed style, so a strict parser of it is enough; other element types are
//! refused with a message that says how to convert.

use std::io::Read;

use super::error::{DatasetError, Problem};
use super::source::Source;
use super::table::Table;

const MAGIC: [u8; 6] = *b"\x93NUMPY";

pub(super) fn table(source: &mut Source<impl Read>) -> Result<Table<f32>, DatasetError> {
    if source.left() == 0 {
        return Err(source.malformed(0, Problem::Empty));
    }
    let header = header(source)?;
    let data_at = source.at();
    let [rows, dim] = header.shape;
    if rows == 0 {
        return Err(source.malformed(data_at, Problem::Empty));
    }
    if dim == 0 {
        return Err(source.malformed(data_at, Problem::BadDim { dim: 0 }));
    }
    let Some(row_bytes) = dim.checked_mul(4) else {
        return Err(source.malformed(data_at, Problem::TooLarge { rows, dim }));
    };
    source.expect_rest(rows, row_bytes)?;

    // The file's length bounds both, so they fit.
    let (rows, dim) = (rows as usize, dim as usize);
    let count = rows * dim;
    let mut values = Vec::with_capacity(count);
    if header.fortran_order {
        // Column after column: value `at` of the file is row `at % rows` of column `at / rows`.
        values.resize(count, 0.0);
        let mut at = 0;
        source.values(count, |bytes| {
            values[at % rows * dim + at / rows] = f32::from_le_bytes(bytes);
            at += 1;
        })?;
    } else {
        source.values(count, |bytes| values.push(f32::from_le_bytes(bytes)))?;
    }
    let by_column = header.fortran_order;
    Ok(Table {
        values,
        dim,
        offset: Box::new(move |at| {
            let stored = if by_column {
                at % dim * rows + at / dim
            } else {
                at
            };
            data_at + stored as u64 * 4
        }),
    })
}

#[derive(Debug, PartialEq)]
struct Header {
    fortran_order: bool,
    shape: [u64; 2],
}

/// Reads up to the first value.
fn header(source: &mut Source<impl Read>) -> Result<Header, DatasetError> {
    let npy = |why: &str| Problem::Npy(why.to_owned());
    if source.bytes()? != MAGIC {
        return Err(source.malformed(0, npy("no .npy file: it does not start with \\x93NUMPY")));
    }
    let [major, minor] = source.bytes()?;
    let length = match major {
        1 => u64::from(u16::from_le_bytes(source.bytes()?)),
        2 | 3 => u64::from(u32::from_le_bytes(source.bytes()?)),
        _ => {
            let why = format!("format version {major}.{minor}; known are 1, 2 and 3");
            return Err(source.malformed(MAGIC.len() as u64, Problem::Npy(why)));
        }
    };
    let (at, left) = (source.at(), source.left());
    if length > left {
        return Err(source.malformed(
            at,
            Problem::Truncated {
                needed: length,
                left,
            },
        ));
    }
    let mut text = vec![0; length as usize];
    source.fill(&mut text)?;
    let text = str::from_utf8(&text).map_err(|_| source.malformed(at, Problem::NotUtf8))?;
    let mut cursor = Cursor { text, at: 0 };
    cursor
        .header()
        .map_err(|why| source.malformed(at + cursor.at as u64, Problem::Npy(why)))
}

/// Walks the header's text. `at` stays where an error was met.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn header(&mut self) -> Result<Header, String> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.accept("}") {
            let at = self.at;
            let key = self.string()?;
            self.expect(":")?;
            let new = match key {
                "descr" => descr.replace(self.descr()?).is_none(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_none(),
                "shape" => shape.replace(self.shape()?).is_none(),
                _ => false,
            };
            if !new {
                let why = format!("key {key:?} is unknown or comes twice in the header");
                self.at = at;
                return Err(why);
            }
            if !self.accept(",") {
                self.expect("}")?;
                break;
            }
        }
        if !self.rest().trim().is_empty() {
            return Err("the header goes on after its dict".to_owned());
        }
        match (descr, fortran_order, shape) {
            (Some(()), Some(fortran_order), Some(shape)) => Ok(Header {
                fortran_order,
                shape,
            }),
            _ => Err("the header lacks descr, fortran_order or shape".to_owned()),
        }
    }

    fn descr(&mut self) -> Result<(), String> {
        match self.string()? {
            "<f4" => Ok(()),
            other => Err(format!(
                "element type {other:?}; convert it with numpy: array.astype('<f4')"
            )),
        }
    }

    fn boolean(&mut self) -> Result<bool, String> {
        if self.accept("True") {
            return Ok(true);
        }
        self.expect("False").map(|()| false)
    }

    fn shape(&mut self) -> Result<[u64; 2], String> {
        let mut sizes = Vec::new();
        self.expect("(")?;
        while !self.accept(")") {
            sizes.push(self.number()?);
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        let found = sizes.len();
        sizes
            .try_into()
            .map_err(|_| format!("{found} dimensions; expected 2: rows and values a row"))
    }

    fn number(&mut self) -> Result<u64, String> {
        let rest = self.rest();
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number = rest[..digits]
            .parse()
            .map_err(|_| "expected a number in shape".to_owned());
        self.at += digits;
        number
    }

    /// A string in single quotes. NumPy writes no escapes.
    fn string(&mut self) -> Result<&'a str, String> {
        self.expect("'")?;
        let start = self.at;
        let length = self.text[start..]
            .find('\'')
            .ok_or("a string does not end in the header")?;
        self.at = start + length + 1;
        Ok(&self.text[start..start + length])
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.accept(token) {
            Ok(())
        } else {
            Err(format!("expected {token:?} in the header"))
        }
    }

    /// Steps over `token` if it comes next, blanks before it included.
    fn accept(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// What follows, from the next character that is not blank.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Header, String> {
        Cursor { text, at: 0 }.header()
    }

    #[test]
    fn headers_as_numpy_writes_them_are_understood() {
        let text = "{'descr': '<f4', 'fortran_order': True, 'shape': (400000, 50), }      \n";
        let expected = Header {
            fortran_order: true,
            shape: [400_000, 50],
        };
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn headers_that_describe_something_else_are_refused_with_the_reason() {
        let cases = [
            (
                "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }",
                "astype",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
                "1 dimensions",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 1), }",
                "3 dimensions",
            ),
            ("{'descr': '<f4', 'fortran_order': False, }", "lacks"),
            ("{'descr': '<f4', 'descr': '<f4', }", "twice"),
            (
                "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1, 1), }",
                "expected",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -2), }",
                "number",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), } x",
                "goes on",
            ),
        ];
        for (text, reason) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_header_parser_panic(text in "[{}()',:0-9 a-z\u{e9}]{0,60}") {
            let _ = parse(&text);
        }
    }
}
