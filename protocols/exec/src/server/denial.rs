//! Whether a sandbox seems to be the reason why a command failed.
//!
//! The rule of codex 0.169.0, measured on 24 November 2026: the command ran in a sandbox, its exit
//! code is not 0, and its output so far contains one of [`SIGNS`], in any case; or the exit code is
//! that of a forbidden system call. The output is that of all streams in the order of its arrival,
//! as far as the server still has it. So the answer is a guess in both directions.

use reknit_seams::defect;

use super::log::ServerLog;

/// The messages of programs to which something is forbidden.
const SIGNS: &[&str] = &[
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "seccomp",
    "sandbox",
    "landlock",
    "failed to write file",
];

/// The exit code of a process that the signal of a forbidden system call (SIGSYS) has killed.
const KILLED_FOR_SYSTEM_CALL: i32 = 128 + 31;

/// Judges the exit of a process in a sandbox.
pub(super) fn is_likely(code: i32, log: &ServerLog) -> bool {
    if code == 0 {
        return false;
    }
    code == KILLED_FOR_SYSTEM_CALL && !defect!(ForbiddenCallIsNoDenial) || {
        let output = log.kept_output().to_ascii_lowercase();
        let signs = if defect!(FewSignsOfDenial) { &SIGNS[..2] } else { SIGNS };
        signs.iter().any(|sign| contains(&output, sign.as_bytes()))
    }
}

fn contains(text: &[u8], sign: &[u8]) -> bool {
    text.windows(sign.len()).any(|part| part == sign)
}

#[cfg(test)]
mod tests {
    use reknit_resume::Bounds;

    use super::*;
    use crate::wire::process::OutputStream;
    use OutputStream::{Stderr, Stdout};

    #[test]
    fn the_exit_code_and_the_output_decide() {
        let log = |output: &[(OutputStream, &str)]| {
            let mut log = ServerLog::new(Bounds { items: 100, weight: 100 });
            for (stream, text) in output {
                log.output(*stream, bytes::Bytes::copy_from_slice(text.as_bytes()));
            }
            log
        };
        // Each was tried on codex 0.169.0.
        for (code, output, denied) in [
            (1, &[][..], false),
            (1, &[(Stdout, "Permission denied")][..], true),
            (0, &[(Stdout, "permission denied")][..], false),
            (2, &[(Stderr, "x: Operation not permitted\n")][..], true),
            (127, &[(Stderr, "PERMISSION DENIED")][..], true),
            (127, &[(Stderr, "not found")][..], false),
            (1, &[(Stdout, "failed to write")][..], false),
            (1, &[(Stderr, "Permi"), (Stdout, "ssion denied")][..], true),
            (1, &[(Stdout, "ssion denied"), (Stderr, "Permi")][..], false),
            (159, &[][..], true),
            (137, &[][..], false),
        ] {
            assert_eq!(is_likely(code, &log(output)), denied, "{code} {output:?}");
        }
        let mut evicted = log(&[(Stdout, "permission denied")]);
        evicted.output(Stdout, vec![b'x'; 90].into());
        assert!(!is_likely(1, &evicted));
    }
}
