//! Saved findings: the violations that hunts found, one file in a folder for each shape of failure.
//!
//! Two findings have the same shape if they violate the same property, under the same defects, in
//! schedules with the same step words. A finding whose shape is already saved is a duplicate: it is
//! counted, but not saved.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::property::Violation;
use crate::scenario::{Body, ScenarioFile};
use crate::schedule::{Action, Plan};
use crate::subject::DynSubject;

/// The shape of a finding. Findings of the same shape are duplicates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingShape {
    property: String,
    defects: Vec<String>,
    /// The words of its steps, in alphabetical order.
    words: Vec<String>,
}

impl FindingShape {
    /// Returns the shape of a plan that violates a property.
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

/// A folder of saved findings.
#[derive(Debug)]
pub struct SavedFindings {
    folder: PathBuf,
    shapes: BTreeMap<FindingShape, PathBuf>,
}

/// A finding that could not be saved, with the text of its file.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {why}", path.display())]
pub struct Unsaved {
    /// The path of the file.
    pub path: PathBuf,
    /// The reason why the file could not be written.
    pub why: io::Error,
    /// The text of the file.
    pub text: String,
}

impl SavedFindings {
    /// Loads the saved findings of a subject from this folder. Ignores files that it cannot parse.
    /// A missing folder counts as empty.
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

    /// Returns the file of this shape, if one is saved.
    pub fn has(&self, shape: &FindingShape) -> Option<&Path> {
        self.shapes.get(shape).map(PathBuf::as_path)
    }

    /// Saves a finding under a title and returns the path of its file. Never overwrites a file.
    ///
    /// # Errors
    /// If the file cannot be written. The shape still counts as saved, so the next finding of that
    /// shape is a duplicate.
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

    /// Returns the text of a finding's file. The title must begin with the property:
    /// [`SavedFindings::open`] reads the property from there.
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

/// Writes a file atomically: a full disk leaves no partial file. Creates the folder if it does not
/// exist.
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
    fn a_later_hunt_recognises_a_saved_finding_by_its_shape() {
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
    fn a_finding_that_cannot_be_written_is_returned() {
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
