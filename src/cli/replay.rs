//! `replay`: prints the full story of one run.

use std::sync::Arc;

use crate::frontend::words_for;
use crate::history::{Connection, History, Time};
use crate::hunt::plans::expected;
use crate::hunt::seed::Seed;
use crate::hunt::{JudgedRun, judge};
use crate::property::Violation;
use crate::report::picture::html;
use crate::report::{Picture, RenderOptions, story};
use crate::scenario::ScenarioFile;
use crate::schedule::units::read_duration;
use crate::subject::DynSubject;
use crate::world::{Detail, Options};

use super::args::Replay;
use super::outputs::OutputFile;
use super::page::{Page, UserError};
use super::{files, hunt};

/// Prints the full story of one run. Returns whether it held.
pub fn replay(
    args: &Replay,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let until = args.until.as_deref().map(|text| read_time("--until", text)).transpose()?;
    let from = args.from.as_deref().map(|text| read_time("--from", text)).transpose()?;
    let (scenario, subject) = load_input(args, subjects, page)?;
    let output = OutputFile::if_requested(args.html.as_ref(), "--html")?;
    let (subject, plan) = (&subject, args.select.plan(&scenario, &subject)?);
    let options = Options {
        detail: Detail::Full,
        engine: args.engine_option.0,
        log: args.log,
        ..Options::default()
    };
    let case = JudgedRun { subject, plan: &plan, expect: &expected(&scenario) };
    let judged = judge(case, &options, |_| true)?;
    let shown =
        until.map(|until| self::until(&judged.history, &judged.broken, until)).unwrap_or_default();
    if let Some(output) = output {
        let replay = &again(args, &page.program);
        let (history, broken) =
            until.map_or((&judged.history, &judged.broken[..]), |_| (&shown.0, &shown.1));
        output.write(&html(&Picture { plan: &plan, history, broken, replay }))?;
    }
    let options = RenderOptions { brief: args.brief, from, until, packets: args.packets };
    page.print(&story::run(&plan, &judged.history, &judged.broken, options, page.width))?;
    if let Some(out) = &args.html {
        page.print(&format!("\n  picture  {}\n", out.display()))?;
    }
    if args.log {
        let shown =
            |line: &&String| until.is_none_or(|until| logged_at(line).is_none_or(|at| at <= until));
        let log: Vec<_> = judged.log.iter().filter(shown).cloned().collect();
        page.print(&format!("\n{}", story::log(&log)))?;
    }
    Ok(judged.broken.is_empty())
}

/// Returns the command that replays this run.
fn again(args: &Replay, program: &str) -> String {
    args.select.command(program, "replay", &args.file) + &words_for(args.engine_option.0)
}

/// Returns the requested scenario: from a file, or from the schedule that a hunt drew for a seed.
fn load_input(
    args: &Replay,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<(ScenarioFile, Arc<dyn DynSubject>), UserError> {
    let word = args.file.to_string_lossy();
    if Seed::is_meant(&word) && !args.file.exists() {
        let (subject, plan) = hunt::plan_of(&word.parse()?, subjects)?;
        return Ok((ScenarioFile::of_plan(plan, word), subject));
    }
    let scenario = files::load(&args.file, subjects, page)?;
    let subject = files::subject(&scenario, subjects)?.clone();
    Ok((scenario, subject))
}

/// Returns the time at the start of a log line.
fn logged_at(line: &str) -> Option<Time> {
    let (time, _) = line.trim_start().split_once(" s ")?;
    read_time("", &format!("{time}s")).ok()
}

/// Parses a time as stories print it (`3.412 s`), or a duration as files write it (`3412ms`).
fn read_time(option: &str, text: &str) -> Result<Time, UserError> {
    let seconds =
        text.strip_suffix('s').map(str::trim_end).and_then(|number| number.split_once('.'));
    let millis = seconds.and_then(|(whole, part)| {
        let plain =
            (1..=3).contains(&part.len()) && part.bytes().all(|digit| digit.is_ascii_digit());
        let part: u64 = format!("{part:0<3}").parse().ok().filter(|_| plain)?;
        whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
    });
    let read = || {
        read_duration(text)
            .map(Time::from)
            .map_err(|why| UserError(format!("{option} {text}: {why}")))
    };
    millis.map_or_else(read, |millis| Ok(Time(millis)))
}

/// Returns the run up to a moment: the events and the violations so far.
fn until(history: &History, broken: &[Violation], until: Time) -> (History, Vec<Violation>) {
    let mut shown = history.clone();
    shown.events.retain(|event| event.at <= until);
    // The connections are sorted by opening time, so the remaining ones keep their indices.
    shown.conns.retain(|conn| conn.opened <= until);
    for Connection { over: (client, server), .. } in &mut shown.conns {
        [client, server].into_iter().for_each(|over| *over = over.filter(|over| *over <= until));
    }
    shown.end = shown.end.min(until);
    (shown, broken.iter().filter(|broken| broken.at <= until).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Picture;

    #[test]
    fn a_time_is_parsed_as_in_stories_and_as_in_files() {
        let read = |text| read_time("--until", text).unwrap();
        assert_eq!(
            ["3.4s", "3.412 s", "3412ms", "2m"].map(read),
            [Time(3400), Time(3412), Time(3412), Time(120_000)]
        );
        for wrong in ["3.4", "3.4123s", "x", "3.-1s", ""] {
            assert!(read_time("--until", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_run_until_a_moment_has_no_later_events() {
        let (plan, history, broken) = crate::report::story::tests::a_gap();
        let (shown, left) = until(&history, &broken, Time(3_050));
        assert!(
            shown.events.iter().all(|event| event.at <= Time(3_050))
                && shown.end == Time(3_050)
                && left.is_empty()
        );
        let page = html(&Picture {
            plan: &plan,
            history: &shown,
            broken: &left,
            replay: "reknit replay x",
        });
        assert!(page.contains("cut client#1") && !page.contains("3.412 s"), "{page}");
        let (whole, left) = until(&history, &broken, Time(9_000));
        assert_eq!(
            (whole.events.len(), whole.end, left.len()),
            (history.events.len(), history.end, 1)
        );
    }
}
