//! `silence_is_noticed`: a client gives up a connection when it has received nothing for its detection
//! time, or when the attempt takes too long.
//!
//! A write that continues after it had to wait for room is a sign of life, too. A client with a held task
//! notices the silence later, and may read late what has arrived. A client that is closed says goodbye
//! for a moment. A host that died keeps its connections.

use std::collections::BTreeSet;
use std::time::Duration;

use super::held_tasks::HeldTasks;
use crate::history::{ConnIndex, EventKind, Time};
use crate::property::violation::{fields, kinds};
use crate::property::{CheckContext, Violation};
use crate::schedule::MilestoneValue;
use crate::subjects::judging::{host, judged};

kinds! {
    pub(super) SILENCE_IS_NOTICED;
    NOTICED_LATE = "noticed-late": "{subject} was still open at {at}, although its client had received nothing since {since}";
}

/// How much the recorded times may differ from the client's clock.
pub(super) const MOMENT: Duration = Duration::from_millis(500);

/// See the module.
pub(super) fn silence_is_noticed(cx: &CheckContext<'_>) -> Vec<Violation> {
    let until = Time::from(cx.plan.horizon).min(cx.history.end);
    let mut held_tasks = HeldTasks::default();
    let mut excused: BTreeSet<&str> = BTreeSet::new();
    // The connections that their clients gave up for this reason.
    let mut noticed: BTreeSet<usize> = BTreeSet::new();
    for event in judged(cx) {
        held_tasks.pass(event);
        match &event.what {
            EventKind::Asked { operation, .. } if operation.verb == "close-client" => {
                excused.insert(host(event));
            }
            EventKind::Died { .. } => drop(excused.insert(host(event))),
            EventKind::Milestone {
                name: "exec.client.lost" | "exec.client.attempt-failed",
                fields,
            } if matches!(MilestoneValue::text(fields, "why"), Some("silent" | "given up")) => {
                noticed.extend(ConnIndex::from_fields(fields).map(|conn| conn.0));
            }
            _ => {}
        }
    }
    let is_client = |host: &str| {
        !cx.servers.contains(&host) && !cx.plan.puppets.keys().any(|puppet| puppet.as_str() == host)
    };
    let conns = cx.history.conns.iter().enumerate();
    let own = conns.filter(|(_, conn)| is_client(conn.client.as_str()));
    let late = own.filter_map(|(index, conn)| {
        let client = conn.client.as_str();
        let received = conn.received.0?;
        let since = conn.unblocked.0.map_or(received, |unblocked| unblocked.max(received));
        let silent = since + cx.guarantees.detection;
        let at = silent.max(conn.opened + cx.guarantees.attempt) + MOMENT;
        let is_late = conn.over.0.is_none_or(|over| over > at);
        // A connection that ended for another reason was not silent for long enough.
        let was_silent = at < until && (is_late || noticed.contains(&index));
        let is_held = || held_tasks.was_held_between(client, since, at);
        if !was_silent || excused.contains(client) || is_held() {
            return None;
        }
        cx.judges("silence_is_noticed");
        is_late.then(|| {
            let data = fields! { at, since };
            Violation::new("silence_is_noticed", conn.name.as_str(), at, &NOTICED_LATE, data)
        })
    });
    late.take(5).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::violations;
    use super::*;
    use crate::history::Class;
    use crate::property::scripted::{ScriptedRun, history};

    #[test]
    fn a_silent_connection_is_given_up_in_time() {
        let found = |run: ScriptedRun| violations(&run.horizon(60_000), silence_is_noticed);
        let heard = |over| history().conn(1, 1_000, over).heard(2_000);
        assert_eq!(found(heard(Some(18_500))), [""; 0]);
        assert_eq!(
            found(heard(Some(18_501))),
            [
                "client#1 was still open at 18.500 s, although its client had received nothing since 2.000 s"
            ]
        );
        assert_eq!(found(heard(None)).len(), 1);
        let held = |until| found(heard(None).slows(1_000, until)).len();
        assert_eq!([held(1_999), held(2_000)], [1, 0]);
        assert_eq!(found(heard(None).died("client", 30_000)), [""; 0]);
        let closed = heard(None).asked_as(1, 17_900, Class::Durable, "close-client", "{}");
        assert_eq!(found(closed), [""; 0], "it says goodbye");
        let wrote = |over| found(heard(Some(over)).unblocked(4_000)).len();
        assert_eq!([wrote(20_500), wrote(20_501)], [0, 1], "its peer reads");
        let patient = heard(Some(25_000)).guarantees(|its| its.attempt = Duration::from_secs(24));
        assert_eq!(found(patient), [""; 0], "it may be an attempt");
        let ends = violations(&heard(None).horizon(18_500), silence_is_noticed);
        assert_eq!(ends, [""; 0], "the run ends before");
    }
}
