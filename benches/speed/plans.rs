//! The subjects and the handwritten plans that the benchmarks run.

use std::sync::Arc;
use std::time::Duration;

use reknit::hunt::{Check, Checks, Examined, JudgedRun, examine};
use reknit::scenario::{Expect, ScenarioFile};
use reknit::schedule::{Action, Host, Operation, Plan, Profile, Step, When};
use reknit::subject::DynSubject;
use reknit::world::{Options, RunOutcome, run};
use serde_json::{Map, Value, json};

/// Returns a built-in subject.
pub fn subject(name: &str) -> Arc<dyn DynSubject> {
    reknit::subjects::built_in()
        .into_iter()
        .find(|subject| subject.name() == name)
        .expect("it is built in")
}

/// The default profile of a hunt.
pub fn default_profile(subject: &Arc<dyn DynSubject>) -> Profile {
    let text = subject.swarm().expect("it has a swarm of its own");
    let scenario = ScenarioFile::parse(text, "default", std::slice::from_ref(subject))
        .expect("it is well-formed");
    scenario.into_profile().expect("a swarm has a profile")
}

/// A plan of `subject` in which nothing happens.
pub fn nothing(subject: &str, horizon: Duration) -> Plan {
    Plan { horizon, ..Plan::new(subject) }
}

/// An operation of the n-th client at the given time.
pub fn ask(client: u32, at: Duration, verb: &str, field: &str, value: &str) -> Step {
    let fields = Map::from_iter([(field.to_owned(), Value::from(value))]);
    let operation = Operation { verb: verb.to_owned(), client: Host::client(client), fields };
    Step { when: When::At(at), action: Action::Operation(operation) }
}

/// A plan in which each of `clients` clients starts `processes` processes, one after another, and
/// each process prints one line per second. Also returns the total number of lines.
pub fn lines(clients: u32, processes: u32, lines: u32) -> (Plan, u32) {
    let mut plan = Plan { clients, ..nothing("exec", Duration::from_secs(u64::from(lines) + 3)) };
    let all = clients * processes;
    let mut table = Map::new();
    for n in 0..all {
        let name = format!("p{}", n + 1);
        let at = Duration::from_secs(1) + Duration::from_secs(1) * n / all;
        plan.steps.push(ask(n % clients + 1, at, "start", "process", &name));
        table.insert(name, json!({ "print": { "lines": lines, "every": "1s" } }));
    }
    plan.setup.insert("process".to_owned(), table.into());
    (plan, all * lines)
}

/// Runs a plan.
pub fn carry_out(subject: &Arc<dyn DynSubject>, plan: &Plan) -> RunOutcome {
    run(subject, plan, &Options::default()).expect("it can be carried out")
}

/// Runs a plan once and judges it, without a repeated run.
pub fn judged(subject: &Arc<dyn DynSubject>, plan: &Plan) -> Examined {
    let checks = Checks { check: Check::None, ..Checks::default() };
    let examined = examine(JudgedRun { subject, plan, expect: &Expect::default() }, &checks)
        .expect("it can be carried out");
    assert!(examined.broken.is_empty(), "{:?}", examined.broken);
    examined
}
