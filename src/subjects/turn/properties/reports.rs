//! `reports_are_whole`: a report lists the work of the agent and its subagents.

use super::shared::{may_forget_news, news};
use crate::history::Time;
use crate::property::Violation;
use crate::property::violation::{fields, kinds};
use crate::subjects::turn::limits;
use crate::subjects::turn::notes::{Reported, TurnNote, Work};
use crate::subjects::turn::outcome::{CommandOutcome, SeenVerdict};
use crate::subjects::turn::setup;
use crate::subjects::turn::story::{Run, Story};

kinds! {
    pub(in super::super) REPORTS_ARE_WHOLE;
    MISSING = "missing": "{subject:}the report does not list what the agent did: {work} {moment}";
    NOT_DONE = "not-done": "{subject:}the report lists what the agent did not do: {work} {moment}";
    LEFT_OUT = "left-out": "{subject:}the report leaves out {count} pieces of work, although it has room for all {moment}";
}

/// More bytes than a piece of work takes in a report besides its texts.
const AROUND: u64 = 512;

/// Compares the work in a report with the work that the app-server reported before the end of the
/// turn. Only the report of a completed turn must be whole.
pub(in super::super) fn reports_are_whole(story: &Story<'_>) -> Vec<Violation> {
    story.runs.iter().filter_map(|run| wrong_report(story, run)).collect()
}

fn wrong_report(story: &Story<'_>, run: &Run<'_>) -> Option<Violation> {
    let (at, outcome) = run.outcome()?;
    let count = outcome.left_out;
    if count > 0 && has_room(story, run) {
        story.cx.judges("reports_are_whole");
        let data = fields! { count };
        return Some(Violation::new("reports_are_whole", run.call, at, &LEFT_OUT, data));
    }
    let (reported, how) = run.reported()?;
    let is_whole = outcome.verdict == SeenVerdict::Completed
        && how == Reported::Completed
        && count == 0
        && at >= reported
        && !may_forget_news(story, run, at);
    if !is_whole {
        return None;
    }
    story.cx.judges("reports_are_whole");
    let done = run.notes.iter().filter(|(at, _)| *at <= reported);
    let mut done: Vec<(Time, &Work)> = done
        .filter_map(|(at, note)| match note {
            TurnNote::Did(work) => Some((*at, work)),
            _ => None,
        })
        .collect();
    let violation = |kind, work: &Work| {
        let work = match work {
            Work::Command(text) | Work::Edit(text) => text.clone(),
        };
        Some(Violation::new("reports_are_whole", run.call, at, kind, fields! { work }))
    };
    for listed in listed(outcome) {
        match done.iter().position(|(_, work)| **work == listed) {
            Some(n) => drop(done.swap_remove(n)),
            None => return violation(&NOT_DONE, &listed),
        }
    }
    // A client that has lost its connection completes a turn that has its final answer, if it knows of no
    // open work. It cannot know what the agent did after the loss.
    let must_know = |done: Time| {
        let arrives = done + news(story.cx) * 2;
        story.is_calm_between(run.asked, arrives)
            && story.shutdowns.iter().all(|asked| *asked > arrives)
    };
    let missing = done.iter().find(|(at, _)| must_know(*at));
    missing.and_then(|(_, work)| violation(&MISSING, work))
}

/// Whether a report has room for all work of a turn. The lists have a sixth of the text of a client.
fn has_room(story: &Story<'_>, run: &Run<'_>) -> bool {
    let letters = setup::turn(story.cx.plan, run.turn()).letters;
    let each = letters.saturating_mul(2).saturating_add(AROUND);
    let work = run.notes.iter().filter_map(|(_, note)| match note {
        TurnNote::Did(Work::Command(text) | Work::Edit(text)) => Some(text.len() as u64),
        _ => None,
    });
    let all = work.fold(0, |all: u64, text| all.saturating_add(text).saturating_add(each));
    let most = limits::turn(story.cx.limits).text_bytes as u64;
    all <= most / 6
}

fn listed(outcome: &CommandOutcome) -> impl Iterator<Item = Work> {
    let commands = outcome.commands.iter().map(|(command, ..)| Work::Command(command.clone()));
    commands.chain(outcome.files.iter().map(|(path, _)| Work::Edit(path.clone())))
}
