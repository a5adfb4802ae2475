//! The environment of a process, built by the policy of its start.
//!
//! The steps and the names were measured on codex 0.169.0 on 24 November 2026.

use std::collections::BTreeMap;

use reknit_seams::defect;

use super::request_error::RequestError;
use crate::wire::environment::{EnvPolicy, Inherit};

/// Variables by name.
type Variables = BTreeMap<String, String>;

/// The variables that `core` inherits, in any case.
const CORE: [&str; 11] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TMP", "TMPDIR",
    "USER",
];

/// The patterns of names that look like secrets.
const DEFAULT_EXCLUDES: [&str; 3] = ["*KEY*", "*SECRET*", "*TOKEN*"];

/// The most comparisons of characters for one start. A client that sends more patterns and names
/// would keep the server from its other clients.
const MOST_WORK: usize = 1 << 26;

/// Builds the environment of a process. `own` are the server's variables, and `overlay` is the `env`
/// of the start. Without a policy, the process gets the overlay alone.
///
/// # Errors
/// [`RequestError::Params`] if the policy has too many patterns and names.
pub(super) fn build(
    own: &Variables,
    policy: Option<EnvPolicy>,
    overlay: Variables,
) -> Result<Variables, RequestError> {
    let Some(policy) = policy else { return Ok(overlay) };
    check_work(own, &policy)?;
    let core = Patterns::new(if defect!(CoreLacksUser) { &CORE[..10] } else { &CORE });
    let mut variables: Variables = match policy.inherit {
        Inherit::None => Variables::new(),
        Inherit::All => own.clone(),
        Inherit::Core => select(own, |name| core.match_name(name)),
    };
    if !policy.ignore_default_excludes {
        let secrets = if defect!(SecretsPass) {
            Patterns::new(&["*KEY*", "*TOKEN*"])
        } else {
            Patterns::new(&DEFAULT_EXCLUDES)
        };
        variables.retain(|name, _| !secrets.match_name(name));
    }
    let excluded = Patterns::new(&policy.exclude);
    variables.retain(|name, _| !excluded.match_name(name));
    variables.extend(policy.set);
    if !policy.include_only.is_empty() {
        let included = Patterns::new(&policy.include_only);
        variables.retain(|name, _| included.match_name(name));
    }
    variables.extend(overlay);
    Ok(variables)
}

fn select(from: &Variables, keep: impl Fn(&str) -> bool) -> Variables {
    let kept = from.iter().filter(|(name, _)| keep(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Refuses a policy that takes too long to apply. Comparing a name with a pattern takes at most the
/// product of their lengths.
fn check_work(own: &Variables, policy: &EnvPolicy) -> Result<(), RequestError> {
    // One is added so that empty names and patterns count, too.
    let names: usize = own.keys().chain(policy.set.keys()).map(|name| name.len() + 1).sum();
    let patterns = policy.exclude.iter().chain(&policy.include_only);
    let patterns: usize = patterns.map(|pattern| pattern.len() + 1).sum();
    if names.saturating_mul(patterns) > MOST_WORK {
        return Err(RequestError::Params("envPolicy has too many patterns and names".into()));
    }
    Ok(())
}

/// Patterns in lower case.
struct Patterns(Vec<Vec<char>>);

impl Patterns {
    fn new(patterns: &[impl AsRef<str>]) -> Self {
        Self(patterns.iter().map(|pattern| lower(pattern.as_ref())).collect())
    }

    /// Whether one of the patterns matches the whole name.
    fn match_name(&self, name: &str) -> bool {
        let name = lower(name);
        self.0.iter().any(|pattern| matches(pattern, &name))
    }
}

fn lower(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Whether a pattern matches the whole name. After a mismatch, only the last `*` takes one more
/// character: an earlier one need never take more than it has.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None; // behind the star, and where its match ends
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                last_star = Some((p, n));
            }
            Some(expected) if *expected == '?' || *expected == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut last_star {
                Some((behind, end)) => {
                    *end += 1;
                    (p, n) = (*behind, *end);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(text: &str) -> Variables {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        text.split_whitespace().map(pair).collect()
    }

    fn built(own: &str, policy: EnvPolicy, overlay: &str) -> String {
        let built = build(&variables(own), Some(policy), variables(overlay)).unwrap();
        let pairs: Vec<_> = built.iter().map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join(" ")
    }

    const OWN: &str =
        "HOME=/root PATH=/bin Path=mixed MX_A=1 mx_b=2 MY_KEY=3 TERM=xterm USERNAME=u";

    #[test]
    fn without_a_policy_nothing_is_inherited() {
        let overlay = variables("A=1");
        assert_eq!(build(&variables(OWN), None, overlay.clone()), Ok(overlay));
    }

    #[test]
    fn inherit_selects_the_servers_variables() {
        let of = |inherit| built(OWN, EnvPolicy::inherit(inherit), "");
        assert_eq!(of(Inherit::None), "");
        assert_eq!(of(Inherit::Core), "HOME=/root PATH=/bin Path=mixed");
        assert_eq!(variables(&of(Inherit::All)), variables(OWN));
    }

    #[test]
    fn secrets_are_excluded_by_default() {
        let policy =
            EnvPolicy { ignore_default_excludes: false, ..EnvPolicy::inherit(Inherit::All) };
        let policy = EnvPolicy { set: variables("A_TOKEN=set"), ..policy };
        let own = "T_KEY=1 t_xkeyx=1 SECRETS=1 MyToken=1 PASSWORD=1 AUTH=1";
        assert_eq!(built(own, policy, "B_TOKEN=env"), "AUTH=1 A_TOKEN=set B_TOKEN=env PASSWORD=1");
    }

    #[test]
    fn the_steps_have_an_order() {
        let policy = EnvPolicy {
            exclude: vec!["home".into(), "SET".into()],
            set: variables("HOME=/set SET=1 OTHER=1"),
            include_only: vec!["home".into(), "mx_?".into(), "SET".into()],
            ..EnvPolicy::inherit(Inherit::All)
        };
        assert_eq!(
            built(OWN, policy, "OTHER=env mx_b=env"),
            "HOME=/set MX_A=1 OTHER=env SET=1 mx_b=env"
        );
    }

    #[test]
    fn a_pattern_matches_a_whole_name_without_case() {
        let fits = |pattern: &str, name: &str| Patterns::new(&[pattern]).match_name(name);
        for (pattern, name) in [
            ("foo", "FOO"),
            ("F?O", "foo"),
            ("*", ""),
            ("*", "any"),
            ("**a*", "ba"),
            ("*key*", "MY_KEY"),
            ("a*b*c", "aXbXbXc"),
            ("*ab", "aab"),
            ("a[b", "A[B"),
            ("A.B", "A.B"),
            ("ä?", "ÄÖ"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("foo", "foo2"),
            ("foo", "xfoo"),
            ("?", ""),
            ("A.B", "AXB"),
            ("[fb]oo", "foo"),
            ("{foo,bar}", "foo"),
            ("\\foo", "foo"),
            ("a*b", "abc"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_policy_that_takes_too_long_is_refused() {
        let names = (0..10_000).map(|n| (n.to_string(), String::new())).collect();
        let patterns = vec!["*a*".to_owned(); 10_000];
        for policy in [
            EnvPolicy { exclude: patterns.clone(), ..EnvPolicy::inherit(Inherit::None) },
            EnvPolicy { include_only: patterns, ..EnvPolicy::inherit(Inherit::None) },
        ] {
            let few = build(&variables(OWN), Some(policy.clone()), Variables::new());
            assert_eq!(few, Ok(Variables::new()));
            let many = EnvPolicy { set: Variables::clone(&names), ..policy };
            assert!(build(&variables(OWN), Some(many), Variables::new()).is_err());
        }
    }
}
