//! Selects the runs of a scenario, and applies the changes from the command line.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;

use crate::frontend::{quoted, words_for};
use crate::hunt;
use crate::scenario::mistake::unknown;
use crate::scenario::{ScenarioFile, find_profile, read_limit};
use crate::schedule::{LimitProfile, LimitValue, Plan, TieOrder};
use crate::subject::{DynSubject, VariantDoc};
use crate::world::Engine;

use super::args::Select;
use super::page::UserError;

impl Select {
    /// Returns this selection with another seed, if one is given, and with additional defects and
    /// limits.
    pub fn and(&self, seed: Option<u64>, defects: &[String], sets: &[String]) -> Self {
        Self {
            seed: seed.or(self.seed),
            defect: [&self.defect, defects].concat(),
            set: [&self.set, sets].concat(),
            order: self.order,
        }
    }

    /// Returns the plans of a scenario, with the changes from the command line. `seeds` is the
    /// number of seeds if it overrides the file.
    pub fn plans(
        &self,
        scenario: &ScenarioFile,
        subject: &Arc<dyn DynSubject>,
        seeds: Option<u64>,
    ) -> Result<Vec<Plan>, UserError> {
        let scenario = self.seeded(scenario, seeds);
        let mut plans = hunt::plans::of(&scenario, subject);
        if let Some(order) = self.order.map(TieOrder::from) {
            plans.iter_mut().for_each(|plan| plan.order = order);
            plans.dedup_by_key(|plan| plan.seed);
        }
        self.change(&mut plans, subject)?;
        Ok(plans)
    }

    /// Returns the scenario with the seeds from the command line.
    fn seeded(&self, scenario: &ScenarioFile, seeds: Option<u64>) -> ScenarioFile {
        let mut scenario = scenario.clone();
        hunt::plans::with_seeds(&mut scenario, self.seed, seeds.or(self.seed.map(|_| 1)));
        scenario
    }

    /// Returns the number of these plans. Reports a mistake in the changes, but makes only the plans of one seed.
    pub fn count(
        &self,
        scenario: &ScenarioFile,
        subject: &Arc<dyn DynSubject>,
        seeds: Option<u64>,
    ) -> Result<u64, UserError> {
        self.plans(scenario, subject, Some(1))?;
        let mut scenario = self.seeded(scenario, seeds);
        scenario.both_orders &= self.order.is_none();
        Ok(hunt::plans::count(&scenario))
    }

    /// Returns the first plan.
    pub fn plan(
        &self,
        scenario: &ScenarioFile,
        subject: &Arc<dyn DynSubject>,
    ) -> Result<Plan, UserError> {
        let plans = self.plans(scenario, subject, Some(1))?;
        plans
            .into_iter()
            .next()
            .ok_or_else(|| UserError(format!("{}: this file has no runs", scenario.path.display())))
    }

    /// Returns the command that applies a verb to a file with the same changes.
    pub fn command(&self, program: &str, verb: &str, file: &Path) -> String {
        let mut command = format!("{program} {verb} {}", quoted(&file.display().to_string()));
        let seed = self.seed.map(|seed| format!(" --seed {seed}"));
        let order = self
            .order
            .and_then(|order| Some(format!(" --order {}", order.to_possible_value()?.get_name())));
        command.extend([seed, order].into_iter().flatten());
        command + &changes(self)
    }

    fn change(&self, plans: &mut [Plan], subject: &Arc<dyn DynSubject>) -> Result<(), UserError> {
        for name in &self.defect {
            defect(name, subject)?;
            for plan in plans.iter_mut().filter(|plan| !plan.defects.contains(name)) {
                plan.defects.push(name.clone());
            }
        }
        for set in &self.set {
            match read_set(set, subject)? {
                Set::Limit(name, value) => {
                    plans.iter_mut().for_each(|plan| plan.limits.set(name.clone(), value))
                }
                Set::Profile(profile) => {
                    plans.iter_mut().for_each(|plan| plan.limits.0.extend(profile.limits()))
                }
                Set::Variant(variant) => {
                    plans.iter_mut().for_each(|plan| variant.add_to(&mut plan.defects))
                }
            }
        }
        Ok(())
    }
}

/// Checks that a defect exists.
pub fn defect(name: &str, subject: &Arc<dyn DynSubject>) -> Result<(), UserError> {
    let known = subject.defects().iter().map(|defect| defect.name);
    if !known.clone().any(|known| known == name) {
        return Err(UserError(unknown(&format!("a defect of {}", subject.name()), name, known)));
    }
    Ok(())
}

/// A parsed `--set` argument.
#[derive(Clone, Debug)]
pub enum Set {
    /// A limit, with its name.
    Limit(String, LimitValue),
    /// A profile of limits.
    Profile(&'static LimitProfile),
    /// A version of the subject.
    Variant(VariantDoc),
}

/// The name that sets the limits of a profile.
const PROFILE: &str = "profile";

/// The name that sets the version of a subject.
const VARIANT: &str = "variant";

impl VariantDoc {
    /// Adds the defects of this version.
    pub(super) fn add_to(&self, defects: &mut Vec<String>) {
        for name in self.defects {
            if !defects.iter().any(|known| known == name) {
                defects.push((*name).to_owned());
            }
        }
    }
}

/// Parses `LIMIT=VALUE`, `profile=NAME`, or `variant=NAME` if the subject has several variants.
pub fn read_set(set: &str, subject: &Arc<dyn DynSubject>) -> Result<Set, UserError> {
    let (name, value) = set
        .split_once('=')
        .ok_or_else(|| UserError(format!("`{set}` sets nothing; write LIMIT=VALUE")))?;
    let variants = subject.variants();
    if name == VARIANT && !variants.is_empty() {
        let found = variants.iter().find(|variant| variant.name == value);
        let names = variants.iter().map(|variant| variant.name);
        let missing =
            || UserError(unknown(&format!("a variant of {}", subject.name()), value, names));
        return found.copied().map(Set::Variant).ok_or_else(missing);
    }
    if name == PROFILE {
        return find_profile(value, &**subject).map(Set::Profile).map_err(UserError);
    }
    let known = subject.limits().iter().find(|limit| limit.name == name);
    let limits = subject.limits().iter().map(|limit| limit.name);
    let limit = known.ok_or_else(|| {
        UserError(unknown(&format!("a limit of {}", subject.name()), name, limits))
    })?;
    let value = read_limit(limit, value).map_err(|why| UserError(format!("--set {set}: {why}")))?;
    Ok(Set::Limit(name.to_owned(), value))
}

/// Returns the command that replays a run of a scenario.
pub fn replay_command(
    program: &str,
    scenario: &ScenarioFile,
    plan: &Plan,
    engine: Engine,
    select: &Select,
) -> String {
    let mut command = format!(
        "{program} replay {} --seed {}",
        quoted(&scenario.path.display().to_string()),
        plan.seed
    );
    let order = match plan.order {
        TieOrder::Drawn => None,
        TieOrder::PacketsFirst => Some("packets-first"),
        TieOrder::TimersFirst => Some("timers-first"),
    };
    if let Some(order) = order.filter(|_| scenario.both_orders || select.order.is_some()) {
        command += &format!(" --order {order}");
    }
    command + &words_for(engine) + &changes(select)
}

/// Returns the defects and limits from the command line, as arguments.
pub fn changes(select: &Select) -> String {
    let defects = select.defect.iter().map(|name| format!(" --defect {name}"));
    defects.chain(select.set.iter().map(|set| format!(" --set {}", quoted(set)))).collect()
}
