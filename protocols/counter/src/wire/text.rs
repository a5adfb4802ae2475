//! The text form of the lines, and their parsers, which are strict and never panic.
//!
//! Numbers are decimal, without a sign or a leading zero; names are 1 to 64 characters of `a-z A-Z
//! 0-9 . _ - /`. A line that deviates by a single byte is [`Malformed`].

use std::fmt;
use std::str::FromStr;

use super::{Absence, Beat, Malformed, Name, Refusal, Reply, Request, SessionId, Ticket};

const REFUSALS: &[(Refusal, &str)] = &[
    (Refusal::UnknownSession, "unknown-session"),
    (Refusal::StaleTicket, "stale-ticket"),
    (Refusal::StillAttached, "still-attached"),
    (Refusal::Full, "full"),
];

const ABSENCES: &[(Absence, &str)] =
    &[(Absence::Unknown, "unknown"), (Absence::Over, "over"), (Absence::Full, "full")];

fn word<T: Copy + PartialEq>(table: &'static [(T, &'static str)], value: T) -> &'static str {
    table.iter().find(|row| row.0 == value).expect("the table has a row for each value").1
}

fn value<T: Copy>(table: &'static [(T, &'static str)], word: &str) -> Result<T, Malformed> {
    table.iter().find(|row| row.1 == word).map(|row| row.0).ok_or(Malformed)
}

fn number<T: FromStr>(word: &str) -> Result<T, Malformed> {
    let strict =
        word.bytes().all(|c| c.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    if strict { word.parse().map_err(|_| Malformed) } else { Err(Malformed) }
}

fn name(word: &str) -> Result<Name, Malformed> {
    word.parse().map_err(|_| Malformed)
}

fn session(word: &str) -> Result<SessionId, Malformed> {
    let strict = word.len() == 32 && word.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    if strict {
        u128::from_str_radix(word, 16).map(SessionId).map_err(|_| Malformed)
    } else {
        Err(Malformed)
    }
}

/// The words of a line. No line has more than five words, so a sixth word contains the rest, and
/// matches nothing.
fn words(line: &str) -> Vec<&str> {
    line.splitn(6, ' ').collect()
}

impl FromStr for Request {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        Ok(match *words(line) {
            ["hello", id, generation, attempt] => Request::Hello {
                session: if id == "-" { None } else { Some(session(id)?) },
                ticket: Ticket { generation: number(generation)?, attempt: number(attempt)? },
            },
            ["watch", stream, next] => {
                Request::Watch { stream: name(stream)?, next: number(next)? }
            }
            ["unwatch", stream] => Request::Unwatch { stream: name(stream)? },
            ["add", id, counter, amount, memo] => Request::Add {
                id: number(id)?,
                counter: name(counter)?,
                amount: number(amount)?,
                memo: name(memo)?,
            },
            ["peek", id, counter] => Request::Peek { id: number(id)?, counter: name(counter)? },
            ["lease", id, counter, millis] => {
                Request::Lease { id: number(id)?, counter: name(counter)?, millis: number(millis)? }
            }
            ["bye"] => Request::Bye,
            _ => return Err(Malformed),
        })
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Hello { session: Some(session), ticket } => {
                write!(f, "hello {session} {} {}", ticket.generation, ticket.attempt)
            }
            Request::Hello { session: None, ticket } => {
                write!(f, "hello - {} {}", ticket.generation, ticket.attempt)
            }
            Request::Watch { stream, next } => write!(f, "watch {stream} {next}"),
            Request::Unwatch { stream } => write!(f, "unwatch {stream}"),
            Request::Add { id, counter, amount, memo } => {
                write!(f, "add {id} {counter} {amount} {memo}")
            }
            Request::Peek { id, counter } => write!(f, "peek {id} {counter}"),
            Request::Lease { id, counter, millis } => write!(f, "lease {id} {counter} {millis}"),
            Request::Bye => f.write_str("bye"),
        }
    }
}

impl FromStr for Reply {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        Ok(match *words(line) {
            ["welcome", id, "new"] => Reply::Welcome { session: session(id)?, resumed: false },
            ["welcome", id, "resumed"] => Reply::Welcome { session: session(id)?, resumed: true },
            ["refused", why] => Reply::Refused(value(REFUSALS, why)?),
            ["n", stream, index, value] => Reply::Number {
                stream: name(stream)?,
                index: number(index)?,
                value: number(value)?,
            },
            ["end", stream, total] => Reply::End { stream: name(stream)?, total: number(total)? },
            ["gap", stream, oldest] => {
                Reply::Gap { stream: name(stream)?, oldest: number(oldest)? }
            }
            ["lost", stream, why] => {
                Reply::Lost { stream: name(stream)?, why: value(ABSENCES, why)? }
            }
            ["added", id, sum] => Reply::Added { id: number(id)?, sum: number(sum)? },
            ["forgotten", id] => Reply::Forgotten { id: number(id)? },
            ["peeked", id, sum] => Reply::Peeked { id: number(id)?, sum: number(sum)? },
            ["lease-over", id] => Reply::LeaseOver { id: number(id)? },
            _ => return Err(Malformed),
        })
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Welcome { session, resumed } => {
                write!(f, "welcome {session} {}", if *resumed { "resumed" } else { "new" })
            }
            Reply::Refused(why) => write!(f, "refused {}", word(REFUSALS, *why)),
            Reply::Number { stream, index, value } => write!(f, "n {stream} {index} {value}"),
            Reply::End { stream, total } => write!(f, "end {stream} {total}"),
            Reply::Gap { stream, oldest } => write!(f, "gap {stream} {oldest}"),
            Reply::Lost { stream, why } => write!(f, "lost {stream} {}", word(ABSENCES, *why)),
            Reply::Added { id, sum } => write!(f, "added {id} {sum}"),
            Reply::Forgotten { id } => write!(f, "forgotten {id}"),
            Reply::Peeked { id, sum } => write!(f, "peeked {id} {sum}"),
            Reply::LeaseOver { id } => write!(f, "lease-over {id}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(REFUSALS, *self))
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(ABSENCES, *self))
    }
}

impl FromStr for Beat {
    type Err = Malformed;

    fn from_str(line: &str) -> Result<Self, Malformed> {
        match *words(line) {
            ["ping", n] => Ok(Beat::Ping(number(n)?)),
            ["pong", n] => Ok(Beat::Pong(number(n)?)),
            _ => Err(Malformed),
        }
    }
}

impl fmt::Display for Beat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Beat::Ping(n) => write!(f, "ping {n}"),
            Beat::Pong(n) => write!(f, "pong {n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_written_as_it_is_read() {
        let id = "0123456789abcdef0123456789abcdef";
        let requests = [
            "hello - 1 1".to_owned(),
            format!("hello {id} 2 7"),
            "watch client2/s1 1".into(),
            "unwatch s1".into(),
            "add 5 c1 3 call-17".into(),
            "peek 6 c1".into(),
            "lease 7 c1 1500".into(),
            "bye".into(),
        ];
        for line in requests {
            assert_eq!(line.parse::<Request>().map(|request| request.to_string()), Ok(line));
        }
        let replies = [
            format!("welcome {id} new"),
            format!("welcome {id} resumed"),
            "n s1 42 164042".into(),
            "end s1 60".into(),
            "gap s1 7".into(),
            "added 5 18".into(),
            "forgotten 5".into(),
            "peeked 6 18446744073709551615".into(),
            "lease-over 7".into(),
        ];
        let refusals = REFUSALS.iter().map(|(_, why)| format!("refused {why}"));
        let absences = ABSENCES.iter().map(|(_, why)| format!("lost s1 {why}"));
        for line in replies.into_iter().chain(refusals).chain(absences) {
            assert_eq!(line.parse::<Reply>().map(|reply| reply.to_string()), Ok(line));
        }
        for line in ["ping 0", "pong 9"] {
            assert_eq!(line.parse::<Beat>().map(|beat| beat.to_string()), Ok(line.to_owned()));
        }
    }

    #[test]
    fn a_line_that_deviates_by_one_byte_is_malformed() {
        let lines = [
            "",
            " ",
            "bye ",
            " bye",
            "Bye",
            "bye bye",
            "watch s1",
            "watch s1 0",
            "watch s1 01",
            "watch s1 +1",
            "watch s1 -1",
            "watch  s1 1",
            "watch s1 1 ",
            "watch s1 18446744073709551616",
            "watch s! 1",
            "add 5 c1 4294967296 m",
            "hello - 1",
            "hello 0123 1 1",
            "hello 0123456789ABCDEF0123456789abcdef 1 1",
            "add 1 c1 1 m m",
            "peek é c1",
            "n s1 1 1",
        ];
        for line in lines {
            assert_eq!(line.parse::<Request>(), Err(Malformed), "{line:?}");
        }
        for line in [
            "welcome 1 new",
            "refused because",
            "lost s1",
            "end s1",
            "watch s1 1",
            "n s1 1 1 1 1 1 1",
        ] {
            assert_eq!(line.parse::<Reply>(), Err(Malformed), "{line:?}");
        }
    }

    /// A client tries generation 2 twice, because the first welcome was lost. The later attempt has
    /// the greater ticket.
    #[test]
    fn the_later_attempt_of_one_generation_wins() {
        let ticket = |generation, attempt| Ticket { generation, attempt };
        assert!(ticket(2, 3) > ticket(2, 2));
        assert!(ticket(3, 4) > ticket(2, 3));
    }

    #[test]
    fn names_have_a_maximum_length() {
        assert!("a".repeat(64).parse::<Name>().is_ok());
        assert!("a".repeat(65).parse::<Name>().is_err());
        assert_eq!(
            "a b".parse::<Name>().unwrap_err().to_string(),
            "`a b` is not a name: take 1 to 64 letters, digits and `.`, `_`, `-`, `/`"
        );
    }
}
