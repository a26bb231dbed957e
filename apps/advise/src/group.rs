//! The name of a control group: its path below the mount of cgroup v2.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Linux's limit for a path, in bytes.
const PATH_MAX: usize = 4096;

/// A control group by its path, such as `/system.slice/search.service`. It never leads out of the hierarchy: no part of
/// it is `..`.
///
/// ```
/// use chiplet_advise::GroupPath;
/// let group: GroupPath = "/system.slice/search.service".parse()?;
/// assert_eq!(group.unit().unwrap().name, "search.service");
/// assert!("/../etc".parse::<GroupPath>().is_err());
/// # Ok::<(), chiplet_advise::BadGroup>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GroupPath(
    /// Without the leading slash; empty for the root.
    String,
);

/// Not the path of a control group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the path of a control group, such as /system.slice/search.service")]
pub struct BadGroup(String);

/// A unit of systemd that has a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    /// Such as `search.service`.
    pub name: &'a str,
    /// Whether it belongs to a user's systemd, not to the machine's.
    pub of_user: bool,
}

impl GroupPath {
    /// The group that holds all others.
    pub fn root() -> Self {
        Self(String::new())
    }

    /// Whether it is the group that holds all others.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is this group, or lies below it.
    pub fn is_within(&self, other: &Self) -> bool {
        match self.0.strip_prefix(&other.0) {
            Some(rest) => other.is_root() || rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }

    /// The group one above; `None` for the root.
    pub fn above(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let above = self.0.rsplit_once('/').map_or("", |(above, _)| above);
        Some(Self(above.to_owned()))
    }

    /// The systemd unit that the group is, by its name. Groups that a unit makes inside its own are none.
    pub fn unit(&self) -> Option<Unit<'_>> {
        let is_unit = |name: &str| {
            let kinds = [".service", ".scope", ".slice"];
            kinds.iter().any(|kind| name.ends_with(kind))
        };
        let (above, name) = self.0.rsplit_once('/').unwrap_or(("", self.0.as_str()));
        let of_user = |name: &str| name.starts_with("user@") && name.ends_with(".service");
        is_unit(name).then(|| Unit {
            name,
            of_user: above.split('/').any(of_user),
        })
    }

    /// As one word of a shell.
    pub fn quoted(&self) -> String {
        quoted(&self.to_string())
    }

    /// One below, as the file system names it; `None` for a name that no path can have.
    pub(crate) fn below(&self, name: &str) -> Option<Self> {
        format!("{}/{name}", self.0).parse().ok()
    }

    /// Without the leading slash, for joining.
    pub(crate) fn relative(&self) -> &str {
        &self.0
    }
}

/// A text as one word of a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

impl FromStr for GroupPath {
    type Err = BadGroup;

    fn from_str(text: &str) -> Result<Self, BadGroup> {
        let path = text.trim_matches('/');
        let is_name = |name: &str| !matches!(name, "" | "." | "..");
        let is_plain = !path.contains(|c: char| c.is_control());
        if path.len() < PATH_MAX && is_plain && (path.is_empty() || path.split('/').all(is_name)) {
            return Ok(Self(path.to_owned()));
        }
        Err(BadGroup(text.chars().take(60).collect()))
    }
}

impl TryFrom<String> for GroupPath {
    type Error = BadGroup;

    fn try_from(text: String) -> Result<Self, BadGroup> {
        text.parse()
    }
}

impl From<GroupPath> for String {
    fn from(group: GroupPath) -> Self {
        group.to_string()
    }
}

impl fmt::Display for GroupPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(text: &str) -> GroupPath {
        text.parse().unwrap()
    }

    #[test]
    fn paths_stay_inside_and_read_back() {
        for bad in [
            "/a/../b",
            "..",
            "/a//b",
            "a/./b",
            "a\nb",
            &"x/".repeat(3000),
        ] {
            assert!(bad.parse::<GroupPath>().is_err(), "{bad:?}");
        }
        for (text, shown) in [("", "/"), ("/", "/"), ("a/b/", "/a/b"), ("/a b", "/a b")] {
            assert_eq!(group(text).to_string(), shown);
            assert_eq!(group(shown), group(text));
        }
        assert_eq!(group("/a/b").above(), Some(group("/a")));
        assert_eq!(group("/a").above(), Some(GroupPath::root()));
        assert_eq!(GroupPath::root().above(), None);
    }

    #[test]
    fn a_group_is_within_itself_and_those_above_not_beside() {
        assert!(group("/a/b").is_within(&group("/a")));
        assert!(group("/a").is_within(&group("/a")));
        assert!(group("/a").is_within(&GroupPath::root()));
        assert!(!group("/ab").is_within(&group("/a")));
        assert!(!group("/a").is_within(&group("/a/b")));
    }

    #[test]
    fn units_are_told_by_their_names() {
        let unit = |text: &str| {
            group(text)
                .unit()
                .map(|unit| (unit.name.to_owned(), unit.of_user))
        };
        assert_eq!(
            unit("/system.slice/a.service"),
            Some(("a.service".into(), false))
        );
        let users = "/user.slice/user-1.slice/user@1.service/app.slice/a.scope";
        assert_eq!(unit(users), Some(("a.scope".into(), true)));
        assert_eq!(unit("/docker/0123"), None);
        assert_eq!(unit("/system.slice/a.service/workers"), None);
        assert_eq!(unit("/"), None);
    }
}
