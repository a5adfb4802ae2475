//! A limit of the run excuses a refusal.

use super::Truth;
use crate::history::Call;
use crate::subjects::exec::answers::ExecFailure;
use crate::subjects::exec::operations::LONGEST_LINE;
use crate::subjects::exec::properties::served::UserOperation;
use reknit_exec::client::Failure;
use reknit_exec::limits::{ClientLimits, ServerLimits};
use reknit_exec::server::CHUNK;

/// The minimum size of a piece of a long line.
const SHORTEST: usize = CHUNK / 2;

/// The start of a refusal for lack of room.
pub(super) const TOO_MANY: &str = "too many ";

/// More bytes than the requests of a user have in a random run. A lower limit of waiting bytes excuses
/// a refusal for lack of room.
const ALL_REQUESTS: usize = 4 << 20;

/// The most entries of a directory that a random schedule lists.
const MOST_LISTED: usize = 2;

/// More bytes than a text has that a random schedule writes to a file.
const LONGEST_TEXT: usize = 64;

/// Returns whether a refusal may come from a limit of a size. Nothing compares it with the real size.
pub(super) fn may_be_too_large(
    limits: &ServerLimits,
    asked: &UserOperation<'_>,
    refusal: &ExecFailure,
) -> bool {
    let Failure::Refused { message, .. } = &refusal.0 else { return false };
    if message.starts_with("file is too large") {
        let is_longer = asked.verb() == "use-files" && limits.file_bytes < LONGEST_TEXT;
        return asked.verb() == "read-file" || is_longer;
    }
    if message.starts_with("the directory has more than") {
        return limits.directory_entries < MOST_LISTED;
    }
    let what = message.strip_prefix(TOO_MANY);
    what.is_some_and(|what| what != "processes") && limits.waiting_bytes < ALL_REQUESTS
}

/// Returns whether the server refused a call because too many others wait.
pub(super) fn is_for_lack_of_room(refusal: &ExecFailure) -> bool {
    matches!(&refusal.0, Failure::Refused { message, .. } if message.starts_with(TOO_MANY))
}

impl Truth<'_> {
    /// Returns whether a refusal may come from a limit: the server counts what waits, or is open.
    pub(super) fn may_be_full(
        &self,
        limits: &ServerLimits,
        asked: &UserOperation<'_>,
        refusal: &ExecFailure,
    ) -> bool {
        let Failure::Refused { message, .. } = &refusal.0 else { return false };
        let calls = || self.targets.asked.values().filter(|other| other.host == asked.host);
        if message.ends_with("file handles may be open per connection") {
            let opens =
                |call: &&UserOperation<'_>| matches!(call.verb(), "read-blocks" | "use-files");
            let open = calls().filter(opens).count();
            return open > limits.file_handles;
        }
        match message.strip_prefix(TOO_MANY) {
            // A start counts from its request on, whatever its outcome is.
            Some("processes") => {
                calls().filter(|call| call.verb() == "start").count() > limits.processes
            }
            Some(_) => self.may_wait(asked) >= limits.waiting_requests as u64,
            None => false,
        }
    }

    /// Returns how many requests of other calls may wait at the server beside a call: those that were
    /// not answered before it. Some operations send more requests than their user sees answers; these
    /// always count.
    fn may_wait(&self, asked: &UserOperation<'_>) -> u64 {
        let has_one_answer = |verb: &str| {
            let of_processes =
                matches!(verb, "start" | "read" | "write" | "interrupt" | "terminate");
            of_processes || matches!(verb, "http" | "read-file" | "write-file" | "remove-file")
        };
        let is_over = |call: &Call, other: &UserOperation<'_>| {
            let answered = self.answered.get(call);
            has_one_answer(other.verb()) && answered.is_some_and(|at| *at < asked.at)
        };
        let calls = self.targets.asked.iter();
        let others = calls.filter(|(call, other)| {
            other.host == asked.host && !std::ptr::eq(*other, asked) && !is_over(call, other)
        });
        others.map(|(_, other)| other.requests()).sum()
    }

    /// Returns whether a call is a write that the server can answer at once, however many requests wait. A write waits
    /// only for room for its bytes or its id, or behind another write that waits. So none waits if all writes to the
    /// processes of this name fit together, as if nothing had been read and no id forgotten. A byte stream writes in
    /// pieces, whose number the schedule does not say.
    pub(super) fn needs_no_wait(&self, limits: &ServerLimits, write: &UserOperation<'_>) -> bool {
        let asked = self.targets.asked.values();
        let own = || asked.clone().filter(|other| other.is_about_the_process_of(write));
        let has_streams = own().any(|other| other.verb() == "write-stream");
        let writes = || own().filter(|other| other.verb() == "write");
        let bytes = writes().map(|other| other.bytes() + LONGEST_LINE as usize);
        write.verb() == "write"
            && !has_streams
            && bytes.sum::<usize>() <= limits.stdin_bytes
            && writes().count() <= limits.write_ids
    }

    /// Returns whether the process of a call may have printed more than its client keeps. A long line is
    /// several events.
    pub(super) fn exceeds_log(&self, call: Call, limits: &ClientLimits) -> bool {
        let printed = self.targets.of(call).and_then(|process| self.printed.get(process));
        printed.is_some_and(|(lines, bytes)| {
            *lines + *bytes / SHORTEST >= limits.log_events || *bytes >= limits.log_bytes
        })
    }
}
