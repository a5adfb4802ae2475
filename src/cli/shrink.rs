//! `shrink`: shrinks the first failing run of a file and saves it as a new file.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::frontend::{Drawn, Repeated, quoted};
use crate::hunt::plans::expected;
use crate::hunt::saved::write_whole;
use crate::hunt::shrink::{Budget, ShrinkProgress, Shrunk, main_problem, shrink as make_small};
use crate::hunt::{Judged, JudgedRun, Pool, judge};
use crate::property::Violation;
use crate::report::{StoryFailure, phrases, story};
use crate::scenario::{Expect, ScenarioFile};
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::{Engine, Options};

use super::args::Shrink;
use super::files;
use super::page::{Page, UserError};

/// Shrinks the first failing run, saves it and prints its story. It never returns success: without
/// a failing run there is nothing to do.
pub fn shrink(
    args: &Shrink,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let out = place(args, &page.found)?;
    let scenario = files::load(&args.file, subjects, page)?;
    let subject = files::subject(&scenario, subjects)?;
    let plans = args.select.plans(&scenario, subject, None)?;
    let expect = expected(&scenario);
    let (plan, broken) = first_broken(subject, plans, &expect, &args.file)?;
    let case = JudgedRun { subject, plan: &plan, expect: &expect };
    let listen = page.interrupted();
    let shrunk = make_small(case, &broken, &Budget::default(), |so_far| {
        page.progress.print(progress_text(so_far));
        if listen.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    page.no_progress();
    let shrunk = shrunk.map_err(|why| {
        UserError(format!("nothing to shrink: {}, seed {}: {why}", args.file.display(), plan.seed))
    })?;
    let file = shrunk.scenario(title(&shrunk, &scenario)).to_toml();
    match verify(&file, &shrunk, subject, page) {
        Ok(()) => keep(&out, &file)?,
        Err(why) => page.print_error(&format!("{why}; no file was written")),
    }
    let replay = format!("{} replay {}", page.program, quoted(&out.display().to_string()));
    let (origin, history) = (phrases::origin(&shrunk), &shrunk.judged.history);
    let (plan, broken) = (&shrunk.plan, &shrunk.broken[..]);
    let drawn = Drawn { subject, plan, broken, engine: Engine::Event, replay: &replay };
    let name = Path::new(out.file_name().unwrap_or_default()).with_extension("html");
    let path = page.pictures.as_ref().map(|folder| folder.join(name));
    let Repeated { history: again, picture } = drawn.repeat(Some(history), path.as_deref());
    let failure = StoryFailure {
        plan,
        history: again.as_ref().unwrap_or(history),
        broken,
        origin: Some(&origin),
        replay: &replay,
        picture: picture.as_deref(),
    };
    page.print(&story::failure(&failure, page.width))?;
    Ok(false)
}

/// Returns the path of the new file: as given on the command line, or a new file in the folder for
/// findings. The suite does not run the files of that folder.
fn place(args: &Shrink, found: &Path) -> Result<PathBuf, UserError> {
    if let Some(out) = &args.out {
        let real = |path: &Path| path.canonicalize().ok();
        if real(out).is_some_and(|out| real(&args.file) == Some(out)) {
            return Err(UserError(format!(
                "{} is the file to shrink; choose another file with --out",
                out.display()
            )));
        }
        return Ok(out.clone());
    }
    let is_input = args.file == Path::new("-");
    let name = if is_input { Path::new("input.toml") } else { &args.file };
    let new = found.join(name.with_extension("shrunk.toml").file_name().unwrap_or_default());
    if new.exists() {
        return Err(UserError(format!(
            "{} already exists; remove it, or choose another file with --out",
            new.display()
        )));
    }
    Ok(new)
}

/// Returns the first plan with a violation, and its main violation. Every run that can have a
/// control run has one.
fn first_broken(
    subject: &Arc<dyn DynSubject>,
    plans: Vec<Plan>,
    expect: &Expect,
    file: &Path,
) -> Result<(Plan, Violation), UserError> {
    let count = plans.len() as u64;
    let mut order = plans.clone().into_iter();
    let mut found = Err(UserError(format!(
        "nothing to shrink: {} of {} held",
        phrases::count(count, "run"),
        file.display()
    )));
    let (subject, expect) = (subject.clone(), expect.clone());
    let work = move |plan: Plan| {
        judge(
            JudgedRun { subject: &subject, plan: &plan, expect: &expect },
            &Options::default(),
            |_| true,
        )
    };
    Pool::default().run(plans.into_iter(), work, |result| {
        let plan = order.next().expect("there is a result for each plan");
        match result {
            Ok(Ok(Judged { broken, .. })) => match main_problem(&broken) {
                None => return ControlFlow::Continue(()),
                Some(broken) => found = Ok((plan, broken.clone())),
            },
            Ok(Err(error)) => found = Err(error.into()),
            Err(lost) => {
                found = Err(UserError(format!(
                    "nothing to shrink: {}, seed {}: {lost}",
                    file.display(),
                    plan.seed
                )))
            }
        }
        ControlFlow::Break(())
    });
    found
}

pub(super) fn progress_text(so_far: ShrinkProgress<'_>) -> String {
    let steps = phrases::count(so_far.plan.steps.len() as u64, "step");
    format!("shrinking: {steps} of {}, {}", so_far.from, phrases::count(so_far.runs, "run"))
}

fn title(shrunk: &Shrunk, scenario: &ScenarioFile) -> String {
    let broken = &shrunk.broken[0];
    let (property, stream) = (broken.property, broken.stream());
    let of = stream.map_or(String::new(), |stream| format!(" of {stream}"));
    format!("{property}{of} breaks; shrunk from seed {} of: {}", shrunk.plan.seed, scenario.title)
}

/// Verifies that the file, read back, gives the same run, both here and in a fresh process.
pub(super) fn verify(
    file: &str,
    shrunk: &Shrunk,
    subject: &Arc<dyn DynSubject>,
    page: &Page<'_>,
) -> Result<(), String> {
    let read = ScenarioFile::parse(file, "-", std::slice::from_ref(subject))
        .map_err(|mistake| mistake.to_string())?;
    let [plan] = &read.plans()[..] else {
        return Err("the file does not have exactly one run".into());
    };
    let here = shrunk.judged.statement();
    let again =
        judge(JudgedRun { subject, plan, expect: &read.expect }, &Options::default(), |_| {
            shrunk.has_control()
        });
    if again.map_err(|error| error.to_string())?.statement() != here {
        return Err("the result differed when the file was read again".into());
    }
    let Some(fresh) = &page.fresh else { return Ok(()) };
    let there = fresh.ask(plan, &read.expect, Engine::Event, shrunk.has_control());
    match there.map_err(|why| format!("the run could not be verified: {why}"))? == here {
        true => Ok(()),
        false => Err("the result differed in a new process".into()),
    }
}

/// Writes the file.
fn keep(out: &Path, file: &str) -> Result<(), UserError> {
    write_whole(out, file).map_err(|error| {
        UserError(format!("{}: this file cannot be written: {error}", out.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::act;

    /// A temporary folder of a test, which is removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("reknit-shrink-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        /// Writes a copy of a scenario into the folder and returns its path.
        fn copy(&self, scenario: &str) -> String {
            let path = self.0.join("mine.toml");
            std::fs::copy(format!("scenarios/counter/{scenario}.toml"), &path).unwrap();
            path.display().to_string()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    /// Runs a command and returns its output and exit status. Findings go to the current folder of
    /// the tests, which no test here writes to.
    fn command(words: &[&str]) -> (String, String, u8) {
        command_in(Path::new("."), words)
    }

    /// As [`command`], with another folder for findings.
    fn command_in(found: &Path, words: &[&str]) -> (String, String, u8) {
        let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), std::io::empty());
        let mut page = Page::of_test(&mut out, &mut err, &mut input, 100);
        page.found = found.to_owned();
        let args: Vec<_> = ["reknit"].iter().chain(words).map(Into::into).collect();
        let status = act(&args, &crate::subjects::built_in(), &mut page);
        let text =
            |bytes| anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string();
        (text(out), text(err), status)
    }

    #[test]
    fn a_failing_run_is_saved_in_the_folder_for_findings_and_fails_again() {
        let folder = Folder::new("beside");
        let file = folder.copy("short-cut-while-numbers-flow");
        let found = folder.0.join("found");
        let shrink = ["shrink", &file, "--defect", "resumes-one-too-late"];
        let (out, err, status) = command_in(&found, &shrink);
        assert_eq!((err.as_str(), status), ("", 1));
        let kept = found.join("mine.shrunk.toml").display().to_string();
        assert!(out.starts_with("FAIL  counter  gap_free") && out.contains("shrunk from"), "{out}");
        assert!(out.ends_with(&format!("  replay   reknit replay {kept}\n")), "{out}");
        let (rendered, _, status) = command(&["replay", &kept]);
        assert!(status == 1 && rendered.contains("FAIL  counter  gap_free"), "{rendered}");
        let (_, err, status) = command_in(&found, &shrink);
        assert!(
            status == 2
                && err.contains("already exists; remove it, or choose another file with --out"),
            "{err}"
        );
    }

    #[test]
    fn the_file_to_write_can_be_named() {
        let folder = Folder::new("named");
        let file = folder.copy("short-cut-while-numbers-flow");
        let out = folder.0.join("new/kept.toml").display().to_string();
        let (_, err, status) = command(&[
            "shrink",
            &file,
            "--defect",
            "resumes-one-too-late",
            "--seed",
            "3",
            "--out",
            &out,
        ]);
        assert_eq!((err.as_str(), status), ("", 1));
        let kept = std::fs::read_to_string(&out).unwrap();
        std::fs::write(&out, "something else").unwrap();
        let (_, _, status) = command(&[
            "shrink",
            &file,
            "--defect",
            "resumes-one-too-late",
            "--seed",
            "3",
            "--out",
            &out,
        ]);
        assert_eq!((status, std::fs::read_to_string(&out).unwrap()), (1, kept));
        assert_eq!(command(&["check", &out]).2, 0);
        let before = std::fs::read_to_string(&file).unwrap();
        let (_, err, status) =
            command(&["shrink", &file, "--defect", "resumes-one-too-late", "--out", &file]);
        assert!(status == 2 && err.contains("is the file to shrink; choose another"), "{err}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    }

    #[test]
    fn without_a_failing_run_there_is_nothing_to_shrink() {
        let folder = Folder::new("nothing");
        let file = folder.copy("short-cut-while-numbers-flow");
        let (out, err, status) = command(&["shrink", &file, "--seed", "1"]);
        assert_eq!((out.as_str(), status), ("", 2));
        assert_eq!(err, format!("reknit: nothing to shrink: 1 run of {file} held\n"));
    }
}
