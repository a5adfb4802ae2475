//! Stream names in the history. With several clients, or if one client asks for the same thing
//! again, each request gets a separate stream name. So the properties see one producer and one user
//! per stream.
//!
//! The stream that `[stream.s1]` declares is called `s1` the first time that `client` asks for it,
//! `s1.2` the second time, and `client2/s1` if `client2` asks for it.

/// The stream name for the n-th time that a host asks for a declared name.
pub(super) fn name(host: &str, declared: &str, nth: u64) -> String {
    let owner = if host == "client" { String::new() } else { format!("{host}/") };
    let time = if nth == 1 { String::new() } else { format!(".{nth}") };
    format!("{owner}{declared}{time}")
}

/// The name of the n-th incarnation of something: `client`, `client.2`.
#[cfg(feature = "toolcall")]
pub(super) fn name_of(what: &str, nth: u64) -> String {
    if nth == 1 { what.to_owned() } else { format!("{what}.{nth}") }
}

/// Extracts the declared name from a stream name.
pub(super) fn declared(record: &str) -> &str {
    let name = record.rsplit_once('/').map_or(record, |(_, name)| name);
    match name.rsplit_once('.') {
        Some((name, nth)) if nth.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_a_separate_name_that_contains_the_declared_name() {
        for (host, nth, record) in [
            ("client", 1, "s1"),
            ("client", 2, "s1.2"),
            ("client2", 1, "client2/s1"),
            ("client3", 12, "client3/s1.12"),
        ] {
            assert_eq!(name(host, "s1", nth), record);
            assert_eq!(declared(record), "s1");
        }
        assert_eq!(declared("a.b"), "a.b");
    }
}
