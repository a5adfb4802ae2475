//! A failure as a short story, and the full story of a run.

use crate::history::History;
use crate::property::Violation;
use crate::schedule::{Action, Plan, Step};

use super::line::{Tone, paint, set, wrap};
use super::rendering::{RenderOptions, short, whole};
use super::{line, phrases, sentence};

/// A run with a violation.
#[derive(Clone, Copy, Debug)]
pub struct StoryFailure<'a> {
    /// The plan that was run.
    pub plan: &'a Plan,
    /// The history of the run.
    pub history: &'a History,
    /// The violations; at least one.
    pub broken: &'a [Violation],
    /// The origin of the schedule, if it does not come from a file: `shrunk from 19 steps in 84 runs`.
    pub origin: Option<&'a str>,
    /// The command that replays this run.
    pub replay: &'a str,
    /// The path of its picture, or the reason why there is none; `None` if no picture was
    /// requested.
    pub picture: Option<&'a str>,
}

/// The maximum number of sentences per property at the head of a story.
const SENTENCES: usize = 3;

/// Renders a failure and the events that led to it, for a page of this width.
pub fn failure(failure: &StoryFailure<'_>, width: usize) -> String {
    let StoryFailure { plan, history, broken, origin, replay, picture } = *failure;
    let mut rendered = head(&plan.subject, broken, width);
    let origin = origin.map_or(String::new(), |origin| format!(", {origin}"));
    let about = about(plan) + &origin;
    wrap(&about, width.saturating_sub(2))
        .into_iter()
        .for_each(|line| rendered += &format!("  {line}\n"));
    rendered += "\n";
    rendered += &set(&short(plan, history, broken), width);
    rendered += &format!("\n  replay   {replay}\n");
    rendered + &picture.map_or(String::new(), |picture| format!("  picture  {picture}\n"))
}

/// Renders all events of a run, and whether it held.
pub fn run(
    plan: &Plan,
    history: &History,
    broken: &[Violation],
    rendering: RenderOptions,
    width: usize,
) -> String {
    let mut rendered = format!("{}, {}\n\n", plan.subject, about(plan));
    rendered += &set(&whole(plan, history, broken, rendering), width);
    rendered += &format!(
        "\n  {}, {}, digest {}\n",
        history.end,
        phrases::count(history.packets, "segment"),
        history.digest
    );
    if broken.is_empty() {
        rendered + &format!("  {}\n", paint(Tone::Good.style(), "all held"))
    } else {
        rendered + "\n" + &head(&plan.subject, broken, width)
    }
}

/// Renders the head: `FAIL  exec  gap_free`, and one sentence per violation.
fn head(subject: &str, broken: &[Violation], width: usize) -> String {
    let mut names: Vec<_> = broken.iter().map(|broken| broken.property).collect();
    names.dedup();
    let mut rendered =
        format!("{}  {subject}  {}\n", paint(Tone::Broken.style(), "FAIL"), names.join(", "));
    for name in names {
        let of_name: Vec<_> = broken.iter().filter(|broken| broken.property == name).collect();
        for broken in of_name.iter().take(SENTENCES) {
            for line in wrap(&sentence(broken), width.saturating_sub(2)) {
                rendered += &format!("  {line}\n");
            }
        }
        if of_name.len() > SENTENCES {
            rendered += &format!("  and {} more of {name}\n", of_name.len() - SENTENCES);
        }
    }
    rendered
}

/// Describes the run: `1 operation and 2 faults, seed 1`, and its other parameters.
pub(super) fn about(plan: &Plan) -> String {
    let is_fault = |step: &&Step| matches!(step.action, Action::Fault(_));
    let faults = plan.steps.iter().filter(is_fault).count() as u64;
    let operations = plan.steps.len() as u64 - faults;
    let (operations, faults) =
        (phrases::count(operations, "operation"), phrases::count(faults, "fault"));
    format!("{operations} and {faults}, seed {}{}", plan.seed, with(plan))
}

/// Describes the other parameters of the run: defects, and limits that differ from the default.
fn with(plan: &Plan) -> String {
    let mut phrased = String::new();
    if !plan.defects.is_empty() {
        phrased += &format!(", with defect {}", plan.defects.join(", "));
    }
    for (name, value) in &plan.limits.0 {
        phrased += &format!(", {name} {value}");
    }
    phrased
}

/// Renders the lines that a run logged, under a heading.
pub fn log(lines: &[String]) -> String {
    if lines.is_empty() {
        return "  nothing was logged\n".into();
    }
    lines.iter().map(|line| format!("{}\n", paint(line::Tone::Quiet.style(), line))).collect()
}

#[cfg(test)]
mod known;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::history::{
        Call, Class, ConnEnd, ConnIndex, Connection, Content, Ending, Event, EventKind, Nature,
        Side, Stream, Time,
    };
    use crate::property::violation::sample_violation;
    use crate::schedule::{Conn, Fault, Learns, Operation, Trigger, When, faults};
    use std::time::Duration;

    /// A plan of three steps, and the history of a run in which item 41 was never delivered.
    pub(crate) fn a_gap() -> (Plan, History, Vec<Violation>) {
        let fields = serde_json::json!({ "stream": "s1" }).as_object().cloned().unwrap();
        let watch = Operation { verb: "watch".into(), client: "client".into(), fields };
        let learns = [
            ("client".into(), Learns::After(Duration::ZERO)),
            ("server".into(), Learns::After(Duration::from_millis(400))),
        ];
        let cut =
            Fault::Cut(faults::Cut { conn: Conn::number("client", 1), learns: learns.into() });
        let stall = Fault::Stall(faults::Stall {
            conn: Conn::number("client", 2),
            toward: "client".into(),
            lasts: Some(Duration::from_millis(800)),
        });
        let plan = Plan::new("counter")
            .step(When::At(Duration::from_secs(1)), Action::Operation(watch.clone()))
            .step(When::At(Duration::from_secs(3)), Action::Fault(cut.clone()))
            .step(
                When::After(Trigger::milestone("counter.client.connected").nth(2)),
                Action::Fault(stall.clone()),
            );
        let mut record = Record::default();
        let s1 = Stream::from("s1");
        let (client, item) = (Some("client"), |n: u64| Content::from(n.to_string()));
        record.conn("client#1", Some(1));
        record.conn("client#2", Some(2));
        record.at(0, client, connected(1, 1));
        record.at(1000, client, EventKind::Stepped { step: 0, note: None });
        record.at(
            1000,
            client,
            EventKind::Asked { call: Call(1), operation: watch.into(), class: Class::Durable },
        );
        for n in 1..=40 {
            record.at(
                1000 + n * 50,
                Some("server"),
                EventKind::Produced { stream: s1.clone(), bytes: item(n) },
            );
            record.at(
                1002 + n * 49,
                client,
                EventKind::Delivered { stream: s1.clone(), bytes: item(n), generation: Some(1) },
            );
        }
        record.at(3000, None, EventKind::Stepped { step: 1, note: None });
        record.fault(3000, 0, 1, cut);
        let how = ConnEnd::Error(std::io::ErrorKind::ConnectionReset);
        record.at(
            3000,
            client,
            EventKind::ConnOver { conn: ConnIndex(0), side: Side::Client, how },
        );
        for n in 41..=60 {
            record.at(
                3000 + n,
                Some("server"),
                EventKind::Produced { stream: s1.clone(), bytes: item(n) },
            );
        }
        for n in 0..3 {
            let how = ConnEnd::NotOpened(std::io::ErrorKind::ConnectionRefused);
            record.at(
                3100 + n,
                client,
                EventKind::ConnOver { conn: ConnIndex(1), side: Side::Client, how },
            );
        }
        record.at(3400, None, EventKind::FaultEnded { fault: 0 });
        record.at(3412, client, connected(2, 2));
        record.at(3412, None, EventKind::Stepped { step: 2, note: None });
        record.fault(3412, 1, 2, stall);
        record.at(4212, None, EventKind::FaultEnded { fault: 1 });
        record.at(
            4231,
            client,
            EventKind::Delivered { stream: s1.clone(), bytes: item(42), generation: Some(2) },
        );
        record.at(
            4231,
            client,
            EventKind::StreamEnded {
                stream: s1.clone(),
                ending: Ending::Completed { outcome: "total 60".into() },
            },
        );
        let text = "item 42 was delivered after item 40; 41 never was (generation 2, at 4.231 s)";
        let broken = sample_violation("gap_free", &s1, Time(4231), text);
        (plan, record.0, vec![broken])
    }

    fn connected(generation: u64, conn: u64) -> EventKind {
        let fields = [("generation", generation), ("conn", conn)]
            .map(|(name, n)| (name, crate::schedule::MilestoneValue::Number(n)));
        EventKind::Milestone { name: "counter.client.connected", fields: fields.into() }
    }

    /// Builds a history by hand.
    #[derive(Default)]
    struct Record(History);

    impl Record {
        fn at(&mut self, at: u64, host: Option<&str>, what: EventKind) {
            self.0.end = Time(at);
            self.0.events.push(Event { at: Time(at), host: host.map(Into::into), what });
        }

        fn fault(&mut self, at: u64, fault: usize, step: usize, what: Fault) {
            self.at(
                at,
                None,
                EventKind::FaultBegan {
                    fault,
                    step,
                    what: what.into(),
                    scope: Box::default(),
                    nature: Nature::Kills,
                    in_flight: 0,
                },
            );
        }

        fn conn(&mut self, name: &str, generation: Option<u64>) {
            let (client, server) = ("client".into(), "server".into());
            let (opened, over) = (Time(0), (None, None));
            self.0.conns.push(Connection {
                generation,
                over,
                ..Connection::new(name.into(), client, server, opened)
            });
        }
    }

    /// Returns text without colours.
    pub(crate) fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_failure_shows_the_sentence_the_steps_and_the_violation() {
        let (plan, history, broken) = a_gap();
        let replay = "reknit replay scenarios/counter/cut.toml --seed 1";
        let story = StoryFailure {
            plan: &plan,
            history: &history,
            broken: &broken,
            origin: None,
            replay,
            picture: Some("target/reknit/cut.html"),
        };
        insta::assert_snapshot!(plain(&failure(&story, 110)), @r"
        FAIL  counter  gap_free
          s1: item 42 was delivered after item 40; 41 never was (generation 2, at 4.231 s)
          1 operation and 2 faults, seed 1

             0.000 s  client   counter.client.connected (generation 1) on client#1
             1.000 s  client   watch stream s1 (call 1)
             1.051 s  client   s1: items 1 to 40, until 2.962 s
             3.000 s  network  cut client#1: client learns at once, server after 400 ms
             3.000 s  client   client#1 (generation 1) is over: connection reset
             3.100 s  client   connections are over: not opened: connection refused, 3 times until 3.102 s
             3.400 s  network  over: cut client#1
             3.412 s  client   counter.client.connected (generation 2) on client#2
             3.412 s  network  stall client#2 toward client, 800 ms    after 2nd counter.client.connected
             4.212 s  network  over: stall client#2 toward client
             4.231 s  client   s1: item 42
             4.231 s  client   s1: completed, total 60
             4.231 s  BROKEN   gap_free of s1 is violated here

          replay   reknit replay scenarios/counter/cut.toml --seed 1
          picture  target/reknit/cut.html
        ");
    }

    #[test]
    fn the_whole_story_ends_with_the_verdict() {
        let (plan, history, _) = a_gap();
        let rendering = RenderOptions { until: Some(Time(1000)), ..RenderOptions::default() };
        insta::assert_snapshot!(plain(&run(&plan, &history, &[], rendering, 110)), @r"
        counter, 1 operation and 2 faults, seed 1

             0.000 s  client  counter.client.connected (generation 1) on client#1
             1.000 s  client  watch stream s1 (call 1)

          4.231 s, 0 segments, digest cbf29ce484222325
          all held
        ");
    }

    #[test]
    fn a_story_can_begin_later_and_be_brief() {
        let (plan, history, broken) = a_gap();
        let lines = |rendering| run(&plan, &history, &broken, rendering, 110).lines().count();
        let whole = lines(RenderOptions::default());
        let from = Some(Time(1000));
        assert_eq!(lines(RenderOptions { from, ..RenderOptions::default() }), whole - 1);
        assert!(lines(RenderOptions { brief: true, ..RenderOptions::default() }) < whole);
    }

    #[test]
    fn a_long_story_leaves_out_its_middle() {
        let (mut plan, mut history, broken) = a_gap();
        plan.steps.extend((0..100).map(|_| plan.steps[0].clone()).collect::<Vec<_>>());
        let steps = (0..100).map(|n| Event {
            at: Time(1500 + n),
            host: None,
            what: EventKind::Stepped { step: 3 + n as usize, note: None },
        });
        let (before, after): (Vec<_>, Vec<_>) =
            history.events.drain(..).partition(|event| event.at <= Time(1500));
        history.events = before.into_iter().chain(steps).chain(after).collect();
        let lines = short(&plan, &history, &broken);
        assert!(lines.len() < 50, "{} lines", lines.len());
        assert!(lines.iter().any(|line| line.text.ends_with("more lines: run the replay")));
        assert_eq!(lines.last().map(|line| line.tone), Some(Tone::Broken));
    }
}
