//! The printed form of a seed: one word that holds everything a plan is drawn from.
//!
//! `exec:default:g10:1723+disconnect-kills+server.retained-bytes=1B` is the plan that generator
//! version 10 draws for `exec` from its default swarm and the number 1723, with one defect
//! switched on and one limit set.

use std::fmt;
use std::str::FromStr;

use crate::schedule::draw::GENERATOR;

/// The profile that needs no file.
pub const DEFAULT: &str = "default";

/// A printed seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The protocol under test.
    pub subject: String,
    /// The swarm file to draw from, or [`DEFAULT`].
    pub profile: String,
    /// The version of the generator.
    pub generator: u32,
    /// The seed itself.
    pub number: u64,
    /// The defects that are switched on.
    pub defects: Vec<String>,
    /// The limits that are set, as `LIMIT=VALUE`.
    pub sets: Vec<String>,
}

/// The reason why a text is not a valid printed seed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSeed {
    /// The text does not have the form of a seed.
    #[error("`{0}` is not a seed; one looks like `exec:default:g{GENERATOR}:1723`")]
    Form(String),
    /// The seed is for another version of the generator.
    #[error(
        "`{0}` was drawn by another version of the generator; this program draws by version {GENERATOR}"
    )]
    Version(String),
}

impl Seed {
    /// Returns whether a command-line word is a printed seed rather than a file name.
    pub fn is_meant(word: &str) -> bool {
        parts(word).is_some()
    }
}

/// Splits a seed into subject, profile, version, number, and the rest.
fn parts(word: &str) -> Option<(&str, &str, &str, &str, &str)> {
    let (head, changes) =
        word.split_once('+').map_or((word, ""), |(head, changes)| (head, changes));
    let (head, number) = head.rsplit_once(':')?;
    let (head, version) = head.rsplit_once(":g")?;
    let (subject, profile) = head.split_once(':')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(version) && digits(number) && !subject.is_empty() && !profile.is_empty())
        .then_some((subject, profile, version, number, changes))
}

impl FromStr for Seed {
    type Err = NoSeed;

    fn from_str(word: &str) -> Result<Self, NoSeed> {
        let form = || NoSeed::Form(word.to_owned());
        let (subject, profile, version, number, changes) = parts(word).ok_or_else(form)?;
        let generator = version.parse().map_err(|_| form())?;
        if generator != GENERATOR {
            return Err(NoSeed::Version(word.to_owned()));
        }
        let changes = changes.split('+').filter(|change| !change.is_empty()).map(str::to_owned);
        let (sets, defects) = changes.partition(|change| change.contains('='));
        let number = number.parse().map_err(|_| form())?;
        Ok(Self {
            subject: subject.to_owned(),
            profile: profile.to_owned(),
            generator,
            number,
            defects,
            sets,
        })
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:g{}:{}", self.subject, self.profile, self.generator, self.number)?;
        self.defects.iter().chain(&self.sets).try_for_each(|change| write!(f, "+{change}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_read_back_as_it_was_printed() {
        for word in [
            "exec:default:g10:1723",
            "counter:scenarios/a:b.toml:g10:0",
            "exec:default:g10:1723+disconnect-kills+server.retained-bytes=1B",
        ] {
            let seed: Seed = word.parse().unwrap();
            assert_eq!(seed.to_string(), word);
            assert!(Seed::is_meant(word));
        }
        let seed: Seed = "exec:default:g10:7+a+b.c=1+d".parse().unwrap();
        assert_eq!(
            (seed.defects, seed.sets),
            (vec!["a".to_owned(), "d".to_owned()], vec!["b.c=1".to_owned()])
        );
    }

    #[test]
    fn a_text_that_is_not_a_seed_is_an_error() {
        for word in [
            "scenarios/a.toml",
            "exec:default:1723",
            "exec:default:g10:x",
            ":default:g10:1",
            "exec::g10:1",
            "C:a:gb:1",
        ] {
            assert!(!Seed::is_meant(word), "{word}");
            assert_eq!(word.parse::<Seed>(), Err(NoSeed::Form(word.to_owned())));
        }
        let (old, vast) = ("exec:default:g999:1", "exec:default:g10:99999999999999999999");
        assert_eq!(old.parse::<Seed>(), Err(NoSeed::Version(old.to_owned())));
        assert_eq!(vast.parse::<Seed>(), Err(NoSeed::Form(vast.to_owned())));
    }
}
