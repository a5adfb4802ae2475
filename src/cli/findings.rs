//! The findings of hunts and sweeps: shrunk, verified, saved and reported, one per shape.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::frontend::{Drawn, Repeated, place, plain, quoted};
use crate::history::History;
use crate::hunt::saved::{FindingShape, SavedFindings};
use crate::hunt::shrink::{self, Budget, Shrunk, main_problem};
use crate::hunt::{FailedRun, JudgedRun, Pool};
use crate::property::Violation;
use crate::report::ci_report::{self, CaseFailure, CaseResult, CiReport, Group};
use crate::report::sentence::title;
use crate::report::{StoryFailure, envelope, json, phrases, sentence, story};
use crate::scenario::Expect;
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::Engine;

use super::args::Format;
use super::interrupt::Interrupted;
use super::page::{Page, UserError};
use super::shrink::{progress_text, verify};

/// The maximum number of findings per property that are shrunk, each with a different shape. Any
/// further violation of the property counts as a duplicate.
const EXAMINED: usize = 8;

/// The maximum number of duplicates that the summary lists.
const LISTED: usize = 200;

/// All findings so far.
pub(super) struct Findings {
    subject: Arc<dyn DynSubject>,
    kept: SavedFindings,
    interrupted: Interrupted,
    budget: Budget,
    /// The shapes already examined for each property, before shrinking.
    seen: BTreeMap<&'static str, BTreeSet<FindingShape>>,
    /// The number of runs that violated each property.
    broke: BTreeMap<&'static str, u64>,
    /// The files of the saved findings.
    saved: BTreeSet<PathBuf>,
    /// The number of runs whose finding is a duplicate.
    duplicates: u64,
    /// The numbers of the first of these runs: seeds of a hunt, trials of a sweep.
    listed: Vec<u64>,
    /// What these numbers are.
    numbers: &'static str,
    /// Files from earlier hunts or sweeps that already hold a finding of the same shape.
    before: BTreeSet<PathBuf>,
    /// The cases of the CI report: each saved finding, including those saved earlier.
    cases: Vec<ci_report::CiCase>,
    format: Format,
}

/// A finding, as small as shrinking could make it.
struct ShrunkFinding {
    plan: Plan,
    broken: Vec<Violation>,
    history: History,
    /// The origin of the plan.
    origin: String,
}

/// Returns the case of the CI report for a finding.
fn case(file: &Path, origin: &str, it: CaseFailure) -> ci_report::CiCase {
    ci_report::CiCase {
        name: file.display().to_string(),
        about: origin.to_owned(),
        result: CaseResult::Failed(Box::new(it)),
    }
}

/// Returns the head of a failure whose shape is already saved.
fn again(plan: &Plan, main: &Violation, like: &Path) -> String {
    let Plan { subject, seed, .. } = plan;
    let (property, what, like) = (main.property, sentence(main), like.display());
    format!(
        "FAIL  {subject}  {property}\n  {what}\n  seed {seed}; a finding of this shape is already saved: {like}\n\n"
    )
}

impl Findings {
    /// Creates an empty collection for a subject, which saves into this folder. The pool runs the shrink
    /// attempts. `numbers` is the word for what [`Findings::add`] gets: `seeds` or `trials`.
    pub fn new(
        subject: &Arc<dyn DynSubject>,
        folder: &Path,
        numbers: &'static str,
        interrupted: Interrupted,
        pool: Pool,
        format: Format,
    ) -> Self {
        let kept = SavedFindings::open(folder, subject);
        Self {
            subject: subject.clone(),
            kept,
            interrupted,
            budget: Budget { pool, ..Budget::default() },
            seen: BTreeMap::new(),
            broke: BTreeMap::new(),
            saved: BTreeSet::new(),
            duplicates: 0,
            listed: Vec::new(),
            numbers,
            before: BTreeSet::new(),
            cases: Vec::new(),
            format,
        }
    }

    /// Shrinks, saves and reports a finding, unless a finding of the same shape is already saved.
    /// `origin` says where its plan comes from, and `number` is the number of its run.
    pub fn add(
        &mut self,
        failed: FailedRun,
        number: u64,
        origin: &str,
        page: &mut Page<'_>,
    ) -> Result<(), UserError> {
        let Some(property) = main_problem(&failed.broken).map(|broken| broken.property) else {
            return Ok(());
        };
        *self.broke.entry(property).or_default() += 1;
        let seen = self.seen.entry(property).or_default();
        if seen.len() == EXAMINED || !seen.insert(FindingShape::of(&failed.plan, property)) {
            self.duplicate(number);
            return Ok(());
        }
        let find = self.shrink_failure(failed, origin, page);
        let Some(main) = main_problem(&find.broken).cloned() else { return Ok(()) };
        if let Some(like) = self.kept.has(&FindingShape::of(&find.plan, main.property)) {
            if !self.saved.contains(like) && self.before.insert(like.to_owned()) {
                let replay =
                    format!("{} replay {}", page.program, quoted(&like.display().to_string()));
                let (place, story) = (
                    place(like, &[], None),
                    "a finding of this shape is already saved\n".to_owned(),
                );
                let it = CaseFailure {
                    property: main.property.to_owned(),
                    sentence: sentence(&main),
                    story,
                    replay,
                    place,
                };
                if self.format == Format::Text {
                    page.print(&again(&find.plan, &main, like))?;
                }
                self.cases.push(case(like, &find.origin, it));
            }
            self.duplicate(number);
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
                page.print_error(&format!("{unsaved}; its text is printed instead"));
                ("-".to_owned(), Some(unsaved.text))
            }
        };
        let replay = format!("{} replay {}", page.program, quoted(&place));
        let ShrunkFinding { plan, broken, history, origin } = &find;
        let drawn =
            Drawn { subject: &self.subject, plan, broken, engine: Engine::Event, replay: &replay };
        let folder = page.pictures.as_deref();
        let path = folder.map(|folder| folder.join(name).with_extension("html"));
        let first = Some(history).filter(|first| !first.events.is_empty());
        let Repeated { history: again, picture } = drawn.repeat(first, path.as_deref());
        let failure = StoryFailure {
            plan,
            history: again.as_ref().unwrap_or(history),
            broken,
            origin: Some(origin),
            replay: &replay,
            picture: picture.as_deref(),
        };
        let story = story::failure(&failure, page.width);
        let failure = CaseFailure {
            property: main.property.to_owned(),
            sentence: sentence(&main),
            story: plain(&story),
            replay: replay.clone(),
            place: self::place(Path::new(&place), &[], None),
        };
        self.cases.push(case(&file, origin, failure));
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

    /// Returns the smallest plan with the same violation. Returns the original run if shrinking
    /// fails, or if the shrunk file does not reproduce the run.
    fn shrink_failure(&self, failed: FailedRun, from: &str, page: &mut Page<'_>) -> ShrunkFinding {
        let FailedRun { plan, broken, history } = failed;
        let case = JudgedRun { subject: &self.subject, plan: &plan, expect: &Expect::default() };
        let shrunk = main_problem(&broken).and_then(|main| {
            let shrunk = shrink::shrink(case, main, &self.budget, |so_far| {
                page.progress.print(progress_text(so_far));
                if self.interrupted.is_set() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            shrunk.ok()
        });
        let holds_good = |shrunk: &Shrunk| {
            let main = main_problem(&shrunk.broken);
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
                ShrunkFinding {
                    plan: shrunk.plan,
                    broken: shrunk.broken,
                    history: shrunk.judged.history,
                    origin,
                }
            }
            None => ShrunkFinding {
                plan,
                broken,
                history: history.unwrap_or_default(),
                origin: from.to_owned(),
            },
        }
    }

    /// Returns the CI report: one case per saved finding, or one case for everything if there is
    /// none.
    pub fn ci_report(&self, title: String, of: &str, totals: &str, wall: Duration) -> CiReport {
        let all = || ci_report::CiCase {
            name: format!("all of {of}"),
            about: totals.to_owned(),
            result: if self.interrupted.is_set() {
                CaseResult::NotRun("interrupted before the end".to_owned())
            } else {
                CaseResult::Passed
            },
        };
        let cases = if self.cases.is_empty() { vec![all()] } else { self.cases.clone() };
        CiReport {
            title,
            groups: vec![Group { name: of.to_owned(), cases }],
            totals: totals.to_owned(),
            wall,
        }
    }

    /// Returns the JSON record of a hunt, with only the fields about findings filled in. The hunt
    /// fills in the rest.
    pub fn of_hunt(&self) -> json::HuntRecord {
        let properties =
            self.broke.iter().map(|(property, runs)| ((*property).to_owned(), *runs)).collect();
        let (subject, saved, duplicates) =
            (self.subject.name().to_owned(), self.saved.len() as u64, self.duplicates);
        json::HuntRecord { subject, properties, saved, duplicates, ..json::HuntRecord::default() }
    }

    /// Returns the JSON record of a sweep of a file, with only the fields about findings filled in.
    /// The sweep fills in the rest.
    pub fn of_sweep(&self, file: &Path) -> json::SweepRecord {
        let (file, saved, duplicates) =
            (file.display().to_string(), self.saved.len() as u64, self.duplicates);
        json::SweepRecord { file, saved, duplicates, ..json::SweepRecord::default() }
    }

    /// Returns the last lines of the output: the violations, the saved findings, the duplicates, and the
    /// findings saved earlier. `noun` is the word for a run.
    pub fn summary(&self, broke: u64, noun: &str) -> String {
        if broke == 0 {
            return "no violation\n".to_owned();
        }
        let properties: Vec<_> =
            self.broke.iter().map(|(property, runs)| format!("{property} in {runs}")).collect();
        let before = self.before.iter().map(|path| format!("already saved: {}\n", path.display()));
        format!(
            "{} with violations ({}): {} saved, {} duplicates\n{}{}",
            phrases::count(broke, noun),
            properties.join(", "),
            self.saved.len(),
            self.duplicates,
            self.list_duplicates(),
            before.collect::<String>()
        )
    }

    /// Counts a duplicate.
    fn duplicate(&mut self, number: u64) {
        self.duplicates += 1;
        if self.listed.len() < LISTED {
            self.listed.push(number);
        }
    }

    /// Returns the line with the numbers of the duplicates; empty if there is none.
    fn list_duplicates(&self) -> String {
        let Self { duplicates, listed, numbers, .. } = self;
        if listed.is_empty() {
            return String::new();
        }
        let more = match duplicates - listed.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let listed: Vec<_> = listed.iter().map(u64::to_string).collect();
        format!("{numbers} of the duplicates: {}{more}\n", listed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::act;

    /// Runs a hunt that saves into this folder. Returns its output.
    fn hunt(folder: &Path) -> String {
        let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), std::io::empty());
        let mut page = Page::of_test(&mut out, &mut err, &mut input, 100);
        page.pictures = Some(folder.to_owned());
        let line = "reknit hunt counter --runs 30 --defect reason-changes";
        let args: Vec<_> = line.split(' ').map(Into::into).collect();
        let status = act(&args, &crate::subjects::built_in(), &mut page);
        assert_eq!((String::from_utf8(err).unwrap().as_str(), status), ("", 1));
        plain(&String::from_utf8(out).unwrap())
    }

    fn heads(out: &str) -> usize {
        out.lines().filter(|line| line.starts_with("FAIL  counter  ")).count()
    }

    /// Returns how many duplicates the output counts, and the seeds that it lists.
    fn duplicates(out: &str) -> (usize, Vec<&str>) {
        let counts = out.lines().find(|line| line.contains("schedules with violations")).unwrap();
        let (_, count) = counts.rsplit_once(", ").unwrap();
        let count = count.strip_suffix(" duplicates").unwrap().parse().unwrap();
        let seeds = out.lines().find_map(|line| line.strip_prefix("seeds of the duplicates: "));
        (count, seeds.unwrap_or_default().split(", ").collect())
    }

    #[test]
    fn a_failure_that_is_already_saved_is_told_again() {
        let folder = std::env::temp_dir().join(format!("reknit-again-{}", std::process::id()));
        let (first, second) = (hunt(&folder), hunt(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
        let (saved, (count, seeds)) = (heads(&first), duplicates(&first));
        assert!(saved > 0 && count > 1 && seeds.len() == count, "{first}");
        assert!(first.contains(&format!(": {saved} saved, {count} duplicates\n")), "{first}");
        let (again, (all, every)) = (heads(&second), duplicates(&second));
        assert_eq!((again, all, every.len()), (saved, saved + count, saved + count), "{second}");
        assert!(seeds.iter().all(|seed| every.contains(seed)), "{second}");
        let lines: Vec<_> = second.lines().collect();
        let told = lines.windows(3).filter(|lines| {
            let seed = lines[2].strip_prefix("  seed ").unwrap_or_default();
            let seed = seed.split_once("; a finding of this shape is already saved: ");
            lines[0].starts_with("FAIL  counter  ")
                && lines[1].starts_with("  ")
                && seed.is_some_and(|(seed, file)| {
                    every.contains(&seed) && Path::new(file).starts_with(&folder)
                })
        });
        assert_eq!(told.count(), saved, "{second}");
    }
}
