//! Tests of `fallback_is_needed`.

use super::super::refusals::fallback_is_needed;
use super::*;
use crate::history::Data;
use crate::subjects::turn::notes::BrokerNote;

#[test]
fn a_command_of_a_workspace_starts_a_broker_if_the_last_one_was_killed() {
    let observed = |run: ScriptedRun, ms: u64, note: BrokerNote| {
        run.user(ms, EventKind::Observed { stream: "turn-broker".into(), saw: note.into() })
    };
    let killed = |ms: u64| {
        let run = observed(asked("workspace"), 500, BrokerNote::Serves);
        let run = run.asked_as(8, ms, Class::InFlight, "kill-broker", "{}");
        notes(observed(run, ms, BrokerNote::Ended), 4_000, begins("turn-client-codex-1"))
    };
    breaks(&killed(899), fallback_is_needed, "none served there since");
    holds(&killed(900), fallback_is_needed);
    holds(&observed(killed(899), 3_000, BrokerNote::Serves), fallback_is_needed);
}

#[test]
fn a_command_of_a_workspace_uses_the_idle_broker_of_its_machine() {
    let second = |ms: u64, account: &str| {
        let serves = BrokerNote::Serves.into();
        let run = asked("workspace");
        let run =
            run.user(1_100, EventKind::Observed { stream: "turn-broker".into(), saw: serves });
        let run = notes(run, 1_200, TurnNote::Account(account.into()));
        let run = notes(notes(run, 1_300, begins("turn-client-codex-1")), 1_300, TurnNote::Named);
        let run = notes(run, 2_000, TurnNote::Reported(Reported::Completed));
        let run = notes(run, 2_000, TurnNote::Gone).answered(1, 2_000, failed(0));
        let other = json!({ "turn": "t2", "route": "workspace" }).to_string();
        let run = run.asked_as(2, ms, Class::InFlight, "task", &other);
        let saw = begins("turn-client-codex~2-1").into();
        run.user(4_000, EventKind::Observed { stream: "t2-2".into(), saw })
    };
    let idle = "was ready and idle since";
    breaks(&second(2_501, ""), fallback_is_needed, idle);
    holds(&second(2_500, ""), fallback_is_needed);
    holds(&second(2_501, "a"), fallback_is_needed);
}

#[test]
fn a_broker_that_has_greeted_its_app_server_is_ready() {
    let alone = |name: &str, greets: u64, account: &str| {
        let observed = |run: ScriptedRun, ms: u64, stream: &str, saw: Data| {
            run.user(ms, EventKind::Observed { stream: stream.into(), saw })
        };
        let run = observed(history(), 2_000, "turn-broker", BrokerNote::Serves.into());
        let info = json!({ "clientInfo": { "name": name, "version": "1" } });
        let hello = json!({ "id": 1, "method": "initialize", "params": info }).to_string();
        let run = observed(run, 2_000, "codex@client-codex", Got::of(&hello).into());
        let said = json!({ "method": "initialized" }).to_string();
        let run = observed(run, greets, "codex@client-codex", Got::of(&said).into());
        let task = json!({ "turn": "t2", "route": "workspace" }).to_string();
        let run = run.asked_as(2, 4_000, Class::InFlight, "task", &task);
        let run = observed(run, 5_000, "t2-2", begins("turn-client-codex~2-1").into());
        let later = json!({ "turn": "t3", "route": "workspace", "account": account });
        match account {
            "" => run,
            _ => run.asked_as(3, 9_000, Class::InFlight, "task", &later.to_string()),
        }
    };
    let idle = "was ready and idle since";
    breaks(&alone("broker", 3_499, ""), fallback_is_needed, idle);
    holds(&alone("broker", 3_500, ""), fallback_is_needed);
    holds(&alone("world", 3_499, ""), fallback_is_needed);
    // The broker may work for the other account.
    holds(&alone("broker", 3_499, "a"), fallback_is_needed);
}
