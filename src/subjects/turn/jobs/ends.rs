//! The property `end_absorbs` (P4): what users saw of a job that is over, and the cancels that succeeded.

use serde_json::Value;

use super::notes::SeenJob;
use super::properties::violation;
use super::story::Job;
use crate::history::Time;
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::turn::story::Story;
use reknit_turn::jobs::StateName;

kinds! {
    pub(in super::super) END_ABSORBS;
    CHANGED = "changed": "{subject:}the job was {before} at {known}, but a user saw it {after} {moment}";
    PHASE = "phase": "{subject:}a user saw the job {state}, but still in the phase {phase} {moment}";
    PATCHED = "patched": "{subject:}a user saw the job {before} at {known}, and then other values in its record {moment}";
}

pub(in super::super) fn end_absorbs(story: &Story<'_>) -> Vec<Violation> {
    let jobs = &story.jobs;
    let all = jobs.jobs.values().filter(|job| job.damaged.is_none());
    all.filter_map(|job| changed(story, job).or_else(|| has_phase(story, job))).collect()
}

/// A job that is over has no phase.
fn has_phase(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let over = story.jobs.sights(job).filter(|(_, seen)| seen.state.is_terminal());
    let mut over = over.inspect(|_| story.cx.judges("end_absorbs"));
    over.find_map(|(look, seen)| {
        let phase = seen.shown["phase"].as_str()?.to_owned();
        let data = fields! { state: seen.state.as_str(), phase };
        Some(violation("end_absorbs", job, look.at, &PHASE, data))
    })
}

/// Whether a later look shows the same of a job that is over. If a command held the lock of the records
/// during the earlier look, that reader could not record the end of a job whose worker had died: then
/// the time of the end is that of the first reader that could.
fn is_same(one: &Ended<'_>, other: &SeenJob) -> bool {
    let Some(seen) = one.seen else { return true };
    let lasting = |seen: &SeenJob| {
        let mut shown = seen.shown.clone();
        shown["ended"] = Value::Null;
        shown
    };
    let may_differ = one.is_unrecorded && seen.state == StateName::Failed;
    seen.shown == other.shown || (may_differ && lasting(seen) == lasting(other))
}

/// The end of a job, as a user knows it.
struct Ended<'s> {
    at: Time,
    state: StateName,
    /// The job as the user saw it. `None`: the user cancelled the job.
    seen: Option<&'s SeenJob>,
    /// Whether the reader perhaps could not record it.
    is_unrecorded: bool,
}

impl<'s> Ended<'s> {
    fn shown(&self) -> Option<&'s Value> {
        self.seen.map(|seen| &seen.shown)
    }
}

fn changed(story: &Story<'_>, job: &Job<'_>) -> Option<Violation> {
    let jobs = &story.jobs;
    let cancelled = job.cancels.iter().map(|(at, _)| Ended {
        at: *at,
        state: StateName::Cancelled,
        seen: None,
        is_unrecorded: false,
    });
    let seen = jobs.sights(job).filter(|(_, seen)| seen.state.is_terminal());
    let seen = seen.map(|(look, seen)| Ended {
        at: look.at,
        state: seen.state,
        seen: Some(seen),
        is_unrecorded: jobs.is_locked(job.host, look.since, look.at),
    });
    let mut ends: Vec<_> = cancelled.chain(seen).collect();
    ends.sort_by_key(|end| end.at);
    // Users look often, and nearly always see the same: what differs from a repeated end differs from
    // the first of them, too.
    ends.dedup_by(|end, before| {
        end.state == before.state
            && end.is_unrecorded == before.is_unrecorded
            && end.shown() == before.shown()
    });
    ends.iter().find_map(|end| {
        let (known, before) = (end.at, end.state);
        let later = jobs.sights(job).filter(|(look, _)| look.since > known);
        let mut later = later.inspect(|_| story.cx.judges("end_absorbs"));
        let is_other = |seen: &SeenJob| seen.state != before || !is_same(end, seen);
        let (look, after) = later.find(|(_, seen)| is_other(seen))?;
        Some(match after.state == before {
            true => {
                let data = fields! { before: before.as_str(), known };
                violation("end_absorbs", job, look.at, &PATCHED, data)
            }
            false => {
                let data = fields! { before: before.as_str(), known, after: after.state.as_str() };
                violation("end_absorbs", job, look.at, &CHANGED, data)
            }
        })
    })
}
