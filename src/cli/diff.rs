//! `diff`: shows where two runs diverge. The runs may come from two files or from one. Each run can
//! have its own seed, defects and limits.

use std::path::Path;
use std::sync::Arc;

use crate::history::History;
use crate::report::divergence::{self, ComparedRun};
use crate::scenario::ScenarioFile;
use crate::schedule::Plan;
use crate::subject::DynSubject;
use crate::world::{self, Detail, Options};

use super::args::{Diff, Select};
use super::files;
use super::page::{Page, UserError};
use super::select::changes;

/// Runs two plans and shows the first entry that differs. Returns whether all entries are equal.
pub fn diff(
    args: &Diff,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let (a, b) = (&args.only_a, &args.only_b);
    let selects = [
        args.select.and(a.seed_a, &a.defect_a, &a.set_a),
        args.select.and(b.seed_b, &b.defect_b, &b.set_b),
    ];
    let first = files::load(&args.a, subjects, page)?;
    // Standard input can be read only once.
    let second = match &args.b {
        Some(path) if *path != args.a => files::load(path, subjects, page)?,
        _ => first.clone(),
    };
    let paths = [&args.a, args.b.as_ref().unwrap_or(&args.a)];
    let a = NamedRun::of(&first, paths[0], &selects[0], subjects)?;
    let b = NamedRun::of(&second, paths[1], &selects[1], subjects)?;
    page.print(&divergence::render(a.side(), b.side(), page.width))?;
    Ok(divergence::are_same(&a.history, &b.history))
}

/// A run with its display name.
struct NamedRun {
    name: String,
    plan: Plan,
    history: History,
}

impl NamedRun {
    fn of(
        scenario: &ScenarioFile,
        path: &Path,
        select: &Select,
        subjects: &[Arc<dyn DynSubject>],
    ) -> Result<Self, UserError> {
        let subject = files::subject(scenario, subjects)?;
        let plan = select.plan(scenario, subject)?;
        let history =
            world::run(subject, &plan, &Options { detail: Detail::Full, ..Options::default() })?
                .history;
        Ok(Self {
            name: format!("{} --seed {}{}", path.display(), plan.seed, changes(select)),
            plan,
            history,
        })
    }

    fn side(&self) -> ComparedRun<'_> {
        ComparedRun { name: &self.name, plan: &self.plan, history: &self.history }
    }
}
