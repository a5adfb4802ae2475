//! `hunt`: random schedules until enough of them were run; what broke is kept and told.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::history::History;
use crate::hunt::kept::{Kept, Shape};
use crate::hunt::random::{Ground, Hunted, hunt as run};
use crate::hunt::seed::{DEFAULT, Seed};
use crate::hunt::shrink::{self, Budget, Shrunk, main_thing};
use crate::hunt::{Case, Checks, Failed};
use crate::property::Broken;
use crate::report::{Failure, envelope, story};
use crate::scenario::{Body, Expect, Scenario};
use crate::schedule::draw::GENERATOR;
use crate::schedule::{Plan, Profile};
use crate::subject::Erased;

use super::args::{Changes, Hunt};
use super::files;
use super::interrupt::Interrupted;
use super::page::{Page, Stop};
use super::select::{self, quoted};
use super::shrink::{told, verify};

mod summary;

/// Where finds are kept.
const FOUND: &str = "scenarios/found";

/// Where finds are kept that a defect was switched on for: they are nobody's bug.
const FOUND_ON_PURPOSE: &str = "target/reknit";

/// So many finds of one property are made small; what else breaks it is counted as one like them.
const LOOKED_AT: u64 = 8;

/// Hunts; whether nothing broke.
#[allow(clippy::disallowed_methods)] // a person wants to know how long it took, and says how long it may take
pub fn hunt(args: &Hunt, subjects: &[Arc<dyn Erased>], page: &mut Page<'_>) -> Result<bool, Stop> {
    let subject = files::named(&args.subject, subjects)?;
    let name = args.profile.as_ref().map_or(DEFAULT.to_owned(), |path| path.display().to_string());
    let ground = ground(subject, &name, &args.changes, subjects)?;
    let (first, count) = (args.seed.unwrap_or(ground.profile.first_seed), args.count());
    let seeds = (0..count).map(move |n| first.wrapping_add(n));
    let (started, fresh) = (Instant::now(), page.fresh.clone());
    let interrupted = if page.live { Interrupted::listen() } else { Interrupted::default() };
    let mut finds = Finds::new(&ground, seed(&ground, &name, &args.changes), interrupted.clone());
    let mut stopped = Ok(());
    let each = |hunted: &Hunted, failed: Option<Failed>| {
        let done = hunted.tally.runs;
        if done.is_multiple_of(64) {
            page.progress(&format!("{done} schedules, {} broke", hunted.broke));
        }
        stopped = failed.map_or(Ok(()), |failed| finds.look_at(failed, page));
        let enough = stopped.is_err() || interrupted.is_set() || args.time.is_some_and(|time| started.elapsed() >= time);
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let hunted = run(&ground, seeds, &Checks { fresh, ..Checks::default() }, &args.pool.pool(), each);
    page.no_progress();
    stopped?;
    let hunted = hunted?;
    page.say(&summary::tell(&hunted, &finds, subject, started.elapsed()))?;
    Ok(hunted.broke == 0)
}

/// What is hunted: a profile by its name, with what the command line changes in it.
pub(super) fn ground(
    subject: &Arc<dyn Erased>,
    profile: &str,
    changes: &Changes,
    subjects: &[Arc<dyn Erased>],
) -> Result<Ground, Stop> {
    let mut profile = profile_of(subject, profile, subjects)?;
    let (defects, limits) = changes.read(subject)?;
    for defect in defects {
        if !profile.defects.contains(&defect) {
            profile.defects.push(defect);
        }
    }
    profile.limits.extend(limits.into_iter().map(|(name, value)| (name, crate::schedule::profile::Choice::Fixed(value))));
    Ok(Ground { subject: subject.clone(), profile: Arc::new(profile) })
}

/// The profile of this name: the subject's own, or that of a swarm file.
fn profile_of(subject: &Arc<dyn Erased>, name: &str, subjects: &[Arc<dyn Erased>]) -> Result<Profile, Stop> {
    let scenario = match (name, subject.swarm()) {
        (DEFAULT, None) => return Ok(Profile::default_for(subject)),
        (DEFAULT, Some(text)) => Scenario::parse(text, DEFAULT, subjects)?,
        (path, _) => Scenario::load(Path::new(path), subjects)?,
    };
    match scenario.body {
        Body::Swarm(_) if scenario.subject != subject.name() => {
            Err(Stop(format!("{name}: this profile is of {}, and not of {}", scenario.subject, subject.name())))
        }
        Body::Swarm(profile) => Ok(Profile { defects: scenario.defects, ..*profile }),
        Body::Schedule(_) => Err(Stop(format!("{name}: this file has steps; a profile is a file with a `[swarm]`"))),
    }
}

fn seed(ground: &Ground, profile: &str, changes: &Changes) -> Seed {
    Seed {
        subject: ground.subject.name().to_owned(),
        profile: profile.to_owned(),
        generator: GENERATOR,
        number: 0,
        defects: changes.defect.clone(),
        sets: changes.set.clone(),
    }
}

/// The plan of a printed seed.
pub(super) fn plan_of(seed: &Seed, subjects: &[Arc<dyn Erased>]) -> Result<(Arc<dyn Erased>, Plan), Stop> {
    let subject = files::named(&seed.subject, subjects)?;
    let changes = Changes { defect: seed.defects.clone(), set: seed.sets.clone() };
    let ground = ground(subject, &seed.profile, &changes, subjects)?;
    Ok((subject.clone(), ground.plan(seed.number)))
}

/// What a hunt found so far.
struct Finds {
    ground: Ground,
    kept: Kept,
    seed: Seed,
    interrupted: Interrupted,
    /// How many runs broke each property.
    broke: BTreeMap<&'static str, u64>,
    saved: u64,
    duplicates: u64,
}

/// A find, as small as it could be made.
struct Find {
    plan: Plan,
    broken: Vec<Broken>,
    history: History,
    /// Where it comes from.
    origin: String,
}

impl Finds {
    fn new(ground: &Ground, seed: Seed, interrupted: Interrupted) -> Self {
        let folder = if ground.profile.defects.is_empty() { FOUND } else { FOUND_ON_PURPOSE };
        let kept = Kept::open(Path::new(folder), &ground.subject);
        Self { ground: ground.clone(), kept, seed, interrupted, broke: BTreeMap::new(), saved: 0, duplicates: 0 }
    }

    /// Makes a find small, keeps and tells it, unless one like it is kept.
    fn look_at(&mut self, failed: Failed, page: &mut Page<'_>) -> Result<(), Stop> {
        let Some(property) = main_thing(&failed.broken).map(|broken| broken.property) else { return Ok(()) };
        let times = self.broke.entry(property).or_default();
        *times += 1;
        if *times > LOOKED_AT {
            self.duplicates += 1;
            return Ok(());
        }
        let find = self.make_small(failed, page);
        let Some(main) = main_thing(&find.broken).cloned() else { return Ok(()) };
        if self.kept.has(&Shape::of(&find.plan, main.property)).is_some() {
            self.duplicates += 1;
            return Ok(());
        }
        let saved = self.kept.keep(&find.plan, &main);
        self.saved += 1;
        page.no_progress();
        let (place, text) = match saved {
            Ok(path) => (path.display().to_string(), (!page.live).then(|| Kept::file(&find.plan, &main))),
            Err(unsaved) => {
                page.complain(&format!("{unsaved}; its text is printed instead"));
                ("-".to_owned(), Some(unsaved.text))
            }
        };
        let replay = format!("{} replay {}", page.program, quoted(&place));
        let Find { plan, broken, history, origin } = &find;
        let failure = Failure { plan, history, broken, origin: Some(origin), replay: &replay };
        page.say(&format!("{}\n", story::failure(&failure, page.width)))?;
        text.map_or(Ok(()), |text| page.say(&format!("{}\n", envelope::seal(&text))))
    }

    /// The least that breaks the same; the run as it was drawn where that cannot be had, or comes out another way when its file is
    /// read again.
    fn make_small(&self, failed: Failed, page: &mut Page<'_>) -> Find {
        let Failed { plan, broken, history } = failed;
        let subject = &self.ground.subject;
        let drawn = format!("drawn by {}", Seed { number: plan.seed, ..self.seed.clone() });
        let case = Case { subject, plan: &plan, expect: &Expect::default() };
        let shrunk = main_thing(&broken).and_then(|main| {
            let shrunk = shrink::shrink(case, main, &Budget::default(), |so_far| {
                page.progress(&told(so_far));
                if self.interrupted.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            shrunk.ok()
        });
        let holds_good = |shrunk: &Shrunk| {
            let main = main_thing(&shrunk.broken);
            main.is_some_and(|main| verify(&Kept::file(&shrunk.plan, main), shrunk, subject, page).is_ok())
        };
        match shrunk.filter(holds_good) {
            Some(shrunk) => {
                let origin = format!("{}, {drawn}", shrunk.origin());
                Find { plan: shrunk.plan, broken: shrunk.broken, history: shrunk.judged.history, origin }
            }
            None => Find { plan, broken, history: history.unwrap_or_default(), origin: drawn },
        }
    }
}

impl Changes {
    /// The defects and limits, looked up.
    fn read(&self, subject: &Arc<dyn Erased>) -> Result<(Vec<String>, Vec<select::Set>), Stop> {
        let defects = self.defect.iter().map(|name| select::defect(name, subject).map(|()| name.clone()));
        let sets = self.set.iter().map(|set| select::limit(set, subject));
        Ok((defects.collect::<Result<_, _>>()?, sets.collect::<Result<_, _>>()?))
    }
}
