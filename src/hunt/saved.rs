//! What hunts found, as files of a folder: one for each shape of failure.
//!
//! Two finds have the same shape if the same property broke, under the same defects, in schedules of the same words. A find whose
//! shape is kept already is a duplicate: it is counted, and not saved.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::property::Violation;
use crate::scenario::{Body, ScenarioFile};
use crate::schedule::{Action, Plan};
use crate::subject::DynSubject;

/// What makes two finds alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingShape {
    property: String,
    defects: Vec<String>,
    /// The words of its steps, in alphabetical order.
    words: Vec<String>,
}

impl FindingShape {
    /// The shape of a plan that breaks a property.
    pub fn of(plan: &Plan, property: &str) -> Self {
        let mut words: Vec<_> = (plan.steps.iter())
            .map(|step| match &step.action {
                Action::Operation(operation) => operation.verb.clone(),
                Action::Fault(fault) => fault.word().name.to_owned(),
            })
            .collect();
        words.sort_unstable();
        let mut defects = plan.defects.clone();
        defects.sort_unstable();
        Self { property: property.to_owned(), defects, words }
    }
}

/// A folder of finds.
#[derive(Debug)]
pub struct SavedFindings {
    folder: PathBuf,
    shapes: BTreeMap<FindingShape, PathBuf>,
}

/// A find that could not be saved, with the text that its file would have had.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {why}", path.display())]
pub struct Unsaved {
    /// Where it was to be.
    pub path: PathBuf,
    /// Why it is not there.
    pub why: io::Error,
    /// What was to stand in it.
    pub text: String,
}

impl SavedFindings {
    /// What this folder has kept of a subject. Where there is no such folder yet, or a file in it is not understood, that is nothing.
    pub fn open(folder: &Path, subject: &Arc<dyn DynSubject>) -> Self {
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let subjects = std::slice::from_ref(subject);
        let shapes = files.filter_map(|path| {
            let scenario = ScenarioFile::load(&path, subjects).ok()?;
            let Body::Schedule(plan) = &scenario.body else { return None };
            let property = scenario.title.split_whitespace().next()?.to_owned();
            let plan = Plan { defects: scenario.defects.clone(), ..plan.clone() };
            Some((FindingShape::of(&plan, &property), path))
        });
        Self { folder: folder.to_owned(), shapes: shapes.collect() }
    }

    /// The file of this shape, if one is kept.
    pub fn has(&self, shape: &FindingShape) -> Option<&Path> {
        self.shapes.get(shape).map(PathBuf::as_path)
    }

    /// Saves a find under a title; where its file is. It replaces no file.
    ///
    /// # Errors
    /// If it cannot be written. Its shape counts as kept all the same, so that the next find of that shape is a duplicate.
    pub fn keep(
        &mut self,
        plan: &Plan,
        broken: &Violation,
        title: &str,
    ) -> Result<PathBuf, Box<Unsaved>> {
        let text = Self::file(plan, title);
        let path = self.free(&format!(
            "{}-{}-{}",
            plan.subject,
            broken.property.replace('_', "-"),
            plan.seed
        ));
        self.shapes.insert(FindingShape::of(plan, broken.property), path.clone());
        match write_whole(&path, &text) {
            Ok(()) => Ok(path),
            Err(why) => Err(Box::new(Unsaved { path, why, text })),
        }
    }

    /// The file of a find. Its title must begin with the property, from which its shape is known again.
    pub fn file(plan: &Plan, title: &str) -> String {
        ScenarioFile::of_plan(plan.clone(), title).to_toml()
    }

    fn free(&self, name: &str) -> PathBuf {
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.to_owned())
            .chain(numbered)
            .map(|name| self.folder.join(name + ".toml"));
        names.find(|path| !path.exists()).expect("names do not run out")
    }
}

/// Writes a file whole or not at all: a full disk leaves no half of it. Makes its folder where there is none.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        fs::remove_file(&beside).ok();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Time;
    use crate::property::violation::sample_violation;
    use crate::subjects::counter;

    const TITLE: &str = "gap_free breaks: s1: item 2 never came";

    fn find() -> (Plan, Violation) {
        let text = "format = 1\nsubject = \"counter\"\ntitle = \"a\"\n[stream.s1]\nnumbers = 3\n[[step]]\nat = \"1s\"\nwatch = { stream = \"s1\" }\n";
        let plan = ScenarioFile::parse(text, "a.toml", &crate::subjects::built_in())
            .unwrap()
            .plans()
            .remove(0);
        (plan, sample_violation("gap_free", "s1", Time(1), "item 2 never came"))
    }

    #[test]
    fn what_is_kept_is_known_to_the_next_hunt_by_its_shape() {
        let folder = std::env::temp_dir().join(format!("reknit-kept-{}", std::process::id()));
        let (plan, broken) = find();
        let mut kept = SavedFindings::open(&folder, &counter());
        assert!(kept.has(&FindingShape::of(&plan, "gap_free")).is_none());
        let path = kept.keep(&plan, &broken, TITLE).unwrap();
        let second = kept.keep(&plan, &broken, TITLE).unwrap();
        assert_ne!(path, second, "no file is replaced");
        let later = SavedFindings::open(&folder, &counter());
        assert!(
            later.has(&FindingShape::of(&Plan { seed: 9, ..plan.clone() }, "gap_free")).is_some()
        );
        assert!(later.has(&FindingShape::of(&plan, "one_ending")).is_none());
        assert!(
            later
                .has(&FindingShape::of(
                    &Plan { defects: vec!["x".into()], ..plan.clone() },
                    "gap_free"
                ))
                .is_none()
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_handed_back() {
        let (plan, broken) = find();
        let mut kept = SavedFindings::open(Path::new("/dev/null/found"), &counter());
        let unsaved = kept.keep(&plan, &broken, TITLE).unwrap_err();
        assert!(
            unsaved.text.contains("gap_free breaks: s1: item 2 never came"),
            "{}",
            unsaved.text
        );
        assert!(kept.has(&FindingShape::of(&plan, "gap_free")).is_some());
    }
}
