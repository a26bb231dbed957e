//! What is not as it is shipped: one rule, or several at once.

use anyhow::{Context as _, ensure};

use crate::list::{List, Rule};

/// The variant with all rules as they are shipped.
pub(crate) const SHIPPED: &str = "nothing";

/// What constants are multiplied by.
const FACTORS: [&str; 2] = ["0.5", "2"];

/// What is not as it is shipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// [`SHIPPED`], or a rule and what is done to it: `burst off`, `burst 2`.
    pub(crate) name: String,
    /// As `switches.rs.in` reads it.
    pub(crate) switches: String,
}

impl Variant {
    pub(crate) fn shipped() -> Self {
        Self {
            name: SHIPPED.to_owned(),
            switches: String::new(),
        }
    }

    pub(crate) fn is_shipped(&self) -> bool {
        self.switches.is_empty()
    }

    /// All of a rule, which is number `number` of the list.
    pub(crate) fn of(number: usize, rule: &Rule) -> Vec<Self> {
        let off = (!rule.off.is_empty()).then_some("off");
        let scales = !rule.consts.is_empty() || !rule.scale.is_empty();
        let factors = FACTORS.into_iter().filter(|_| scales);
        let hows = off.into_iter().chain(factors);
        let hows = hows.filter(|_| rule.is_simulated());
        let variants = hows.map(|how| Self {
            name: format!("{} {how}", rule.name),
            switches: format!("{number}={how}"),
        });
        variants.collect()
    }

    /// All of one rule at a time.
    pub(crate) fn all(list: &List) -> Vec<Self> {
        let rules = list.rules.iter().enumerate();
        let variants = rules.flat_map(|(number, rule)| Self::of(number, rule));
        variants.collect()
    }

    /// Several at once, as they are named: `runs off, burst 2`.
    pub(crate) fn together(list: &List, told: &str) -> anyhow::Result<Self> {
        let all = Self::all(list);
        let parts = told.split(',').map(|part| {
            let part = part.trim();
            let found = all.iter().find(|variant| variant.name == part);
            found.with_context(|| {
                format!("there is no variant {part:?}: chiplet-rules list names them")
            })
        });
        let parts = parts.collect::<anyhow::Result<Vec<_>>>()?;
        for (at, part) in parts.iter().enumerate() {
            let twice = parts[..at].contains(part);
            ensure!(!twice, "{} stands there twice", part.name);
        }
        let joined = |of: fn(&Self) -> &str, with: &str| {
            let parts: Vec<&str> = parts.iter().map(|part| of(part)).collect();
            parts.join(with)
        };
        Ok(Self {
            name: joined(|part| &part.name, ", "),
            switches: joined(|part| &part.switches, ","),
        })
    }
}
