//! The rights of a command: a sandbox policy in which every name is a path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The permissions of a command and its descendants. They cannot get rid of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The permitted files.
    pub files: FilesScope,
    /// The permitted network.
    pub network: NetworkScope,
}

/// The permitted files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesScope {
    /// All that the launcher may use.
    All,
    /// Those of these rules.
    Rules(PathRules),
}

/// The permitted network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkScope {
    /// All.
    All,
    /// None: neither IP nor any other family. The command can only use sockets that it inherits, and
    /// pairs of connected Unix sockets that it creates.
    None,
}

/// Rules for paths, by absolute path. A rule is about its path and everything beneath it; the rule
/// of the longest path decides. A path without a rule is denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRules(BTreeMap<PathBuf, PathAccess>);

/// The access that a rule grants. The order is that of precedence between two rules for one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathAccess {
    /// To read and to execute.
    Read,
    /// To read, to execute, to change, to create and to remove.
    Write,
    /// Nothing.
    Nothing,
}

impl PathAccess {
    /// Whether it permits to read.
    pub fn reads(self) -> bool {
        self != Self::Nothing
    }
}

impl PathRules {
    /// Adds a rule. Of two rules for one path, the one with the greater access decides.
    pub fn add(&mut self, path: impl Into<PathBuf>, access: PathAccess) {
        let old = self.0.entry(path.into()).or_insert(access);
        *old = access.max(*old);
    }

    /// Returns the rules, each before those beneath its path.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, PathAccess)> {
        self.0.iter().map(|(path, access)| (path.as_path(), *access))
    }

    /// Returns the access to a path.
    pub fn access(&self, path: &Path) -> PathAccess {
        let mut rules = path.ancestors().filter_map(|ancestor| self.0.get(ancestor));
        rules.next().copied().unwrap_or(PathAccess::Nothing)
    }

    /// Returns the access to a path if its own rule did not exist.
    pub fn access_around(&self, path: &Path) -> PathAccess {
        path.parent().map_or(PathAccess::Nothing, |parent| self.access(parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathAccess::{Nothing, Read, Write};

    #[test]
    fn the_rule_of_the_longest_path_decides() {
        let mut rules = PathRules::default();
        for (path, access) in [("/", Read), ("/w", Write), ("/w/.git", Read), ("/w/key", Nothing)] {
            rules.add(path, access);
        }
        for (path, access) in [
            ("/", Read),
            ("/ww", Read),
            ("/w/a/b", Write),
            ("/w/.git/hooks", Read),
            ("/w/.github", Write),
            ("/w/key", Nothing),
        ] {
            assert_eq!(rules.access(Path::new(path)), access, "{path}");
        }
        assert_eq!(rules.access_around(Path::new("/w/.git")), Write);
        assert_eq!(rules.access_around(Path::new("/")), Nothing);
        assert_eq!(PathRules::default().access(Path::new("/")), Nothing);
    }

    #[test]
    fn of_two_rules_for_one_path_the_greater_access_decides_and_a_denial_precedes_both() {
        for (one, other, decides) in [
            (Read, Write, Write),
            (Write, Read, Write),
            (Write, Nothing, Nothing),
            (Nothing, Read, Nothing),
        ] {
            let mut rules = PathRules::default();
            rules.add("/w", one);
            rules.add("/w", other);
            assert_eq!(rules.access(Path::new("/w")), decides);
        }
    }
}
