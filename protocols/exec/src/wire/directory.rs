//! The working directory of a process, and its two forms on the wire.
//!
//! Servers of June 2026 take a plain path; codex exec-server 0.169.0 takes only a `file:` URI. So
//! this type reads both, and remembers which one it was. A plain path never begins with a scheme,
//! because it begins with `/`. As in codex 0.169.0, a URI loses `.` and `..` before links are followed.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// The bytes of a path that a URI escapes: those that no URI contains, and those that mean something
/// else there. Codex 0.169.0 escapes the same ones. Bytes above 127 are always escaped.
pub(super) const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// How a directory is written on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectoryForm {
    /// `/a b`: what peers before codex 0.169.0 read.
    #[default]
    Path,
    /// `file:///a%20b`: the only form that codex 0.169.0 reads.
    Uri,
}

/// An absolute directory on the server's machine. It contains no NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: String,
    form: DirectoryForm,
}

/// The reason why a text names no directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The text is a path that does not begin with `/`, or is empty.
    #[error("a directory is an absolute path or a `file:` URI")]
    Relative,
    /// The URI has another scheme than `file`.
    #[error("unsupported URI scheme `{0}`; a directory is a `file:` URI")]
    Scheme(String),
    /// The URI names another machine.
    #[error("the URI names another host; only an empty host and `localhost` are valid")]
    Host,
    /// The URI has a query or a fragment.
    #[error("a directory URI has no query and no fragment")]
    Extra,
    /// A `%` without two hexadecimal digits.
    #[error("the URI has an invalid percent escape")]
    Escape,
    /// The decoded path is not UTF-8.
    #[error("the URI does not encode UTF-8")]
    NotUtf8,
    /// The path contains a NUL byte.
    #[error("a directory contains no NUL byte")]
    Nul,
}

impl Directory {
    /// Returns the root directory, as a path.
    pub fn root() -> Self {
        Self { path: "/".to_owned(), form: DirectoryForm::Path }
    }

    /// Returns the absolute path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the form in which it is written on the wire.
    pub fn form(&self) -> DirectoryForm {
        self.form
    }

    /// Returns the same directory in another form.
    #[must_use]
    pub fn in_form(self, form: DirectoryForm) -> Self {
        Self { form, ..self }
    }
}

impl Default for Directory {
    fn default() -> Self {
        Self::root()
    }
}

/// Writes the form of the wire.
impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            DirectoryForm::Path => f.write_str(&self.path),
            DirectoryForm::Uri => write!(f, "file://{}", utf8_percent_encode(&self.path, ESCAPED)),
        }
    }
}

/// Reads either form.
impl FromStr for Directory {
    type Err = DirectoryError;

    fn from_str(text: &str) -> Result<Self, DirectoryError> {
        let (path, form) = match scheme(text) {
            _ if text.starts_with('/') => (text.to_owned(), DirectoryForm::Path),
            None => return Err(DirectoryError::Relative),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
                (path_of(rest)?, DirectoryForm::Uri)
            }
            Some((scheme, _)) => return Err(DirectoryError::Scheme(scheme.to_owned())),
        };
        if path.contains('\0') {
            return Err(DirectoryError::Nul);
        }
        Ok(Self { path, form })
    }
}

/// The longest scheme that is recognized, so that an error message stays short.
const LONGEST_SCHEME: usize = 32;

/// Splits a URI behind its scheme (RFC 3986, section 3.1); returns `None` if there is none.
fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let named = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.len() <= LONGEST_SCHEME
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    named.then_some((scheme, rest))
}

/// Returns the path of a `file:` URI. As in codex 0.169.0, `file:/a` and `file:a` mean `/a`, and a
/// URI without a path means the root.
fn path_of(rest: &str) -> Result<String, DirectoryError> {
    if rest.contains(['?', '#']) {
        return Err(DirectoryError::Extra);
    }
    let escaped = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(DirectoryError::Host);
            }
            path
        }
        None => rest,
    };
    if escapes_are_broken(escaped) {
        return Err(DirectoryError::Escape);
    }
    let path = percent_decode_str(escaped).decode_utf8().map_err(|_| DirectoryError::NotUtf8)?;
    let path = if path.starts_with('/') { path.into_owned() } else { format!("/{path}") };
    Ok(without_dots(path))
}

/// Removes `.` and `..` from an absolute path, without regard to links. A path without them does
/// not change.
fn without_dots(path: String) -> String {
    if !path.split('/').any(|name| name == "." || name == "..") {
        return path;
    }
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match name {
            "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}

/// Whether a `%` is not followed by two hexadecimal digits. The decoder would keep such a
/// `%`, and the command would run in a directory that the client did not request.
fn escapes_are_broken(text: &str) -> bool {
    text.split('%').skip(1).any(|behind| {
        let mut digits = behind.bytes();
        !(0..2).all(|_| digits.next().is_some_and(|digit| digit.is_ascii_hexdigit()))
    })
}

impl Serialize for Directory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Directory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stands_for_itself() {
        for path in ["/", "/tmp", "/a%20b", "//tmp/", "/a?b#c", "/C:/x"] {
            let directory: Directory = path.parse().unwrap();
            assert_eq!((directory.path(), directory.form()), (path, DirectoryForm::Path));
            assert_eq!(directory.to_string(), path);
        }
    }

    #[test]
    fn a_uri_is_decoded() {
        for (uri, path) in [
            ("file:///tmp", "/tmp"),
            ("file:/tmp", "/tmp"),
            ("file:tmp", "/tmp"),
            ("FILE:///tmp", "/tmp"),
            ("file://localhost/tmp", "/tmp"),
            ("file://LocalHost/tmp", "/tmp"),
            ("file:///%74mp/", "/tmp/"),
            ("file:///a%20b/%C3%A9", "/a b/é"),
            ("file:///a%2520b", "/a%20b"),
            ("file:////tmp", "//tmp"),
            ("file:///a/./b/../c", "/a/c"),
            ("file:///a/%2e%2E/../c", "/c"),
            ("file:", "/"),
            ("file://", "/"),
            ("file:///", "/"),
        ] {
            let directory: Directory = uri.parse().unwrap();
            assert_eq!((directory.path(), directory.form()), (path, DirectoryForm::Uri), "{uri}");
        }
    }

    #[test]
    fn a_text_that_names_no_directory_is_an_error() {
        use DirectoryError::*;
        for (text, error) in [
            ("", Relative),
            ("tmp", Relative),
            ("./file:/tmp", Relative),
            (":/tmp", Relative),
            ("http://a/tmp", Scheme("http".into())),
            ("file://elsewhere/tmp", Host),
            ("file://127.0.0.1/tmp", Host),
            ("file:///tmp?x", Extra),
            ("file:///tmp#x", Extra),
            ("file:///%", Escape),
            ("file:///%f", Escape),
            ("file:///%zz", Escape),
            ("file:///%+f", Escape),
            ("file:///%%41", Escape),
            ("file:///%aé", Escape),
            ("file:///%ff", NotUtf8),
            ("file:///%00", Nul),
            ("/a\0b", Nul),
        ] {
            assert_eq!(text.parse::<Directory>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_path_survives_its_uri() {
        for path in ["/", "/a b", "/ä/%41?#:", "/tab\there", "//", "/C:/x"] {
            let uri = path.parse::<Directory>().unwrap().in_form(DirectoryForm::Uri);
            assert_eq!(uri.to_string().parse::<Directory>().unwrap(), uri, "{uri}");
            assert_eq!(uri.path(), path);
        }
        let uri = "/a b/ä".parse::<Directory>().unwrap().in_form(DirectoryForm::Uri);
        assert_eq!(serde_json::to_string(&uri).unwrap(), r#""file:///a%20b/%C3%A4""#);
    }

    #[test]
    fn json_that_is_not_a_directory_is_an_error() {
        for json in ["null", "7", r#""relative""#] {
            assert!(serde_json::from_str::<Directory>(json).is_err(), "{json}");
        }
    }
}
