//! The path of a file, as a `file:` URI.
//!
//! A path may have bytes that are not UTF-8; the URI escapes them. As in codex 0.169.0, `.` and
//! `..` are removed from the URI before a path is made of it, without regard to links.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::{percent_decode_str, percent_encode};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::directory::ESCAPED;

/// An absolute path, possibly on another machine. It contains no NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    path: PathBuf,
    /// The other machine.
    host: Option<String>,
}

/// The reason why a text is no path of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilePathError {
    /// The text has no scheme.
    #[error("invalid URI: a path is a `file:` URI")]
    NoUri,
    /// The URI has another scheme than `file`.
    #[error("unsupported path URI scheme `{0}`")]
    Scheme(String),
    /// The URI has a query or a fragment.
    #[error("a path URI has no query and no fragment")]
    Extra,
    /// The path contains a NUL byte.
    #[error("a path contains no NUL byte")]
    Nul,
    /// The URI has a user, a port, or another text that is no host.
    #[error("a path URI has only a host")]
    Authority,
    /// The URI names another machine.
    #[error("the URI names the host `{0}`, which is not this machine")]
    Host(String),
}

impl FilePath {
    /// Creates the path of a file on the server's machine. A relative path begins at the root.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: Path::new("/").join(path), host: None }
    }

    /// Returns the path on this machine.
    ///
    /// # Errors
    /// [`FilePathError::Host`] if the path is on another machine.
    pub fn local(&self) -> Result<&Path, FilePathError> {
        match &self.host {
            None => Ok(&self.path),
            Some(host) => Err(FilePathError::Host(host.clone())),
        }
    }
}

/// Writes the URI.
impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or_default();
        write!(f, "file://{host}{}", percent_encode(self.path.as_os_str().as_bytes(), ESCAPED))
    }
}

/// The longest part of a text that an error message repeats.
const SHOWN: usize = 64;

impl FromStr for FilePath {
    type Err = FilePathError;

    fn from_str(text: &str) -> Result<Self, FilePathError> {
        let (scheme, rest) = text.split_once(':').ok_or(FilePathError::NoUri)?;
        if scheme.contains('/') || scheme.is_empty() {
            return Err(FilePathError::NoUri);
        }
        if !scheme.eq_ignore_ascii_case("file") {
            return Err(FilePathError::Scheme(scheme.chars().take(SHOWN).collect()));
        }
        if rest.contains(['?', '#']) {
            return Err(FilePathError::Extra);
        }
        let rest = rest.replace('\\', "/"); // as in all URIs with this scheme
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", &*rest),
        };
        let is_address = host.starts_with('[');
        if host.contains(['@', ' ']) || host.contains(':') && !is_address {
            return Err(FilePathError::Authority);
        }
        let host =
            Some(host).filter(|host| !host.is_empty() && !host.eq_ignore_ascii_case("localhost"));
        Ok(Self {
            path: without_dots(path)?,
            host: host.map(|host| host.chars().take(SHOWN).collect()),
        })
    }
}

/// Decodes a path, and removes `.` and `..` from it.
fn without_dots(escaped: &str) -> Result<PathBuf, FilePathError> {
    let mut path = PathBuf::from("/");
    for piece in escaped.split('/') {
        let name: Vec<u8> = percent_decode_str(piece).collect();
        match &*name {
            b"" | b"." => {}
            b".." => {
                path.pop();
            }
            _ if name.contains(&0) => return Err(FilePathError::Nul),
            // An escaped separator separates.
            _ => path.push(OsString::from_vec(without_leading_slashes(name))),
        }
    }
    Ok(path)
}

fn without_leading_slashes(name: Vec<u8>) -> Vec<u8> {
    let slashes = name.iter().take_while(|byte| **byte == b'/').count();
    name[slashes..].to_vec()
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_a_path() {
        for (uri, path) in [
            ("file:///tmp/a", &b"/tmp/a"[..]),
            ("file:/tmp/a", b"/tmp/a"),
            ("FILE:tmp", b"/tmp"),
            ("file://localhost/tmp", b"/tmp"),
            ("file:///tmp//a/", b"/tmp/a"),
            ("file:///a/./b/../c", b"/a/c"),
            ("file:///a/%2e%2E/c", b"/c"),
            ("file:///../..", b"/"),
            ("file:", b"/"),
            ("file:///a b/\u{e9}", "/a b/\u{e9}".as_bytes()),
            ("file:///%FF%fe", b"/\xff\xfe"),
            ("file:///%zz", b"/%zz"),
            ("file:///a%2Fb", b"/a/b"),
            ("file:///%2Fetc", b"/etc"),
            ("file:///a\\b", b"/a/b"),
        ] {
            let parsed: FilePath = uri.parse().unwrap();
            assert_eq!(parsed.local().unwrap().as_os_str().as_bytes(), path, "{uri}");
            assert_eq!(parsed.to_string().parse::<FilePath>().unwrap(), parsed, "{uri}");
        }
        let odd = FilePath::new("/!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~ \u{e9}");
        let uri = "file:///!%22%23$%25&'()*+,-.:;%3C=%3E%3F@[%5C]^_%60%7B|%7D~%20%C3%A9";
        assert_eq!((odd.to_string().as_str(), uri.parse()), (uri, Ok(odd)));
    }

    #[test]
    fn a_text_that_is_no_path_is_an_error() {
        use FilePathError::*;
        for (text, error) in [
            ("/tmp/a", NoUri),
            ("", NoUri),
            ("a/b:c", NoUri),
            ("http://a/b", Scheme("http".into())),
            ("file:///a?b", Extra),
            ("file:///a#b", Extra),
            ("file:///%00", Nul),
            ("file://me@elsewhere/a", Authority),
            ("file://localhost:80/a", Authority),
            ("file://a b/c", Authority),
        ] {
            assert_eq!(text.parse::<FilePath>(), Err(error), "{text}");
        }
        let elsewhere: FilePath = "file://elsewhere/a".parse().unwrap();
        assert_eq!(elsewhere.local(), Err(Host("elsewhere".into())));
        assert_eq!(elsewhere.to_string(), "file://elsewhere/a");
    }
}
