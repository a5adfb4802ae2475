//! What long work found: made small, verified, kept and told, one of each shape.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::frontend::{Drawn, PICTURES, place, plain, quoted};
use crate::history::History;
use crate::hunt::saved::{FindingShape, SavedFindings};
use crate::hunt::shrink::{self, Budget, Shrunk, main_thing};
use crate::hunt::{FailedRun, JudgedRun, Pool};
use crate::property::Violation;
use crate::report::ci_report::{self, Break, Came, CiReport, Group};
use crate::report::sentence::title;
use crate::report::{StoryFailure, envelope, json, phrases, sentence, story};
use crate::scenario::Expect;
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::Engine;

use super::args::Format;
use super::interrupt::Interrupted;
use super::page::{Page, Stop};
use super::shrink::{rendered, verify};

/// Where finds are kept; what a defect was switched on for is nobody's bug, and is put beside the pictures.
const FOUND: &str = "scenarios/found";

/// So many finds of one property are made small, each of another shape; what else breaks it is counted as one like them.
const LOOKED_AT: usize = 8;

/// What was found so far.
pub(super) struct Findings {
    subject: Arc<dyn DynSubject>,
    kept: SavedFindings,
    interrupted: Interrupted,
    budget: Budget,
    /// What of each property was looked at: its shape as it was found.
    seen: BTreeMap<&'static str, BTreeSet<FindingShape>>,
    /// How many runs broke each property.
    broke: BTreeMap<&'static str, u64>,
    /// The files of what was kept.
    saved: BTreeSet<PathBuf>,
    duplicates: u64,
    /// The files that others of its shape had been kept in before.
    before: BTreeSet<PathBuf>,
    /// What a CI server is told of: each that was kept, also before.
    cases: Vec<ci_report::CiCase>,
    format: Format,
}

/// A find, as small as it could be made.
struct Find {
    plan: Plan,
    broken: Vec<Violation>,
    history: History,
    /// Where it comes from.
    origin: String,
}

/// A find, as a CI server is told it.
fn case(file: &Path, origin: &str, it: Break) -> ci_report::CiCase {
    ci_report::CiCase {
        name: file.display().to_string(),
        about: origin.to_owned(),
        came: Came::Broke(Box::new(it)),
    }
}

impl Findings {
    /// Nothing yet, of a subject with these defects on. The pool is that of whoever makes finds small.
    pub fn new(
        subject: &Arc<dyn DynSubject>,
        defects: &[String],
        interrupted: Interrupted,
        pool: Pool,
        format: Format,
    ) -> Self {
        let folder = if defects.is_empty() { FOUND } else { PICTURES };
        let kept = SavedFindings::open(Path::new(folder), subject);
        Self {
            subject: subject.clone(),
            kept,
            interrupted,
            budget: Budget { pool, ..Budget::default() },
            seen: BTreeMap::new(),
            broke: BTreeMap::new(),
            saved: BTreeSet::new(),
            duplicates: 0,
            before: BTreeSet::new(),
            cases: Vec::new(),
            format,
        }
    }

    /// Makes a find small, keeps and tells it, unless one like it is kept. `origin` is where its plan comes from.
    pub fn look_at(
        &mut self,
        failed: FailedRun,
        origin: &str,
        page: &mut Page<'_>,
    ) -> Result<(), Stop> {
        let Some(property) = main_thing(&failed.broken).map(|broken| broken.property) else {
            return Ok(());
        };
        *self.broke.entry(property).or_default() += 1;
        let seen = self.seen.entry(property).or_default();
        if seen.len() == LOOKED_AT || !seen.insert(FindingShape::of(&failed.plan, property)) {
            self.duplicates += 1;
            return Ok(());
        }
        let find = self.make_small(failed, origin, page);
        let Some(main) = main_thing(&find.broken).cloned() else { return Ok(()) };
        if let Some(like) = self.kept.has(&FindingShape::of(&find.plan, main.property)) {
            if !self.saved.contains(like) && self.before.insert(like.to_owned()) {
                let replay =
                    format!("{} replay {}", page.program, quoted(&like.display().to_string()));
                let (place, story) = (
                    place(like, &[], None),
                    "a finding of this shape is already saved\n".to_owned(),
                );
                let it = Break {
                    property: main.property.to_owned(),
                    sentence: sentence(&main),
                    story,
                    replay,
                    place,
                };
                self.cases.push(case(like, &find.origin, it));
            }
            self.duplicates += 1;
            return Ok(());
        }
        let saved = self.kept.keep(&find.plan, &main, &title(&main));
        self.saved
            .insert(saved.as_ref().map_or_else(|unsaved| unsaved.path.clone(), PathBuf::clone));
        let file = saved.as_ref().map_or_else(|unsaved| unsaved.path.clone(), PathBuf::clone);
        let name = file.file_name().unwrap_or_default().to_owned();
        let (place, text) = match saved {
            Ok(path) => (
                path.display().to_string(),
                (!page.live).then(|| SavedFindings::file(&find.plan, &title(&main))),
            ),
            Err(unsaved) => {
                page.complain(&format!("{unsaved}; its text is printed instead"));
                ("-".to_owned(), Some(unsaved.text))
            }
        };
        let replay = format!("{} replay {}", page.program, quoted(&place));
        let Find { plan, broken, history, origin } = &find;
        let drawn =
            Drawn { subject: &self.subject, plan, broken, engine: Engine::Event, replay: &replay };
        let folder = page.pictures.as_deref().filter(|_| !history.events.is_empty());
        let picture =
            folder.map(|folder| drawn.rendered(&folder.join(name).with_extension("html")));
        let failure = StoryFailure {
            plan,
            history,
            broken,
            origin: Some(origin),
            replay: &replay,
            picture: picture.as_deref(),
        };
        let story = story::failure(&failure, page.width);
        let rendered = Break {
            property: main.property.to_owned(),
            sentence: sentence(&main),
            story: plain(&story),
            replay: replay.clone(),
            place: self::place(Path::new(&place), &[], None),
        };
        self.cases.push(case(&file, origin, rendered));
        if self.format == Format::Json {
            let (file, toml) =
                ((place != "-").then_some(place), SavedFindings::file(plan, &title(&main)));
            let kept = json::FindingRecord {
                file,
                toml,
                replay,
                picture,
                origin: origin.clone(),
                ..json::FindingRecord::default()
            };
            return page.print(&json::find(plan, broken, kept).text());
        }
        page.print(&format!("{story}\n"))?;
        text.map_or(Ok(()), |text| page.print(&format!("{}\n", envelope::seal(&text))))
    }

    /// The least that breaks the same; the run as it was where that cannot be had, or comes out another way when its file is read
    /// again.
    fn make_small(&self, failed: FailedRun, from: &str, page: &mut Page<'_>) -> Find {
        let FailedRun { plan, broken, history } = failed;
        let case = JudgedRun { subject: &self.subject, plan: &plan, expect: &Expect::default() };
        let shrunk = main_thing(&broken).and_then(|main| {
            let shrunk = shrink::shrink(case, main, &self.budget, |so_far| {
                page.progress.print(rendered(so_far));
                if self.interrupted.is_set() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            shrunk.ok()
        });
        let holds_good = |shrunk: &Shrunk| {
            let main = main_thing(&shrunk.broken);
            main.is_some_and(|main| {
                verify(
                    &SavedFindings::file(&shrunk.plan, &title(main)),
                    shrunk,
                    &self.subject,
                    page,
                )
                .is_ok()
            })
        };
        match shrunk.filter(holds_good) {
            Some(shrunk) => {
                let origin = format!("{}, {from}", phrases::origin(&shrunk));
                Find {
                    plan: shrunk.plan,
                    broken: shrunk.broken,
                    history: shrunk.judged.history,
                    origin,
                }
            }
            None => {
                Find { plan, broken, history: history.unwrap_or_default(), origin: from.to_owned() }
            }
        }
    }

    /// What a CI server is told: what was kept, each as a case; where nothing was, all that ran is one.
    pub fn ci_report(&self, title: String, of: &str, totals: &str, wall: Duration) -> CiReport {
        let all = || ci_report::CiCase {
            name: format!("all of {of}"),
            about: totals.to_owned(),
            came: Came::Good,
        };
        let cases = if self.cases.is_empty() { vec![all()] } else { self.cases.clone() };
        CiReport {
            title,
            groups: vec![Group { name: of.to_owned(), cases }],
            totals: totals.to_owned(),
            wall,
        }
    }

    /// What a machine is told of the finds of a hunt; the rest of the line is the hunt's.
    pub fn of_hunt(&self) -> json::HuntRecord {
        let properties =
            self.broke.iter().map(|(property, runs)| ((*property).to_owned(), *runs)).collect();
        let (subject, kept, like) =
            (self.subject.name().to_owned(), self.saved.len() as u64, self.duplicates);
        json::HuntRecord { subject, properties, kept, like, ..json::HuntRecord::default() }
    }

    /// What a machine is told of the finds of a sweep of a file; the rest of the line is the sweep's.
    pub fn of_sweep(&self, file: &Path) -> json::SweepRecord {
        let (file, kept, like) =
            (file.display().to_string(), self.saved.len() as u64, self.duplicates);
        json::SweepRecord { file, kept, like, ..json::SweepRecord::default() }
    }

    /// The last lines: what broke in so many runs, what was kept of it, and what had been before. `noun` is what a run is called.
    pub fn summary(&self, broke: u64, noun: &str) -> String {
        if broke == 0 {
            return "nothing broke\n".to_owned();
        }
        let properties: Vec<_> =
            self.broke.iter().map(|(property, runs)| format!("{property} in {runs}")).collect();
        let before = self.before.iter().map(|path| format!("already saved: {}\n", path.display()));
        format!(
            "{} violations ({}): {} saved, {} duplicates\n{}",
            phrases::count(broke, noun),
            properties.join(", "),
            self.saved.len(),
            self.duplicates,
            before.collect::<String>()
        )
    }
}
