//! Paths into payloads: `color`, `owner.name`, `cities[].name`, `cities[0].name`, `"first name".length`.
//!
//! They are read here alone, as the API has it: a name of other signs than letters, digits, `_` and `-` is in quotes.

use std::collections::HashMap;

use qdrant_client::qdrant::Value;
use qdrant_client::qdrant::value::Kind;

/// The longest path, in bytes.
pub(crate) const LONGEST_PATH: usize = 1_024;

/// Where a value is in a payload.
///
/// Its text is kept once, and eight bytes for each step, so that a path of many short names takes little more than its
/// text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    text: Box<str>,
    steps: Box<[Kept]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// These bytes of the text.
    Key {
        from: u16,
        to: u16,
    },
    Each,
    At(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step<'a> {
    Key(&'a str),
    Each,
    At(u32),
}

fn is_plain(sign: char) -> bool {
    sign.is_alphanumeric() || matches!(sign, '_' | '-')
}

/// The name at the beginning of `text`, and what follows it.
fn name(text: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return quoted.split_once('"');
    }
    let end = text.find(|sign| !is_plain(sign)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A place in a list; of those beyond 32 bits there is nothing in any list.
fn place(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|digit| digit.is_ascii_digit());
    let place: u64 = digits.then(|| text.parse().ok())??;
    Some(place.try_into().unwrap_or(u32::MAX))
}

impl Path {
    /// Reads a path; `None` if it is none, or longer than [`LONGEST_PATH`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST_PATH {
            return None;
        }
        let (mut known, mut steps, mut rest) = (String::new(), Vec::new(), text);
        loop {
            let (name, mut after) = name(rest)?;
            let quoted = name.is_empty() || !name.chars().all(is_plain);
            let quote = if quoted { "\"" } else { "" };
            known += quote;
            let from = u16::try_from(known.len()).ok()?;
            known += name;
            let to = u16::try_from(known.len()).ok()?;
            known += quote;
            steps.push(Kept::Key { from, to });
            while let Some(inside) = after.strip_prefix('[') {
                let (number, behind) = inside.split_once(']')?;
                if number.is_empty() {
                    steps.push(Kept::Each);
                    known += "[]";
                } else {
                    let place = place(number)?;
                    steps.push(Kept::At(place));
                    known += &format!("[{place}]");
                }
                after = behind;
            }
            if after.is_empty() {
                break;
            }
            rest = after.strip_prefix('.')?;
            known.push('.');
        }
        Some(Self {
            text: known.into(),
            steps: steps.into(),
        })
    }

    /// The path, written in the one way: with quotes only where they are needed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Memory that it takes besides itself.
    pub(crate) fn bytes(&self) -> u64 {
        (self.text.len() + size_of_val(&*self.steps)) as u64
    }

    fn step(&self, depth: usize) -> Option<Step<'_>> {
        self.steps.get(depth).map(|step| match *step {
            Kept::Key { from, to } => Step::Key(&self.text[usize::from(from)..usize::from(to)]),
            Kept::Each => Step::Each,
            Kept::At(place) => Step::At(place),
        })
    }

    fn all_steps(&self) -> impl Iterator<Item = Step<'_>> {
        (0..self.steps.len()).map_while(|depth| self.step(depth))
    }

    /// The values that are there: none or one, or several where the path has `[]`. `step` is told how many values each
    /// step looks at. Where nothing is left the path is not followed any further.
    pub(crate) fn values<'a>(
        &self,
        fields: &'a HashMap<String, Value>,
        mut step: impl FnMut(usize),
    ) -> Vec<&'a Value> {
        let mut found: Vec<&Value> = match self.step(0) {
            Some(Step::Key(name)) => fields.get(name).into_iter().collect(),
            _ => Vec::new(),
        };
        step(1);
        for depth in 1..self.steps.len() {
            if found.is_empty() {
                break;
            }
            step(found.len());
            found = found
                .into_iter()
                .flat_map(|value| below(self.step(depth), value))
                .collect();
        }
        found
    }
}

fn below<'a>(step: Option<Step<'_>>, value: &'a Value) -> &'a [Value] {
    let one = |value: Option<&'a Value>| value.map_or(&[][..], std::slice::from_ref);
    match (step, &value.kind) {
        (Some(Step::Key(name)), Some(Kind::StructValue(inner))) => one(inner.fields.get(name)),
        (Some(Step::Each), Some(Kind::ListValue(list))) => &list.values,
        (Some(Step::At(place)), Some(Kind::ListValue(list))) => {
            one(list.values.get(place as usize))
        }
        _ => &[],
    }
}

/// Several paths, in order: those that begin alike are neighbours, and the shortest of them is the first.
#[derive(Clone, Debug)]
pub(crate) struct Paths(Box<[Path]>);

/// What is done with what paths lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Nothing else is kept. As the API has it, places in lists lead nowhere, and a value where a path goes on is kept.
    Keep,
    /// All else is kept. Here too places in lists lead nowhere.
    LeaveOut,
    /// All else is kept. Places lead into the elements of lists, and take no element itself out.
    Delete,
}

/// Paths that have the same first steps.
#[derive(Clone, Copy)]
pub(crate) struct Within<'a> {
    paths: &'a [Path],
    depth: usize,
}

impl Paths {
    pub(crate) fn new(paths: impl IntoIterator<Item = Path>) -> Self {
        let mut paths: Vec<Path> = paths.into_iter().collect();
        paths.sort_by(|one, other| one.all_steps().cmp(other.all_steps()));
        Self(paths.into())
    }

    /// Memory that they take, about.
    pub(crate) fn bytes(&self) -> u64 {
        let own = size_of_val(&*self.0) as u64;
        own + self.0.iter().map(Path::bytes).sum::<u64>()
    }

    /// Those that begin with a field of a payload.
    pub(crate) fn within(&self, field: &str) -> Within<'_> {
        let all = Within {
            paths: &self.0,
            depth: 0,
        };
        all.after(Step::Key(field))
    }
}

impl<'a> Within<'a> {
    fn after(self, step: Step<'_>) -> Self {
        let Self { paths, depth } = self;
        let from = paths.partition_point(|path| path.step(depth) < Some(step));
        let count = paths[from..].partition_point(|path| path.step(depth) == Some(step));
        Self {
            paths: &paths[from..from + count],
            depth: depth + 1,
        }
    }

    /// Those that do not end here.
    fn longer(self) -> Self {
        let depth = self.depth;
        let ended = self.paths.partition_point(|path| path.steps.len() == depth);
        Self {
            paths: &self.paths[ended..],
            depth,
        }
    }

    /// Whether the value that they have led to stays; `None` if that is for the values in it to say.
    pub(crate) fn stays(self, what: What) -> Option<bool> {
        match self.paths.first() {
            None => Some(what != What::Keep),
            Some(shortest) if shortest.steps.len() == self.depth => Some(what == What::Keep),
            Some(_) => None,
        }
    }

    /// Takes out of a value what is not to stay.
    pub(crate) fn apply(self, what: What, value: &mut Value) {
        let stays = |within: Self, value: &mut Value| {
            within.stays(what).unwrap_or_else(|| {
                within.apply(what, value);
                true
            })
        };
        match &mut value.kind {
            Some(Kind::StructValue(inner)) => {
                let fields = &mut inner.fields;
                fields.retain(|name, value| stays(self.after(Step::Key(name)), value));
            }
            Some(Kind::ListValue(list)) => {
                let each = self.after(Step::Each);
                list.values.retain_mut(|value| stays(each, value));
                if what == What::Delete {
                    for (place, value) in (0..).zip(&mut list.values) {
                        self.after(Step::At(place)).longer().apply(what, value);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(json: serde_json::Value) -> HashMap<String, Value> {
        qdrant_client::Payload::try_from(json).unwrap().into()
    }

    #[test]
    fn paths_lead_to_values() {
        let payload = fields(json!({
            "a": 1,
            "": 2,
            "b c": {"d.e": 3},
            "größe-1": 4,
            "owner": {"name": "x"},
            "cities": [{"name": "p", "sizes": [1, 2]}, {"name": "q"}, 7],
        }));
        let found = |path: &str| -> Vec<serde_json::Value> {
            let path = Path::parse(path).unwrap();
            path.values(&payload, |_| ())
                .into_iter()
                .map(|value| value.clone().into())
                .collect()
        };
        assert_eq!(found("a"), [json!(1)]);
        assert_eq!(found("\"a\""), [json!(1)]);
        assert_eq!(found("\"\""), [json!(2)]);
        assert_eq!(found("\"b c\".\"d.e\""), [json!(3)]);
        assert_eq!(found("größe-1"), [json!(4)]);
        assert_eq!(found("owner.name"), [json!("x")]);
        assert_eq!(found("cities[].name"), [json!("p"), json!("q")]);
        assert_eq!(found("cities[0].sizes[]"), [json!(1), json!(2)]);
        assert_eq!(found("cities[0].sizes"), [json!([1, 2])]);
        for nowhere in [
            "b",
            "a.b",
            "owner.none",
            "cities.name",
            "cities[9].name",
            "cities[18446744073709551615].name",
            "a[]",
        ] {
            assert!(found(nowhere).is_empty(), "{nowhere}");
        }
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a[",
            "a[x]",
            "a[+1]",
            "a[1]b",
            "a]",
            "[0]",
            "a..b",
            "a.[0]",
            "b c",
            " a",
            "$a",
            "\"a",
            "a\"",
            "\"a\"b",
            "\"a\"\"b\"",
            "a[18446744073709551616]",
        ] {
            assert_eq!(Path::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_path_is_the_same_however_it_is_written() {
        for (written, text) in [
            ("\"a\".\"b c\"[007].\"ü_-\"", "a.\"b c\"[7].ü_-"),
            ("\"\"[]", "\"\"[]"),
        ] {
            let path = Path::parse(written).unwrap();
            assert_eq!(path.text(), text);
            assert_eq!(Path::parse(text), Some(path));
        }
    }

    #[test]
    fn a_path_ends_where_nothing_is_left() {
        let payload = fields(json!({"a": {"b": 1}}));
        let path = Path::parse(&["a"; 500].join(".")).unwrap();
        let mut steps = 0;
        assert!(path.values(&payload, |more| steps += more).is_empty());
        assert_eq!(steps, 2, "of 500 steps");
    }

    #[test]
    fn a_path_takes_little_more_than_its_text() {
        let text = ["a"; 512].join(".");
        let path = Path::parse(&text).unwrap();
        assert_eq!(path.bytes(), text.len() as u64 + 512 * 8);
        assert_eq!(Path::parse(&"a".repeat(LONGEST_PATH + 1)), None);
    }

    #[test]
    fn paths_say_what_stays() {
        let value = json!({
            "a": [{"b": 1, "c": 2}, {"b": 3}, [4], 5],
            "d": {"e": {"f": 6, "g": 7}, "h": 8},
        });
        let applied = |what, paths: &[&str]| -> serde_json::Value {
            let paths = paths.iter().map(|path| Path::parse(path).unwrap());
            let mut value = Value::from(value.clone());
            let paths = Paths::new(paths);
            let all = Within {
                paths: &paths.0,
                depth: 0,
            };
            all.apply(what, &mut value);
            value.into()
        };
        let d = &value["d"];
        for (what, paths, right) in [
            (
                What::Keep,
                &["a[].b", "d.e.f", "d.e"][..],
                json!({"a": [{"b": 1}, {"b": 3}, [], 5], "d": {"e": {"f": 6, "g": 7}}}),
            ),
            (
                What::Keep,
                &["a[0].b", "d.h.none"],
                json!({"a": [], "d": {"h": 8}}),
            ),
            (
                What::LeaveOut,
                &["a[].b", "d.e.f"],
                json!({"a": [{"c": 2}, {}, [4], 5], "d": {"e": {"g": 7}, "h": 8}}),
            ),
            (What::LeaveOut, &["a[0].b", "a[]", "d"], json!({"a": []})),
            (
                What::Delete,
                &["a[0].b", "a[1]", "a[2][]", "a[0]"],
                json!({"a": [{"c": 2}, {"b": 3}, [], 5], "d": d}),
            ),
            (
                What::Delete,
                &["a[]", "none", "d.e"],
                json!({"a": [], "d": {"h": 8}}),
            ),
        ] {
            assert_eq!(applied(what, paths), right, "{what:?} {paths:?}");
        }
    }
}
