//! A walk through a message's bytes, wherever they are cut, that adds up what the message decodes to.
//!
//! It follows `prost`'s decoder step by step and builds nothing. What that decoder would refuse is refused here too, so
//! that nothing is decoded that has not been walked through.

use super::schema::{Field, Schema, ShapeId, Wire};
use super::text::Letter;

/// What an allocation takes at least, and beside what is in it.
const LEAST: u64 = 32;
const BESIDE: u64 = 16;

/// A list begins with room for so many.
const FIRST_ROOM: u64 = 4;

/// Clients go no deeper than 100 messages in each other. What is in a request may come back in an answer that has two
/// more around it: a payload that is set is in one message, and in the answer to a batch of queries in three.
const DEEPEST: usize = 98 - 1;

/// Why bytes are no message of the type that they should be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nonsense(pub(super) &'static str);

const WRONG_TYPE: Nonsense = Nonsense("a field is not of its type");
const TOO_LONG: Nonsense = Nonsense("a field is longer than what it is in");

const NO_TEXT: Nonsense = Nonsense("a text is not in UTF-8");

/// One message that is being walked through.
pub(super) struct Walk {
    /// The messages that are open, the outermost first.
    frames: Vec<Frame>,
    at: At,
    /// The number being read, seven bits to a byte.
    number: u64,
    bits: u32,
    /// Groups that are open: fields that nobody knows may hold them.
    groups: usize,
    position: u64,
    decoded: u64,
    /// A field of the outermost message that is counted.
    counted: u32,
    found: usize,
}

struct Frame {
    shape: ShapeId,
    /// The position after its last byte.
    end: u64,
    /// The list that grew last, its length, and the room that it has.
    list: u32,
    length: u64,
    room: u64,
}

/// Numbers of a list: the field, and what one of them takes.
type List = (u32, u64);

#[derive(Clone, Copy)]
enum At {
    Tag,
    Number(Option<List>),
    /// Before the content of a field.
    Length(u32, Option<Field>),
    Content(u64),
    /// So many bytes of a text.
    Text(u64, Letter),
    /// So many bytes of numbers that have no fixed length.
    Packed(u64, List),
}

impl Frame {
    fn new(shape: ShapeId, end: u64) -> Self {
        Self {
            shape,
            end,
            list: 0,
            length: 0,
            room: 0,
        }
    }

    /// Bytes that a list takes for `more` entries of `size` bytes: its room doubles whenever it is full. The field of
    /// another list begins the count anew, which makes it only larger.
    fn grow(&mut self, list: u32, more: u64, size: u64) -> u64 {
        if self.list != list {
            *self = Self {
                list,
                ..Self::new(self.shape, self.end)
            };
        }
        self.length += more;
        if self.length <= self.room {
            return 0;
        }
        let room = self.length.next_power_of_two().max(FIRST_ROOM);
        let taken = (room - std::mem::replace(&mut self.room, room)) * size;
        taken + BESIDE
    }
}

impl Walk {
    /// Begins a message of `length` bytes, of whose field `counted` is counted how often it is there.
    pub(super) fn new(schema: &Schema, shape: ShapeId, length: u64, counted: u32) -> Self {
        Self {
            frames: vec![Frame::new(shape, length)],
            at: At::Tag,
            number: 0,
            bits: 0,
            groups: 0,
            position: 0,
            decoded: schema.shape(shape).size,
            counted,
            found: 0,
        }
    }

    /// What has been walked through so far takes so many bytes, once it is decoded.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// How often the counted field was there.
    pub(super) fn found(&self) -> usize {
        self.found
    }

    /// Walks through the next bytes of the message.
    pub(super) fn go_on(&mut self, schema: &Schema, mut bytes: &[u8]) -> Result<(), Nonsense> {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.at {
                At::Content(left) => {
                    let here = left.min(bytes.len() as u64);
                    bytes = &bytes[here as usize..];
                    self.position += here;
                    self.skip(left - here);
                }
                At::Text(left, mut letter) => {
                    let here = left.min(bytes.len() as u64);
                    let (text, after) = bytes.split_at(here as usize);
                    bytes = after;
                    self.position += here;
                    if !letter.go_on(text) {
                        return Err(NO_TEXT);
                    }
                    self.at = match left - here {
                        0 if letter.has_begun() => return Err(NO_TEXT),
                        0 => At::Tag,
                        left => At::Text(left, letter),
                    };
                }
                At::Packed(left, (list, size)) => {
                    let here = left.min(bytes.len() as u64);
                    let (numbers, after) = bytes.split_at(here as usize);
                    bytes = after;
                    self.position += here;
                    // Each ends with the byte that has no highest bit.
                    let ends = numbers.iter().filter(|&&byte| byte < 0x80).count();
                    self.grow(list, ends as u64, size);
                    self.at = match left - here {
                        0 => At::Tag,
                        left => At::Packed(left, (list, size)),
                    };
                }
                At::Tag | At::Number(_) | At::Length(..) => {
                    bytes = rest;
                    self.position += 1;
                    self.read(schema, first)?;
                }
            }
            self.close()?;
        }
        Ok(())
    }

    /// Closes the messages that end here. What begins in a message ends in it.
    fn close(&mut self) -> Result<(), Nonsense> {
        let between = matches!(self.at, At::Tag) && self.bits == 0 && self.groups == 0;
        while let Some(frame) = self.frames.last()
            && frame.end == self.position
        {
            let whole = between || matches!(self.at, At::Content(0));
            if !whole {
                return Err(TOO_LONG);
            }
            if self.frames.len() == 1 {
                break;
            }
            self.frames.pop();
        }
        Ok(())
    }

    /// Takes in one byte of a number.
    fn read(&mut self, schema: &Schema, byte: u8) -> Result<(), Nonsense> {
        self.number |= u64::from(byte & 0x7f) << self.bits;
        self.bits += 7;
        if byte & 0x80 != 0 {
            return match self.bits {
                // A number has ten bytes at most.
                64.. => Err(Nonsense("a number has no end")),
                _ => Ok(()),
            };
        }
        let number = std::mem::take(&mut self.number);
        self.bits = 0;
        match self.at {
            At::Length(tag, field) => self.enter(schema, tag, field, number)?,
            At::Number(list) => {
                if let Some((list, size)) = list {
                    self.grow(list, 1, size);
                }
                self.at = At::Tag;
            }
            _ => self.begin(schema, number)?,
        }
        Ok(())
    }

    /// Takes in a field's number and the way in which it is written.
    fn begin(&mut self, schema: &Schema, tag: u64) -> Result<(), Nonsense> {
        let number = u32::try_from(tag >> 3).map_err(|_| Nonsense("a field has no number"))?;
        if number == 0 {
            return Err(Nonsense("a field has the number 0"));
        }
        // Of what is in a group nothing is kept.
        let known = match (self.groups, self.frames.last()) {
            (0, Some(frame)) => schema.shape(frame.shape).field(number),
            _ => None,
        };
        let fixed = |written| match known {
            None => Ok(None),
            Some(Field::Number(wire)) if wire == written => Ok(None),
            Some(Field::Numbers(wire, size)) if wire == written => Ok(Some((number, size))),
            Some(_) => Err(WRONG_TYPE),
        };
        match tag & 7 {
            0 => self.at = At::Number(fixed(Wire::Varint)?),
            2 if matches!(known, Some(Field::Number(_))) => return Err(WRONG_TYPE),
            2 => self.at = At::Length(number, known),
            5 | 1 => {
                let (wire, bytes) = match tag & 7 {
                    5 => (Wire::Four, 4),
                    _ => (Wire::Eight, 8),
                };
                if let Some((list, size)) = fixed(wire)? {
                    self.grow(list, 1, size);
                }
                self.skip(bytes);
            }
            3 if known.is_none() => {
                self.groups += 1;
                if self.groups + self.frames.len() > DEEPEST {
                    return Err(Nonsense("it is nested too deeply"));
                }
                self.at = At::Tag;
            }
            4 if self.groups > 0 => {
                self.groups -= 1;
                self.at = At::Tag;
            }
            _ => return Err(WRONG_TYPE),
        }
        Ok(())
    }

    /// Begins the content of a field, `length` bytes.
    fn enter(
        &mut self,
        schema: &Schema,
        number: u32,
        field: Option<Field>,
        length: u64,
    ) -> Result<(), Nonsense> {
        let end = self.position.checked_add(length);
        let around = self.frames.last().map_or(0, |frame| frame.end);
        let end = end.filter(|&end| end <= around).ok_or(TOO_LONG)?;
        if self.frames.len() == 1 && self.groups == 0 && number == self.counted {
            self.found += 1;
        }
        self.skip(length);
        match field {
            None | Some(Field::Number(_)) => {}
            Some(Field::Text) => self.text(length),
            Some(Field::Texts) => {
                self.grow(number, 1, 24);
                self.text(length);
            }
            Some(Field::Numbers(Wire::Varint, size)) => {
                self.at = match length {
                    0 => At::Tag,
                    length => At::Packed(length, (number, size)),
                };
            }
            Some(Field::Numbers(wire, size)) => {
                let each = if wire == Wire::Four { 4 } else { 8 };
                self.grow(number, length / each, size);
            }
            Some(Field::Inline(shape)) => self.open(shape, end)?,
            Some(Field::Boxed(shape)) => {
                self.decoded += schema.shape(shape).size + BESIDE;
                self.open(shape, end)?;
            }
            Some(Field::Messages(shape)) => {
                self.grow(number, 1, schema.shape(shape).size);
                self.open(shape, end)?;
            }
            Some(Field::Entry(shape)) => {
                // A hash map has up to twice as many places as a list of the same length, and a byte for each.
                self.grow(number, 1, 2 * (schema.shape(shape).size + 1));
                self.open(shape, end)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, shape: ShapeId, end: u64) -> Result<(), Nonsense> {
        if self.frames.len() > DEEPEST {
            return Err(Nonsense("it is nested too deeply"));
        }
        self.frames.push(Frame::new(shape, end));
        self.at = At::Tag;
        Ok(())
    }

    fn text(&mut self, length: u64) {
        if length > 0 {
            self.decoded += (length + BESIDE).max(LEAST);
            self.at = At::Text(length, Letter::default());
        }
    }

    fn grow(&mut self, list: u32, more: u64, size: u64) {
        if let Some(frame) = self.frames.last_mut() {
            self.decoded += frame.grow(list, more, size);
        }
    }

    fn skip(&mut self, bytes: u64) {
        self.at = match bytes {
            0 => At::Tag,
            left => At::Content(left),
        };
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use qdrant_client::qdrant::{PointStruct, UpsertPoints};

    use super::*;
    use crate::server::DESCRIPTORS;

    fn schema() -> Schema {
        Schema::read(DESCRIPTORS).unwrap()
    }

    /// A walk through an upsert that comes in pieces of `size` bytes.
    fn upsert(schema: &Schema, fields: &[u8], size: usize) -> Result<Walk, Nonsense> {
        let shape = schema.input("/qdrant.Points/Upsert").unwrap();
        let mut walk = Walk::new(schema, shape, fields.len() as u64, 3);
        for piece in fields.chunks(size) {
            walk.go_on(schema, piece)?;
        }
        Ok(walk)
    }

    #[test]
    fn it_comes_to_the_same_wherever_the_bytes_are_cut() {
        let points = vec![
            PointStruct::default(),
            PointStruct::new(7, vec![0.5; 100], [("text", "x".repeat(300).into())]),
            PointStruct::default(),
        ];
        let message = UpsertPoints {
            collection_name: "line".into(),
            wait: Some(true),
            points,
            timeout: Some(1 << 40),
            ..UpsertPoints::default()
        };
        let mut fields = message.encode_to_vec();
        // Fields that nobody knows: eight bytes, four bytes, and a group that has a field 3 of its own.
        fields.extend_from_slice(&[0x79, 1, 2, 3, 4, 5, 6, 7, 8, 0x7d, 1, 2, 3, 4]);
        fields.extend_from_slice(&[0x7b, 0x1a, 0, 0x7c]);
        // And an empty point whose tag is longer than it had to be.
        fields.extend_from_slice(&[0x9a, 0x80, 0, 0]);
        let decoded = UpsertPoints::decode(&*fields).unwrap();
        assert_eq!(decoded.points.len(), 4);
        let schema = schema();
        let whole = upsert(&schema, &fields, fields.len()).unwrap().decoded();
        assert!(whole > 400 + 300 + 4 * size_of::<PointStruct>() as u64);
        for size in [1, 2, 3, 7, 64] {
            let walk = upsert(&schema, &fields, size).unwrap();
            assert_eq!(walk.found(), 4, "in pieces of {size}");
            assert_eq!(walk.decoded(), whole, "in pieces of {size}");
        }
    }

    #[test]
    fn what_the_decoder_refuses_is_refused() {
        let schema = schema();
        let endless = [[0x1a, 0].as_slice(), &[0xff; 20]].concat();
        let mut deep = vec![0x1a];
        for bad in [
            &[0x07][..],
            &[0x1a, 5, 0],
            &[0x1a, 0x02, 0x0a, 0x05],
            // A point that is a number, and a flag that is a text.
            &[0x18, 1],
            &[0x12, 1, 0],
            &[0x7c],
            &endless,
            // Names that are no texts, or end within a letter.
            &[0x0a, 1, 0xff],
            &[0x0a, 2, 0xe8, 0xaa],
        ] {
            assert!(UpsertPoints::decode(bad).is_err(), "{bad:?}");
            assert!(upsert(&schema, bad, 1).is_err(), "{bad:?}");
        }
        // Values in lists in values, deeper than the decoder goes.
        let mut value = vec![];
        for _ in 0..150 {
            let list = [varint(0x0a), varint(value.len() as u64), value].concat();
            value = [varint(0x3a), varint(list.len() as u64), list].concat();
        }
        let entry = [varint(0x12), varint(value.len() as u64), value].concat();
        let point = [varint(0x1a), varint(entry.len() as u64), entry].concat();
        deep.extend(varint(point.len() as u64));
        deep.extend(point);
        assert!(UpsertPoints::decode(&*deep).is_err());
        assert!(upsert(&schema, &deep, 9).is_err());
    }

    /// A payload of so many lists in each other.
    fn nested(lists: usize) -> std::collections::HashMap<String, qdrant_client::qdrant::Value> {
        use qdrant_client::qdrant::{ListValue, Value, value::Kind};
        let value = (0..lists).fold(Value::from(1), |inner, _| Value {
            kind: Some(Kind::ListValue(ListValue {
                values: vec![inner],
            })),
        });
        [("a".to_owned(), value)].into()
    }

    #[test]
    fn what_may_be_set_can_be_sent_back() {
        use qdrant_client::qdrant::{
            BatchResult, QueryBatchResponse, ScoredPoint, SetPayloadPoints,
        };
        let schema = schema();
        let shape = schema.input("/qdrant.Points/SetPayload").unwrap();
        let fits = |lists: usize| {
            let message = SetPayloadPoints {
                payload: nested(lists),
                ..SetPayloadPoints::default()
            };
            let fields = message.encode_to_vec();
            let mut walk = Walk::new(&schema, shape, fields.len() as u64, 0);
            walk.go_on(&schema, &fields).is_ok()
        };
        let most = (0..100).take_while(|&lists| fits(lists)).last().unwrap();
        assert!(most >= 40, "{most}");
        let point = ScoredPoint {
            payload: nested(most),
            ..ScoredPoint::default()
        };
        let answer = QueryBatchResponse {
            result: vec![BatchResult {
                result: vec![point],
            }],
            ..QueryBatchResponse::default()
        };
        assert!(QueryBatchResponse::decode(&*answer.encode_to_vec()).is_ok());
    }

    fn varint(number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        prost::encode_length_delimiter(number as usize, &mut bytes).expect("vectors grow");
        bytes
    }

    #[test]
    fn lists_take_what_their_room_takes() {
        let mut frame = Frame::new(0, 0);
        assert_eq!(frame.grow(1, 1, 10), 40 + BESIDE);
        assert_eq!(frame.grow(1, 3, 10), 0);
        assert_eq!(frame.grow(1, 1, 10), 40 + BESIDE);
        assert_eq!(frame.grow(1, 100, 10), (128 - 8) * 10 + BESIDE);
        assert_eq!(frame.grow(2, 1, 10), 40 + BESIDE, "another list");
    }
}
