//! The table of `docs/toolcall.md`: what the first random schedules find in each variant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use reknit::hunt::random::{HuntTarget, hunt};
use reknit::hunt::{Checks, FailedRun, Pool};
use reknit::subject::{DynSubject, VariantDoc};
use reknit::subjects::built_in;

/// The page with the table.
pub const PAGE: &str = "docs/toolcall.md";

const MARKS: (&str, &str) = (
    "<!-- variants: REKNIT_BLESS=1 cargo test --test docs -->\n",
    "<!-- the end of the variants -->\n",
);

/// The number of schedules for each variant.
const SCHEDULES: u64 = 100;

/// Returns the row of a variant: how many schedules break a property, the first of them, and how many
/// break each property.
fn row(subject: &Arc<dyn DynSubject>, variant: &VariantDoc) -> String {
    let mut profile = (*HuntTarget::default_for(subject).unwrap().profile).clone();
    profile.defects.extend(variant.defects.iter().map(|defect| (*defect).to_owned()));
    let seed = profile.first_seed;
    let target = HuntTarget { subject: subject.clone(), profile: Arc::new(profile) };
    let seeds = (0..SCHEDULES).map(move |n| seed.wrapping_add(n));
    let mut first = None;
    let mut broken: BTreeMap<&str, u64> = BTreeMap::new();
    let hunted = hunt(&target, seeds, &Checks::default(), &Pool::default(), |hunted, failed| {
        if let Some(FailedRun { broken: violations, .. }) = failed {
            first.get_or_insert(hunted.tally.runs);
            let names: BTreeSet<_> = violations.iter().map(|broken| broken.property).collect();
            names.into_iter().for_each(|name| *broken.entry(name).or_default() += 1);
        }
        ControlFlow::Continue(())
    });
    let broke = hunted.expect("the schedules run").broke;
    let mut broken: Vec<_> = broken.into_iter().collect();
    broken.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let broken: Vec<_> = broken.iter().map(|(name, times)| format!("`{name}` ({times})")).collect();
    let first = first.map_or("none".to_owned(), |first: u64| first.to_string());
    format!("| `{}` | {broke} | {first} | {} |\n", variant.name, broken.join(", "))
}

fn drawn() -> String {
    let subjects = built_in();
    let subject = subjects.iter().find(|subject| subject.name() == "toolcall").expect("built in");
    let mut drawn = format!(
        "| variant | schedules of {SCHEDULES} that violate a property | the first | properties, each with its number of schedules |\n|---|---|---|---|\n"
    );
    for variant in subject.variants() {
        write!(drawn, "{}", row(subject, variant)).expect("a text takes everything");
    }
    drawn
}

/// Returns the page with its table as it should be.
pub fn redrawn(page: &str) -> String {
    let (before, rest) = page.split_once(MARKS.0).expect("the page shows the table");
    let (_, after) = rest.split_once(MARKS.1).expect("it has an end");
    format!("{before}{}{}{}{after}", MARKS.0, drawn(), MARKS.1)
}
