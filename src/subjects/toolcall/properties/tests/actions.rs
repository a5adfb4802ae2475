//! Tests of actions: refusals, repetitions, order, forgeries and false claims.

use super::super::actions::{
    actions_once, authority, claims_are_checked, in_order, rejections_are_handled,
};
use super::*;
use crate::schedule::LimitValue;

#[test]
fn a_refused_action_does_not_happen_and_no_action_happens_twice() {
    let scripted =
        history().asked_as(7, 100, Class::Durable, "start-turn", "{}").effect(7, 200, "c1");
    holds(&scripted.clone().answered(7, 300, "began t1"), actions_once);
    assert_eq!(
        violations(
            &scripted.clone().answered(7, 300, rejected("a turn with that id already exists")),
            actions_once
        ),
        [
            "call 7: it took effect at 0.200 s, but its user received a refusal (refused: a turn with that id already exists; at 0.300 s)"
        ]
    );
    let titles = |third: &str| {
        let asked = scripted.clone().by("client2").asked_as(8, 100, Class::Durable, "rename", "{}");
        let scripted = saw(
            saw(asked, 1_000, "client", "s1", "title client 7"),
            2_000,
            "client",
            "s1",
            "title client2 8",
        );
        saw(scripted, 3_000, "client", "s1", &format!("title {third}"))
    };
    assert_eq!(
        violations(&titles("client 7"), actions_once),
        ["s1: client saw the title `client 7` again (at 3.000 s)"]
    );
    holds(&titles("client 9"), actions_once);
    // For a forgotten action, the host can only answer that it cannot perform the action twice.
    let forgotten = || {
        milestone(
            scripted.clone(),
            250,
            "server",
            "toolcall.host.forgotten",
            &[("client", "client")],
        )
    };
    holds(
        &forgotten().answered(7, 300, rejected("a turn with that id already exists")),
        actions_once,
    );
    let another = milestone(
        scripted.clone(),
        250,
        "server",
        "toolcall.host.forgotten",
        &[("client", "client2")],
    );
    assert_eq!(
        violations(
            &another.answered(7, 300, rejected("a turn with that id already exists")),
            actions_once
        )
        .len(),
        1
    );
}

#[test]
fn a_reply_that_permitted_a_call_is_not_refused() {
    let note = |run: ScriptedRun, ms: u64, host: &str, by: By, what: Became| {
        let saw = Data::of(OfCall { by, call: "call-1".to_owned(), what });
        run.entry(ms, Some(host), EventKind::Observed { stream: "t1".into(), saw })
    };
    let run = |decisions: &[u64], permitted: Option<u64>, reply: Result<(), String>| {
        let call = calls(here_until(None), 1_000, "call-1", "client");
        let decided = decisions.iter().fold(call, |run, ms| {
            saw(run, *ms, "client", "t1", "user: call-1 is approved by its user")
        });
        let permitted = permitted
            .into_iter()
            .fold(decided, |run, ms| note(run, ms, "server", By::Agent, Became::Permitted(true)));
        note(permitted, 3_000, "client", By::User, Became::Replies(reply))
    };
    let refused = || Err("no such call".to_owned());
    let wrong = run(&[2_000], Some(2_100), refused());
    assert_eq!(
        violations(&wrong, actions_once),
        [
            "t1: the reply of a user was refused (no such call), although it had permitted call-1 at 2.100 s (at 3.000 s)"
        ]
    );
    holds(&run(&[2_000], Some(2_100), Ok(())), actions_once);
    holds(&run(&[2_000], None, refused()), actions_once);
    // Another reply may have permitted it.
    holds(&run(&[2_000, 2_050], Some(2_100), refused()), actions_once);
    let mut tight = wrong;
    tight.plan.limits.set("host.outcomes", LimitValue::Count(1));
    holds(&tight, actions_once);
}

#[test]
fn operations_of_one_window_happen_in_order() {
    let asked = history().asked_as(1, 100, Class::Durable, "rename", "{}").asked_as(
        2,
        200,
        Class::InFlight,
        "new-chat",
        "{}",
    );
    let seen = |first: &str, then: &str| {
        saw(saw(asked.clone(), 1_000, "client2", "s1", first), 1_010, "client2", "s1", then)
    };
    holds(&seen("title client 1", "contains chat n2"), in_order);
    assert_eq!(
        violations(&seen("contains chat n2", "title client 1"), in_order),
        ["call 1: it took effect after call 2, which client requested later (at 1.010 s)"]
    );
    holds(
        &asked.clone().answered(1, 500, Did::Named("client 1".into())).answered(
            2,
            500,
            Did::Made("n2".into()),
        ),
        in_order,
    );
    assert_eq!(
        violations(
            &asked.clone().answered(2, 500, Did::Made("n2".into())).answered(
                1,
                500,
                Did::Named("client 1".into())
            ),
            in_order
        ),
        ["call 1: it was answered after call 2, which was requested later (at 0.500 s)"]
    );
    // The client learns a lost answer from a repetition. The user saw the effect before.
    let repeated = |seen_at| {
        let scripted = asked.clone().answered(2, 500, Did::Made("n2".into()));
        let scripted = scripted.answered(1, 510, Did::Named("client 1".into()));
        violations(&saw(scripted, seen_at, "client", "s1", "title client 1"), in_order).len()
    };
    assert_eq!((repeated(490), repeated(505)), (0, 1));
    // A later title shows that the title before it took effect.
    let renamed = |seen_at| {
        let scripted = asked.clone().asked_as(3, 250, Class::Durable, "rename", "{}");
        let scripted = scripted.asked_as(4, 260, Class::Durable, "rename", "{}");
        let scripted = scripted.answered(4, 500, Did::Named("client 4".into()));
        let scripted = scripted.answered(1, 510, Did::Named("client 1".into()));
        violations(&saw(scripted, seen_at, "client", "s1", "title client 3"), in_order).len()
    };
    assert_eq!((renamed(490), renamed(505)), (0, 1));
    let latest = asked.clone().asked_as(3, 250, Class::Durable, "rename", "{}");
    let latest = saw(latest, 490, "client", "s1", "title client 3");
    let latest = latest.answered(2, 500, Did::Made("n2".into()));
    let latest = latest.answered(1, 510, Did::Named("client 1".into()));
    assert_eq!(violations(&latest, in_order).len(), 1, "the title came last");
    // An operation that was in flight when its connection was lost may take effect at any time.
    let lost = asked.clone().failed(1, 300, "lost");
    holds(
        &saw(
            saw(lost, 1_000, "client2", "s1", "contains chat n2"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        ),
        in_order,
    );
    // The operations of the previous window have a separate order.
    let reloaded = history().asked_as(1, 100, Class::Durable, "rename", "{}").asked_as(
        2,
        150,
        Class::Durable,
        "reload",
        "{}",
    );
    let reloaded = reloaded.asked_as(3, 200, Class::InFlight, "new-chat", "{}");
    holds(
        &saw(
            saw(reloaded, 1_000, "client2", "s1", "contains chat n3"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        ),
        in_order,
    );
    let restarted = |host| {
        let scripted = history()
            .asked_as(1, 100, Class::Durable, "rename", "{}")
            .died(host, 120)
            .started(host, 130);
        let scripted = scripted.asked_as(2, 200, Class::InFlight, "new-chat", "{}");
        saw(
            saw(scripted, 1_000, "client2", "s1", "contains chat n2"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        )
    };
    holds(&restarted("client"), in_order);
    assert_eq!(violations(&restarted("client3"), in_order).len(), 1);
    // A host that forgets the outcome of a call may perform it again.
    let scripted = |asked: ScriptedRun| {
        saw(
            saw(asked, 1_000, "client2", "s1", "contains chat n2"),
            1_010,
            "client2",
            "s1",
            "title client 1",
        )
    };
    let forgets = |client| {
        scripted(milestone(
            asked.clone(),
            500,
            "server",
            "toolcall.host.forgotten",
            &[("client", client)],
        ))
    };
    holds(&forgets("client"), in_order);
    assert_eq!(violations(&forgets("client3"), in_order).len(), 1);
}

#[test]
fn an_accepted_forgery_is_reported() {
    let scripted = history().asked_as(1, 100, Class::Durable, "forge", "{}");
    holds(&scripted.clone().answered(1, 200, rejected("only the host may do that")), authority);
    assert_eq!(violations(&scripted.answered(1, 200, Did::Forged), authority).len(), 1);
}

#[test]
fn a_believed_false_claim_is_reported() {
    let scripted = history().asked_as(1, 100, Class::InFlight, "claim", r#"{"what":"the-future"}"#);
    holds(&scripted.clone().answered(1, 200, "given snapshots"), claims_are_checked);
    assert_eq!(
        violations(&scripted.answered(1, 200, Did::CaughtUp), claims_are_checked),
        [
            "call 1: a client made the false claim the-future, but was caught up by a replay (at 0.200 s)"
        ]
    );
}

/// The host refuses the third action of the client.
fn refused(scripted: ScriptedRun, ms: u64) -> ScriptedRun {
    let fields = [("client", "client"), ("channel", "c1"), ("seq", "3")];
    milestone(scripted, ms, "server", "toolcall.host.rejected", &fields)
}

#[test]
fn a_client_receives_a_refusal() {
    let scripted = || refused(here_until(None), 1_000).end(90_000);
    let heard = |seq| {
        milestone(
            scripted(),
            1_010,
            "client",
            "toolcall.client.rejected",
            &[("channel", "c1"), ("seq", seq)],
        )
    };
    holds(&heard("3"), rejections_are_handled);
    assert_eq!(
        violations(&scripted(), rejections_are_handled),
        [
            "client: its action 3 in c1 was refused at 1.000 s, but the client did not receive the refusal (by 1.620 s)"
        ]
    );
    assert_eq!(violations(&heard("2"), rejections_are_handled).len(), 1);
    let gone = |client, channel| {
        milestone(scripted(), 990, client, "toolcall.client.gone", &[("channel", channel)])
    };
    holds(&gone("client", "c1"), rejections_are_handled);
    assert_eq!(violations(&gone("client", "s1"), rejections_are_handled).len(), 1);
    assert_eq!(violations(&gone("client2", "c1"), rejections_are_handled).len(), 1);
    let let_go = saw(scripted(), 1_005, "client", "c1", "unsubscribed");
    assert_eq!(
        violations(&let_go, rejections_are_handled).len(),
        1,
        "its client hears of it whatever it looks at"
    );
    holds(&scripted().asked_as(1, 1_005, Class::Durable, "reload", "{}"), rejections_are_handled);
}

#[test]
fn a_refusal_arrives_only_when_the_host_has_a_place() {
    let lost = |other_until| {
        let run = refused(here_until(Some(1_000)).kills(1_000, 1_100), 1_000).horizon(90_000);
        let mut run = run.by("client2").conn(1, 100, Some(other_until)).by("client");
        run.plan.limits.set("host.connections", LimitValue::Count(1));
        run
    };
    assert_eq!(violations(&lost(5_000), rejections_are_handled).len(), 1);
    holds(&lost(80_000), rejections_are_handled);
}

/// The host forgot its decision before its client received it.
#[test]
fn a_forgotten_refusal_may_be_decided_again() {
    let lost = || refused(here_until(Some(1_000)).kills(1_000, 1_100), 1_000).horizon(90_000);
    assert_eq!(violations(&lost(), rejections_are_handled).len(), 1);
    let forgotten = |client| {
        milestone(lost(), 20_000, "server", "toolcall.host.forgotten", &[("client", client)])
    };
    holds(&forgotten("client"), rejections_are_handled);
    assert_eq!(violations(&forgotten("client2"), rejections_are_handled).len(), 1);
    assert_eq!(
        violations(&refused(forgotten("client"), 30_000), rejections_are_handled).len(),
        1,
        "it refuses it again"
    );
    let died = || lost().died("server", 20_000).started("server", 20_500);
    holds(&died(), rejections_are_handled);
    assert_eq!(violations(&refused(died(), 30_000), rejections_are_handled).len(), 1);
    let at_its_death =
        refused(here_until(Some(20_000)).died("server", 20_000), 20_000).started("server", 20_500);
    holds(&at_its_death.horizon(90_000), rejections_are_handled);
}
