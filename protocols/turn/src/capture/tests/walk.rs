//! Random schedules. A seed gives one schedule, so a failure can be repeated.

use super::*;

/// How many schedules there are.
const SEEDS: u64 = 1000;

/// A small generator of random numbers (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// A short, a long, or no pause.
    fn pause(&mut self) -> Duration {
        match self.below(8) {
            0..=3 => Duration::ZERO,
            4 | 5 => self.below(300) as u32 * MS,
            6 => self.below(20) as u32 * S,
            _ => self.below(700) as u32 * S,
        }
    }

    /// Does one random thing to a capture.
    fn step(&mut self, test: &mut CaptureTest) {
        let thread = self.of(&["t", "t", "t", "s", "s2", "other"]);
        let turn = match thread {
            "t" => self.of(&["u", "u", "u", "old", "inner"]),
            "other" => "o",
            _ => self.of(&["v", "w"]),
        };
        let root = self.of(&["u", "u", "", "old"]);
        let item = self.item();
        match self.below(24) {
            0..=6 => test.item_started(thread, turn, &item),
            7..=13 => test.item_completed(thread, turn, &item),
            14 | 15 => test.turn_started(thread, turn, root),
            16 => {
                let status = self.of(&["completed", "completed", "failed", "interrupted", "new"]);
                test.turn_completed(thread, turn, root, status);
            }
            17 => test.error("e", self.below(2) == 0),
            18 => test.thread_status(thread, self.of(&["active", "idle", "notLoaded"])),
            19 => test.notify("warning", json!({ "threadId": thread })),
            20 => test.notify(
                "thread/started",
                json!({ "thread": { "id": thread, "parentThreadId": "t" } }),
            ),
            21 => test.handle(Input::Unreadable),
            22 => test.answer_with(self.of(&[r#"{"turn":{"id":"u"}}"#, "{}"]).parse().unwrap()),
            _ => self.rare_step(test),
        }
    }

    fn rare_step(&mut self, test: &mut CaptureTest) {
        match self.below(6) {
            0 => test.handle(Input::Cancel),
            1 => test.end(),
            2 => test.handle(Input::NoAnswer),
            3 => test.handle(Input::Refused { code: -32001, message: "busy".into() }),
            _ => test.answer("u"),
        }
    }

    fn item(&mut self) -> Value {
        let id = self.of(&["a", "b", "c"]);
        match self.below(8) {
            0 | 1 => message(self.of(&["text", ""]), Some("final_answer")),
            2 => message("text", self.of(&[None, Some("commentary"), Some("new")])),
            3 => command(id),
            4 => edit(id),
            5 => agents(id, "wait", self.of(&[&[], &["s"], &["s2"]])),
            6 => json!({ "type": "exitedReviewMode", "id": "x", "review": "r" }),
            _ => json!({ "type": "new", "id": id }),
        }
    }
}

fn schedule(seed: u64) -> (Draw, CaptureTest) {
    let mut draw = Draw(seed);
    let kind = draw.of(&[TurnKind::Task, TurnKind::Task, TurnKind::Review]);
    let mut test = CaptureTest::new(kind, TurnLimits::default());
    if draw.below(4) > 0 {
        test.answer("u");
    }
    (draw, test)
}

#[test]
fn each_turn_gets_one_verdict_by_the_absolute_deadline() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..SEEDS {
        let (mut draw, mut test) = schedule(seed);
        let mut verdict = None;
        let steps = draw.below(60);
        for _ in 0..steps {
            draw.step(&mut test);
            let pause = draw.pause();
            test.wait(pause);
            let now = test.capture.verdict().cloned();
            assert!(verdict.is_none() || verdict == now, "seed {seed}: {verdict:?}, then {now:?}");
            verdict = now;
        }
        test.wait(3600 * S);
        let decided = test.decided.unwrap_or_else(|| panic!("seed {seed}: no verdict"));
        assert!(decided <= 1_800_000, "seed {seed}: {}", test.outcome());
        assert!(test.capture.is_over(), "seed {seed}: {}", test.outcome());
        assert!(test.interrupts.len() <= 1, "seed {seed}: {}", test.outcome());
        let outcome = test.outcome();
        seen.insert(outcome.split([' ', '{']).next().unwrap_or_default().to_owned());
        check_report(seed, test);
    }
    for kind in [
        "Completed(Reported)",
        "Completed(Silence)",
        "Completed(EndOfServer)",
        "Failed(Turn",
        "Failed(Error",
        "Failed(UnknownStatus",
        "Failed(Disconnected",
        "Failed(Idle(600s))",
        "Failed(TooLong(1800s))",
        "Failed(Refused",
        "Failed(NoAnswer)",
        "Failed(NoTurnId)",
        "Interrupted(Cancelled)",
        "Interrupted(CancelledUnconfirmed)",
        "Interrupted(Other)",
    ] {
        assert!(seen.contains(kind), "no schedule ended with {kind}: {seen:?}");
    }
}

fn check_report(seed: u64, test: CaptureTest) {
    let is_complete = matches!(test.capture.verdict(), Some(Verdict::Completed(_)));
    let report = test.report();
    assert_eq!(report.exit_status() == 0, is_complete, "seed {seed}");
    let is_inferred =
        matches!(report.verdict, Verdict::Completed(Evidence::Silence | Evidence::EndOfServer));
    assert!(!is_inferred || report.answer.is_some(), "seed {seed}: a success without an answer");
}

/// One line of the server in a whole turn: method, thread, turn, and the item or the status.
type Line = (&'static str, &'static str, &'static str, Value);

/// A turn with a comment, a command, a subagent and an answer.
fn whole_turn() -> Vec<Line> {
    let item = |method, thread, turn, item| -> Line { (method, thread, turn, item) };
    vec![
        item("turn/started", "t", "u", json!("inProgress")),
        item("item/completed", "t", "u", message("I will look", Some("plan"))),
        item("item/started", "t", "u", command("c")),
        item("item/completed", "t", "u", command("c")),
        item("item/started", "t", "u", agents("a", "spawnAgent", &[])),
        item("item/completed", "t", "u", agents("a", "spawnAgent", &["s"])),
        item("turn/started", "s", "v", json!("inProgress")),
        item("item/completed", "t", "u", message("the answer", Some("final_answer"))),
        item("item/completed", "s", "v", message("sub", Some("final_answer"))),
        item("turn/completed", "s", "v", json!("completed")),
        item("turn/completed", "t", "u", json!("completed")),
    ]
}

/// The verdict if the server ends after this many lines.
fn at_the_end(lines: usize) -> &'static str {
    match lines {
        0..=9 => r#"Failed(Disconnected { why: "gone" })"#,
        10 => "Completed(EndOfServer)",
        _ => "Completed(Reported)",
    }
}

#[test]
fn the_end_of_the_server_at_each_line_gives_the_verdict_of_the_rule() {
    let turn = whole_turn();
    for answered_after in 0..=turn.len() {
        for cut in answered_after..=turn.len() {
            let mut test = CaptureTest::starting();
            for (at, (method, thread, turn, content)) in turn[..cut].iter().enumerate() {
                if at == answered_after {
                    test.answer("u");
                }
                match content {
                    Value::String(status) => {
                        test.notify(method, turn_params(thread, turn, "u", status));
                    }
                    item => test.notify(
                        method,
                        json!({ "threadId": thread, "turnId": turn, "item": item }),
                    ),
                }
            }
            test.end();
            let expected = format!("{} at 0 ms", at_the_end(cut));
            assert_eq!(
                test.outcome(),
                expected,
                "answered after {answered_after}, cut after {cut}"
            );
        }
    }
}

/// A server that follows the rules. It knows the verdict for its end at each line.
#[derive(Default)]
struct ServerModel {
    is_answered: bool,
    open: Vec<&'static str>,
    working: bool,
    turns: u64,
}

impl ServerModel {
    fn expected(&self) -> &'static str {
        if self.is_answered && self.open.is_empty() && !self.working {
            "Completed(EndOfServer) at 0 ms"
        } else {
            r#"Failed(Disconnected { why: "gone" }) at 0 ms"#
        }
    }

    fn step(&mut self, draw: &mut Draw, test: &mut CaptureTest) {
        let id = draw.of(&["a", "b", "c"]);
        let is_open = self.open.contains(&id);
        let turn = |turns| format!("v{turns}");
        match draw.below(8) {
            0 => test.message("text", draw.of(&[None, Some("commentary")])),
            1 => test.message("", Some("final_answer")),
            2 => {
                test.message("text", Some("final_answer"));
                self.is_answered = true;
            }
            3 | 4 if is_open => {
                test.item_completed("t", "u", &command(id));
                self.open.retain(|open| *open != id);
            }
            3 => {
                test.item_started("t", "u", &command(id));
                self.open.push(id);
            }
            5 if self.working => {
                test.turn_completed("s", &turn(self.turns), "u", "completed");
                self.working = false;
            }
            5 => {
                self.turns += 1;
                test.turn_started("s", &turn(self.turns), "u");
                self.working = true;
            }
            6 => test.turn_completed("t", "old", "old", "failed"),
            _ => test.item_completed("s", &turn(self.turns), &edit("/f")),
        }
    }
}

#[test]
fn the_end_of_the_server_anywhere_gives_the_verdict_of_the_rule() {
    for seed in 0..100 {
        for cut in 0..25 {
            let (mut draw, mut test) = (Draw(seed), CaptureTest::running());
            let mut server = ServerModel::default();
            for _ in 0..cut {
                server.step(&mut draw, &mut test);
            }
            test.end();
            assert_eq!(test.outcome(), server.expected(), "seed {seed}, cut after {cut}");
        }
    }
}
