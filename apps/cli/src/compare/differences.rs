//! Fields of two reports that differ.

use serde::Serialize;
use serde_json::Value;

/// A field, and its value in each of two runs.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) field: String,
    pub(super) first: String,
    pub(super) second: String,
}

/// The fields of two values of one type whose texts differ, in the order of their names; those in `except` are left
/// out.
pub(super) fn between<T: Serialize>(
    first: &T,
    second: &T,
    except: &[&str],
) -> anyhow::Result<Vec<Difference>> {
    let (first, second) = (serde_json::to_value(first)?, serde_json::to_value(second)?);
    let (Value::Object(first), Value::Object(second)) = (first, second) else {
        return Ok(Vec::new());
    };
    let fields = first
        .into_iter()
        .filter(|(name, _)| !except.contains(&&**name));
    Ok(fields
        .filter_map(|(name, first)| {
            let (first, second) = (text(&first), text(second.get(&name)?));
            (first != second).then(|| Difference {
                field: name.replace('_', " "),
                first,
                second,
            })
        })
        .collect())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "not known".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "nothing".to_owned(),
        Value::Array(values) => {
            let texts: Vec<_> = values.iter().map(text).collect();
            texts.join("; ")
        }
        Value::Object(fields) => {
            let texts: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{} {}", name.replace('_', " "), text(value)))
                .collect();
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Machine {
        load_average: Option<f64>,
        cpu: &'static str,
        domain_cache_bytes: [u64; 2],
    }

    #[test]
    fn only_what_differs_is_told_with_both_values() {
        let machine = |load_average, domain_cache_bytes| Machine {
            load_average,
            cpu: "the same",
            domain_cache_bytes,
        };
        let (first, second) = (machine(None, [1, 2]), machine(Some(0.5), [1, 3]));
        let all = between(&first, &second, &[]).unwrap();
        let fields: Vec<_> = all.iter().map(|difference| &*difference.field).collect();
        assert_eq!(fields, ["domain cache bytes", "load average"]);
        assert_eq!((&*all[0].first, &*all[0].second), ("1; 2", "1; 3"));
        assert_eq!((&*all[1].first, &*all[1].second), ("not known", "0.5"));
        let some = between(&first, &second, &["load_average"]).unwrap();
        assert_eq!(some.len(), 1);
    }
}
