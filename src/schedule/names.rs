//! Names of hosts, connections and their ends in a schedule.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a host: `server`, `client`, `client2`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Arc<str>);

impl Host {
    /// The n-th client, from 1: `client`, `client2`, `client3`, …
    pub fn client(n: u32) -> Self {
        if n == 1 { "client".into() } else { format!("client{n}").as_str().into() }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Host {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a connection, based on the host that opens it. `client#2` is the second connection
/// that `client` opened, `client/status#3` the third of those with the label `status`,
/// `client:gen2` the one that carries its generation 2, and `client#last` the newest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn {
    /// The host that opens it.
    pub host: Host,
    /// The purpose of the connection, if the client opens several kinds.
    pub label: Option<String>,
    /// Which of the host's connections.
    pub which: Which,
}

/// Selects a connection of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The n-th connection that the host opened (with that label), from 1, established or not.
    Number(u32),
    /// The connection that carries this generation.
    Generation(u64),
    /// The connection that was opened last.
    Last,
}

impl Conn {
    /// The n-th connection that `host` opens.
    pub fn number(host: impl Into<Host>, n: u32) -> Self {
        Self { host: host.into(), label: None, which: Which::Number(n) }
    }

    /// The connection that carries a generation of `host`.
    pub fn generation(host: impl Into<Host>, generation: u64) -> Self {
        Self { host: host.into(), label: None, which: Which::Generation(generation) }
    }

    /// The connection that `host` opened last.
    pub fn last(host: impl Into<Host>) -> Self {
        Self { host: host.into(), label: None, which: Which::Last }
    }
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that opened it.
    Client,
    /// The end that accepted it.
    Server,
}

impl Side {
    /// Returns the other end.
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.0.as_ref().to_owned()
    }
}

impl fmt::Display for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.as_str().fmt(f)?;
        if let Some(label) = &self.label {
            write!(f, "/{label}")?;
        }
        match self.which {
            Which::Number(n) => write!(f, "#{n}"),
            Which::Generation(n) => write!(f, ":gen{n}"),
            Which::Last => f.write_str("#last"),
        }
    }
}

/// The error for an invalid connection name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a connection; write `client#2`, `client/label#2`, `client:gen2` or `client#last`"
)]
pub struct NotAConn(String);

impl FromStr for Conn {
    type Err = NotAConn;

    fn from_str(text: &str) -> Result<Self, NotAConn> {
        let wrong = || NotAConn(text.to_owned());
        let (left, which) = if let Some((left, n)) = text.split_once(":gen") {
            (left, Which::Generation(n.parse().map_err(|_| wrong())?))
        } else if let Some(left) = text.strip_suffix("#last") {
            (left, Which::Last)
        } else {
            let (left, n) = text.split_once('#').ok_or_else(wrong)?;
            (left, Which::Number(n.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?))
        };
        let (host, label) = match left.split_once('/') {
            Some((host, label)) if !label.is_empty() => (host, Some(label.to_owned())),
            Some(_) => return Err(wrong()),
            None => (left, None),
        };
        if host.is_empty()
            || host.contains(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
        {
            return Err(wrong());
        }
        Ok(Self { host: host.into(), label, which })
    }
}

/// A type whose values have names in files, like `"stdout"`.
pub trait Named: Copy + PartialEq + 'static {
    /// The names of all values, in their order.
    const LIST: &'static NameList;
    /// All values.
    const ALL: &'static [Self];

    /// Returns the name.
    fn name(self) -> &'static str {
        let at = Self::ALL.iter().position(|value| *value == self);
        Self::LIST.names[at.expect("each value is in the list")]
    }

    /// Returns the value with this name.
    fn named(name: &str) -> Option<Self> {
        Self::LIST.names.iter().position(|known| *known == name).map(|at| Self::ALL[at])
    }
}

/// The names of the values of a type.
#[derive(Debug, PartialEq, Eq)]
pub struct NameList {
    /// A description of one value, for errors: `a pipe`.
    pub what: &'static str,
    /// The names.
    pub names: &'static [&'static str],
}

impl NameList {
    /// Returns the names as they are written in a file: `` `"die"` or `"live"` ``.
    pub fn written(&self) -> String {
        let quoted: Vec<_> = self.names.iter().map(|name| format!("`\"{name}\"`")).collect();
        match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => quoted.concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_being_written_and_read() {
        for name in [
            "client#1",
            "client2#17",
            "client/status#3",
            "client:gen2",
            "client/a:gen9",
            "client#last",
        ] {
            assert_eq!(name.parse::<Conn>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn an_invalid_connection_name_is_rejected() {
        for name in [
            "",
            "client",
            "client#",
            "client#0",
            "client#x",
            "#1",
            "client:gen",
            "client/#1",
            "a b#1",
        ] {
            assert!(name.parse::<Conn>().is_err(), "{name}");
        }
    }

    #[test]
    fn the_first_client_has_no_number() {
        assert_eq!((Host::client(1).as_str(), Host::client(2).as_str()), ("client", "client2"));
    }
}
