//! The requests of clients: each is answered at once, refused, or set aside until it can be
//! answered.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reknit_seams::process::INTERRUPT;
use reknit_seams::{defect, point};
use serde::Serialize;
use serde_json::Map;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::connection::{ConnectionError, ConnectionTask};
use super::defects;
use super::files::FileRequest;
use super::lifecycle::ProcessTask;
use super::process::{ProcessId, Run};
use super::registry::RetainedSession;
use super::request_error::RequestError;
use super::restrictions;
use super::session::Reading;
use super::start;
use crate::wire::environment::{EnvironmentStatus, EnvironmentStatusResult};
use crate::wire::flow::{ConsumedParams, ConsumedResult};
use crate::wire::http::HttpParams;
use crate::wire::process::{
    ReadParams, Signal, SignalParams, SignalResult, StartParams, StartResult, TerminateParams,
    TerminateResult, WriteParams, WriteResult,
};
use crate::wire::sandbox::SandboxType;
use crate::wire::{RequestId, method, read, response_text};

/// The maximum length of an id that a client chooses.
const LONGEST_ID: usize = 256;

/// The longest wait of a read. Clients cannot distinguish it from a longer wait.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// The outcome of a request that is not refused.
pub(super) enum RequestOutcome {
    /// The request is answered.
    Answered(String),
    /// The request is set aside.
    Waits(Waiting),
    /// The request was started; its task delivers the answer.
    Started,
}

/// The condition that a request waits for. A waiting request ends with its connection.
pub(super) enum Waiting {
    /// Output, exit or close, until a deadline.
    Read { process: ProcessId, after: u64, max: Option<u64>, until: Instant, seen: Option<u64> },
    /// Room in the standard input of a process.
    Write { process: ProcessId, write: Option<String>, bytes: Bytes },
    /// The launch of a process, with the sandbox to report.
    Start { run: Run, sandbox: SandboxType },
}

impl Waiting {
    /// Returns the deadline of the wait, if it has one.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Self::Read { until, .. } => Some(*until),
            Self::Write { .. } | Self::Start { .. } => None,
        }
    }

    /// Returns how many bytes the request holds.
    fn bytes(&self) -> usize {
        match self {
            Self::Write { bytes, .. } => bytes.len(),
            Self::Read { .. } | Self::Start { .. } => 0,
        }
    }

    /// Whether the request reads this process.
    fn reads(&self, of: &ProcessId) -> bool {
        matches!(self, Self::Read { process, .. } if process == of)
    }

    /// Returns the process that the request writes to, if it is a write.
    pub(super) fn writes_to(&self) -> Option<&ProcessId> {
        match self {
            Self::Write { process, .. } => Some(process),
            Self::Read { .. } | Self::Start { .. } => None,
        }
    }
}

/// An answer, or `None` if the request still waits.
type Answer = Option<Result<String, RequestError>>;

impl ConnectionTask {
    /// Handles a request of a client whose handshake is over.
    pub(super) fn handle_request(
        &mut self,
        kept: &Arc<RetainedSession>,
        id: &RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<RequestOutcome, RequestError> {
        kept.core().check(self.conn)?;
        match method {
            method::ENVIRONMENT_INFO => {
                no_params(params)?;
                Ok(answered(id, &self.shared.description))
            }
            method::ENVIRONMENT_STATUS => {
                no_params(params)?;
                Ok(answered(id, &EnvironmentStatusResult { status: EnvironmentStatus::Ready }))
            }
            method::START => self.start(kept, start::read_params(params)?),
            method::READ => self.read(kept, id, read(params)?),
            method::CONSUMED => self.consumed(kept, id, read(params)?),
            method::WRITE => self.write(kept, id, read(params)?),
            method::SIGNAL => self.signal(kept, id, read(params)?),
            method::TERMINATE => self.terminate(kept, id, read(params)?),
            method::HTTP_REQUEST => self.fetch(id, read(params)?),
            _ => self.use_files(id, method, params),
        }
    }

    fn start(
        &mut self,
        kept: &Arc<RetainedSession>,
        params: StartParams,
    ) -> Result<RequestOutcome, RequestError> {
        let process = process_id(&params.process_id)?;
        let policy = restrictions::check(&params.restrictions)?;
        let sandbox = SandboxType::of(policy.as_ref());
        self.may_wait(0)?;
        if kept.alive() >= self.shared.limits.processes && !defect!(CancelledStartIsFree) {
            return Err(RequestError::TooMany("processes"));
        }
        if defect!(ProcessIdsGlobal) && self.shared.any_session_has(&process) {
            return Err(RequestError::Duplicate(process));
        }
        let tty = params.tty;
        let variables = &self.shared.env.machine.variables;
        let command = start::command(variables, policy.as_ref(), params)?;
        let launch = self.shared.env.launch.clone();
        launch.can_confine(&command).map_err(RequestError::CannotConfine)?;
        let run = kept.core().start(self.conn, &process, sandbox, Instant::now())?;
        let task = ProcessTask {
            session: Arc::downgrade(kept),
            run: run.clone(),
            command,
            tty,
            launch,
            requested_by: self.conn,
        };
        kept.spawn(task.run());
        Ok(RequestOutcome::Waits(Waiting::Start { run, sandbox }))
    }

    fn read(
        &mut self,
        kept: &RetainedSession,
        id: &RequestId,
        params: ReadParams,
    ) -> Result<RequestOutcome, RequestError> {
        let process = process_id(&params.process_id)?;
        let (after, max) = (params.after_seq.unwrap_or(0), params.max_bytes);
        let wait_ms = defects::read_wait(params.wait_ms.unwrap_or(0));
        let wait = Duration::from_millis(wait_ms).min(LONGEST_WAIT);
        let may_wait = !wait.is_zero();
        if let Some(result) =
            kept.core().read(self.conn, &process, Reading { after, max, may_wait })?
        {
            return Ok(answered(id, &result));
        }
        self.may_wait(0)?;
        Ok(RequestOutcome::Waits(Waiting::Read {
            process,
            after,
            max,
            until: Instant::now() + wait,
            seen: None,
        }))
    }

    fn consumed(
        &mut self,
        kept: &RetainedSession,
        id: &RequestId,
        params: ConsumedParams,
    ) -> Result<RequestOutcome, RequestError> {
        let process = process_id(&params.process_id)?;
        kept.core().consumed(self.conn, &process, params.seq)?;
        Ok(answered(id, &ConsumedResult {}))
    }

    fn write(
        &mut self,
        kept: &RetainedSession,
        id: &RequestId,
        params: WriteParams,
    ) -> Result<RequestOutcome, RequestError> {
        let process = process_id(&params.process_id)?;
        let (write, bytes) = (params.write_id, params.chunk.0);
        if write.as_ref().is_some_and(|write| write.is_empty() || write.len() > LONGEST_ID) {
            return Err(RequestError::Params(format!("a writeId has 1 to {LONGEST_ID} bytes")));
        }
        // The bug: a write waits behind a read of its process that waits.
        let waits = self.write_waits(&process)
            || defect!(WritesWaitForReads)
                && self.waiting.iter().any(|(_, waiting)| waiting.reads(&process));
        if !waits
            && let Some(status) =
                kept.core().write(self.conn, &process, write.as_deref(), &bytes, Instant::now())?
        {
            return Ok(answered(id, &WriteResult { status }));
        }
        self.may_wait(bytes.len())?;
        Ok(RequestOutcome::Waits(Waiting::Write { process, write, bytes }))
    }

    fn signal(
        &mut self,
        kept: &RetainedSession,
        id: &RequestId,
        params: SignalParams,
    ) -> Result<RequestOutcome, RequestError> {
        let process = process_id(&params.process_id)?;
        let Signal::Interrupt = params.signal;
        kept.core().signal(self.conn, &process, INTERRUPT)?;
        Ok(answered(id, &SignalResult {}))
    }

    fn terminate(
        &mut self,
        kept: &RetainedSession,
        id: &RequestId,
        params: TerminateParams,
    ) -> Result<RequestOutcome, RequestError> {
        let process = process_id(&params.process_id)?;
        let running = kept.core().terminate(self.conn, &process)?;
        Ok(answered(id, &TerminateResult { running }))
    }

    fn fetch(
        &mut self,
        id: &RequestId,
        params: HttpParams,
    ) -> Result<RequestOutcome, RequestError> {
        if params.request_id.len() > LONGEST_ID {
            return Err(RequestError::Params(format!(
                "a requestId has at most {LONGEST_ID} bytes"
            )));
        }
        self.may_wait(params.body_base64.as_ref().map_or(0, |body| body.0.len()))?;
        let most = self.shared.limits.http_body_bytes;
        let env = &self.shared.env;
        self.fetches.start(&env.net, &env.machine.variables, id.clone(), params, most)?;
        Ok(RequestOutcome::Started)
    }

    fn use_files(
        &mut self,
        id: &RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<RequestOutcome, RequestError> {
        let Some(request) = FileRequest::read(method, params)? else {
            let method = method.chars().take(LONGEST_ID).collect();
            return Err(RequestError::UnknownMethod(method));
        };
        let bytes = params.map_or(0, |params| params.get().len());
        self.may_wait(bytes)?;
        self.files.queue(id.clone(), request, bytes)?;
        Ok(RequestOutcome::Started)
    }

    /// Checks that one more request, which holds this many bytes, may be set aside. There is always
    /// room for one request, of any length.
    fn may_wait(&self, bytes: usize) -> Result<(), RequestError> {
        let limits = &self.shared.limits;
        let others =
            if defect!(OnlyReadsCount) { 0 } else { self.fetches.len() + self.files.len() };
        let count = self.waiting.len() + others;
        let waiting: usize = self.waiting.iter().map(|(_, waiting)| waiting.bytes()).sum();
        let held = waiting + self.fetches.bytes() + self.files.bytes();
        if count >= limits.waiting_requests || held > 0 && held + bytes > limits.waiting_bytes {
            return Err(RequestError::TooMany("requests that wait"));
        }
        Ok(())
    }

    /// Answers a waiting request if that is possible now. A write to a process in `writes` still
    /// waits, because an earlier write to that process does.
    pub(super) fn try_again(
        &self,
        kept: &RetainedSession,
        id: &RequestId,
        waiting: &mut Waiting,
        writes: &BTreeSet<ProcessId>,
    ) -> Answer {
        let mut core = kept.core();
        match waiting {
            Waiting::Read { process, after, max, until, seen } => {
                let may_wait = Instant::now() < *until;
                if may_wait && seen.is_some() && *seen == core.next_of(process) {
                    return None;
                }
                let read =
                    core.read(self.conn, process, Reading { after: *after, max: *max, may_wait });
                let read = read.transpose()?;
                drop(core); // an answer may be long
                Some(read.map(|result| response_text(id, &result)))
            }
            Waiting::Write { process, write, bytes } => {
                if writes.contains(process) {
                    return None;
                }
                let written =
                    core.write(self.conn, process, write.as_deref(), bytes, Instant::now());
                let written = written.transpose()?;
                Some(written.map(|status| response_text(id, &WriteResult { status })))
            }
            Waiting::Start { run, sandbox } => {
                let result = StartResult {
                    process_id: run.id.as_str().to_owned(),
                    sandbox_type: Some(*sandbox),
                };
                Some(core.outcome(run)?.map(|()| response_text(id, &result)))
            }
        }
    }

    /// Emulates two defects that act between a check and its action; otherwise does nothing.
    pub(super) async fn emulate_defects(
        &mut self,
        kept: &RetainedSession,
        method: &str,
        params: Option<&RawValue>,
        mut outcome: Result<RequestOutcome, RequestError>,
    ) -> Result<Result<RequestOutcome, RequestError>, ConnectionError> {
        if defect!(WriteRememberedLate)
            && method == method::WRITE
            && let Ok(WriteParams { process_id, write_id, .. }) = read(params)
        {
            // The bytes are queued, but their id is not remembered yet. A disconnect at this point
            // drops the handler.
            self.busy(point!("exec.server.write.queued", conn = self.conn.0)).await?;
            kept.core().remember_write(self.conn, &process_id.as_str().into(), write_id.as_deref());
        }
        if defect!(LongPollLostWakeUp)
            && let Ok(RequestOutcome::Waits(Waiting::Read { process, seen, .. })) = &mut outcome
        {
            // The read has found nothing. Only events after it starts to listen will wake it.
            self.busy(point!("exec.server.read.looked", conn = self.conn.0)).await?;
            *seen = kept.core().next_of(process);
        }
        Ok(outcome)
    }
}

fn answered(id: &RequestId, result: &impl Serialize) -> RequestOutcome {
    RequestOutcome::Answered(response_text(id, result))
}

/// Checks the parameters of a method that has none: absent, `null`, or an empty object.
fn no_params(params: Option<&RawValue>) -> Result<(), RequestError> {
    match params.map(RawValue::get) {
        None | Some("null") => Ok(()),
        Some(params)
            if serde_json::from_str(params)
                .is_ok_and(|fields: Map<String, serde_json::Value>| fields.is_empty()) =>
        {
            Ok(())
        }
        Some(_) => Err(RequestError::Params("this method has no parameters".into())),
    }
}

fn process_id(id: &str) -> Result<ProcessId, RequestError> {
    if id.len() > LONGEST_ID {
        return Err(RequestError::Params(format!("a process id has at most {LONGEST_ID} bytes")));
    }
    Ok(id.into())
}
