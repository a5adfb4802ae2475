//! `hunt`: runs random schedules up to a limit; saves and reports violations.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::hunt::random::{HuntTarget, Hunted, hunt as run};
use crate::hunt::seed::{DEFAULT, Seed};
use crate::hunt::{Checks, FailedRun};
use crate::report::phrases;
use crate::scenario::ScenarioFile;
use crate::schedule::draw::GENERATOR;
use crate::schedule::profile::Choice;
use crate::schedule::{Plan, Profile};
use crate::subject::DynSubject;

use super::args::{Changes, Format, HuntArgs};
use super::ci::Ci;
use super::files;
use super::findings::Findings;
use super::page::{Page, UserError};
use super::select;

mod summary;

/// Runs a hunt. Returns whether it found no violation.
#[allow(clippy::disallowed_methods)] // real time limits the hunt and is part of the output
pub fn hunt(
    args: &HuntArgs,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let subject = files::named(&args.subject, subjects)?;
    let name = args.swarm.as_ref().map_or(DEFAULT.to_owned(), |path| path.display().to_string());
    let target = target(subject, &name, &args.changes, subjects)?;
    let ci = Ci::open(args.junit.as_ref(), page)?;
    let (first, count) = (args.seed.unwrap_or(target.profile.first_seed), args.count());
    let seeds = (0..count).map(move |n| first.wrapping_add(n));
    let (started, fresh) = (Instant::now(), page.fresh.clone());
    let interrupted = page.interrupted();
    let drawn_from = seed(&target, &name, &args.changes);
    let mut findings = Findings::new(
        subject,
        page.findings_folder(&target.profile.defects),
        "seeds",
        interrupted.clone(),
        args.pool.pool(),
        args.format,
    );
    page.progress.begin(args.time.is_none().then_some(count));
    let mut stopped = Ok(());
    let each = |hunted: &Hunted, failed: Option<FailedRun>| {
        let done = hunted.tally.runs;
        if done.is_multiple_of(64) {
            page.progress.at(
                done,
                found(hunted.broke, args.time.map(|time| time.saturating_sub(started.elapsed()))),
            );
        }
        stopped = failed.map_or(Ok(()), |failed| {
            let number = failed.plan.seed;
            let origin = format!("drawn by {}", Seed { number, ..drawn_from.clone() });
            findings.add(failed, number, &origin, page)
        });
        let enough = stopped.is_err()
            || interrupted.is_set()
            || args.time.is_some_and(|time| started.elapsed() >= time);
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let hunted =
        run(&target, seeds, &Checks { fresh, ..Checks::default() }, &args.pool.pool(), each);
    page.no_progress();
    page.unfinished = interrupted.is_set();
    stopped?;
    let hunted = hunted?;
    let (wall, title) = (started.elapsed(), format!("{} hunt {}", page.program, subject.name()));
    let rendered = summary::summarize(&hunted, &findings, subject, wall);
    match args.format {
        Format::Text => page.print(&rendered)?,
        Format::Json => page.print(&summary::lines(&hunted, &findings, subject, wall))?,
    }
    ci.summarize(&findings.ci_report(title, subject.name(), &rendered, wall), page)?;
    Ok(hunted.broke == 0)
}

/// Returns the progress text: the violations so far and, if there is a time limit, the time left.
fn found(broke: u64, left: Option<Duration>) -> String {
    let left = left.map_or(String::new(), |left| {
        format!(", {} left", phrases::span(Duration::from_secs(left.as_secs())))
    });
    format!("{broke} broke{left}")
}

/// Returns the hunt target: a profile by name, with the changes from the command line.
pub(super) fn target(
    subject: &Arc<dyn DynSubject>,
    profile: &str,
    changes: &Changes,
    subjects: &[Arc<dyn DynSubject>],
) -> Result<HuntTarget, UserError> {
    let mut profile = profile_of(subject, profile, subjects)?;
    let (defects, sets) = changes.read(subject)?;
    for defect in defects {
        if !profile.defects.contains(&defect) {
            profile.defects.push(defect);
        }
    }
    for set in sets {
        match set {
            select::Set::Limit(name, value) => {
                drop(profile.limits.insert(name, Choice::Fixed(value)))
            }
            select::Set::Profile(of) => {
                let values =
                    of.limits().map(|(name, value)| (name.into_owned(), Choice::Fixed(value)));
                profile.limits.extend(values);
            }
            select::Set::Variant(variant) => variant.add_to(&mut profile.defects),
        }
    }
    Ok(HuntTarget { subject: subject.clone(), profile: Arc::new(profile) })
}

/// Returns the profile with this name: the subject's own or one from a swarm file.
fn profile_of(
    subject: &Arc<dyn DynSubject>,
    name: &str,
    subjects: &[Arc<dyn DynSubject>],
) -> Result<Profile, UserError> {
    if name == DEFAULT {
        let target = HuntTarget::default_for(subject).map_err(UserError)?;
        return Ok((*target.profile).clone());
    }
    let scenario = ScenarioFile::load(Path::new(name), subjects)?;
    let of = scenario.subject.clone();
    match scenario.into_profile() {
        Some(_) if of != subject.name() => {
            Err(UserError(format!("{name}: this swarm is for {of}, not for {}", subject.name())))
        }
        Some(profile) => Ok(profile),
        None => {
            Err(UserError(format!("{name}: this file has steps; a swarm file has a `[swarm]`")))
        }
    }
}

fn seed(target: &HuntTarget, profile: &str, changes: &Changes) -> Seed {
    Seed {
        subject: target.subject.name().to_owned(),
        profile: profile.to_owned(),
        generator: GENERATOR,
        number: 0,
        defects: changes.defect.clone(),
        sets: changes.set.clone(),
    }
}

/// Returns the plan of a printed seed.
pub(super) fn plan_of(
    seed: &Seed,
    subjects: &[Arc<dyn DynSubject>],
) -> Result<(Arc<dyn DynSubject>, Plan), UserError> {
    let subject = files::named(&seed.subject, subjects)?;
    let changes = Changes { defect: seed.defects.clone(), set: seed.sets.clone() };
    let target = target(subject, &seed.profile, &changes, subjects)?;
    Ok((subject.clone(), target.plan(seed.number)))
}

impl Changes {
    /// Looks up the defects and limits.
    fn read(
        &self,
        subject: &Arc<dyn DynSubject>,
    ) -> Result<(Vec<String>, Vec<select::Set>), UserError> {
        let defects =
            self.defect.iter().map(|name| select::defect(name, subject).map(|()| name.clone()));
        let sets = self.set.iter().map(|set| select::read_set(set, subject));
        Ok((defects.collect::<Result<_, _>>()?, sets.collect::<Result<_, _>>()?))
    }
}
