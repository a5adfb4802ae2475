//! How the outside world knows which operation asked for what a process is or reads: the glue of a subject says so where only
//! the process sees it.

use crate::history::Call;
use crate::history::content::PADDING;
use crate::process::Command;

/// The variable in a process's environment that says what the history calls it.
pub const NAME: &str = "REKNIT_NAME";

/// The variable in a process's environment that says which call asked for it.
pub const CALL: &str = "REKNIT_CALL";

/// A variable of a command, if it is there.
pub(super) fn variable<'c>(command: &'c Command, name: &str) -> Option<&'c str> {
    command.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The line that a call writes to the standard input of a process, `bytes` long where that is enough: `#12 ......`.
pub fn line(call: Call, bytes: usize) -> Vec<u8> {
    let mut line = format!("#{} ", call.0).into_bytes();
    line.resize(bytes.saturating_sub(1).max(line.len()), PADDING);
    line.push(b'\n');
    line
}

/// The longest begin of a line in which a call may stand.
const HEAD: usize = 24;

/// Finds the lines of calls in what a process reads.
#[derive(Debug, Default)]
pub(super) struct CallLines {
    head: Vec<u8>,
}

impl CallLines {
    /// The calls whose lines end in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Call> {
        let mut calls = Vec::new();
        for byte in bytes {
            if *byte == b'\n' {
                calls.extend(call(&self.head));
                self.head.clear();
            } else if self.head.len() < HEAD {
                self.head.push(*byte);
            }
        }
        calls
    }
}

fn call(head: &[u8]) -> Option<Call> {
    let digits = std::str::from_utf8(head).ok()?.strip_prefix('#')?.split(' ').next()?;
    digits.parse().ok().map(Call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_its_call_when_all_of_it_has_come() {
        let mut lines = CallLines::default();
        let long = line(Call(12), 100);
        assert_eq!(long.len(), 100);
        assert_eq!(lines.feed(&long[..99]), []);
        assert_eq!(lines.feed(&long[99..]), [Call(12)]);
        let two = [line(Call(3), 0), line(Call(4), 2)].concat();
        assert_eq!(two, b"#3 \n#4 \n");
        assert_eq!(lines.feed(&two), [Call(3), Call(4)]);
    }

    #[test]
    fn what_is_no_call_is_no_effect() {
        assert_eq!(CallLines::default().feed(b"hello\n#\n#x 1\n\n12\n"), []);
    }
}
