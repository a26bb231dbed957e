//! Which groups are instances of which service.

use std::str::FromStr;

use chiplet_advise::{GroupPath, Host};

/// `NAME=GROUP`. The last part of the group's path may end with `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) name: String,
    group: GroupPath,
    /// Groups whose path begins with that of `group`, and that have no part more.
    is_pattern: bool,
}

impl FromStr for Service {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?}: say NAME=GROUP, such as search=/system.slice/search.service or search=/kubepods/search-*"
            )
        };
        let (name, path) = text.split_once('=').ok_or_else(wrong)?;
        let is_pattern = path.ends_with('*');
        let path = path.strip_suffix('*').unwrap_or(path);
        let is_whole = path.ends_with('/') && is_pattern;
        if name.is_empty()
            || name.contains(char::is_control)
            || path.contains('*')
            || is_whole
            || !path.starts_with('/')
            || path == "/"
        {
            return Err(wrong());
        }
        let group = path.parse().map_err(|_| wrong())?;
        Ok(Self {
            name: name.to_owned(),
            group,
            is_pattern,
        })
    }
}

impl Service {
    fn holds(&self, group: &GroupPath) -> bool {
        if !self.is_pattern {
            return *group == self.group;
        }
        let (path, begin) = (group.to_string(), self.group.to_string());
        path.strip_prefix(&begin)
            .is_some_and(|rest| !rest.contains('/'))
    }

    /// What may be changed on its account.
    pub(super) fn instances<'a>(
        &'a self,
        groups: &'a [GroupPath],
    ) -> impl Iterator<Item = &'a GroupPath> {
        groups.iter().filter(|group| self.holds(group))
    }
}

/// The instances that are there now, each once: of several services that it matches, of the first. A group within
/// another one is none: it cannot run off that one's node.
pub(super) fn instances(host: &Host, services: &[Service]) -> Vec<(GroupPath, String)> {
    let groups = host.groups();
    let mut found: Vec<(GroupPath, String)> = Vec::new();
    for service in services {
        for group in service.instances(&groups) {
            if !found.iter().any(|(known, _)| group.is_within(known)) {
                found.retain(|(known, _)| !known.is_within(group));
                found.push((group.clone(), service.name.clone()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> Vec<GroupPath> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn a_service_is_one_group_or_all_with_a_beginning() {
        let there = groups(&[
            "/",
            "/pods",
            "/pods/search-1",
            "/pods/search-1/x",
            "/pods/search-2",
            "/search-3",
        ]);
        let found = |service: &str| {
            let service: Service = service.parse().unwrap();
            service
                .instances(&there)
                .map(GroupPath::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("s=/pods/search-1"), ["/pods/search-1"]);
        assert_eq!(
            found("s=/pods/search-*"),
            ["/pods/search-1", "/pods/search-2"]
        );
        assert!(found("s=/pods/other-*").is_empty());
    }

    #[test]
    fn what_could_mean_everything_is_refused() {
        for text in [
            "a\nb=/c",
            "search",
            "=/a",
            "s=a",
            "s=/",
            "s=/*",
            "s=/a/*",
            "s=/*/a",
            "s=/a/../b",
        ] {
            let error = text.parse::<Service>().unwrap_err();
            assert!(error.contains("NAME=GROUP"), "{error}");
        }
    }
}
