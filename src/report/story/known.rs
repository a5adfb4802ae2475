//! The story of a known failure: on a narrow and on a wide page, with and without colours.

use std::path::Path;

use super::tests::plain;
use super::*;
use crate::hunt::{JudgedRun, judge};
use crate::scenario::{Expect, ScenarioFile};
use crate::world::{Detail, Options};

/// Returns the story of a client that resumes one item too late, for a page of this width.
fn known_story(width: usize) -> String {
    let subjects = crate::subjects::built_in();
    let file = "scenarios/counter/return-before-and-after-session-expiry.toml";
    let mut plan = ScenarioFile::load(Path::new(file), &subjects).unwrap().plans().remove(0);
    plan.defects.push("resumes-one-too-late".into());
    let case = JudgedRun { subject: &subjects[0], plan: &plan, expect: &Expect::default() };
    let options = Options { detail: Detail::Full, ..Options::default() };
    let judged = judge(case, &options, |_| true).unwrap();
    let replay = format!("reknit replay {file} --seed 1 --defect resumes-one-too-late");
    let picture =
        Some("target/reknit/counter-gap-free-return-before-and-after-session-expiry-1.html");
    let (history, broken) = (&judged.history, &judged.broken);
    failure(
        &StoryFailure { plan: &plan, history, broken, origin: None, replay: &replay, picture },
        width,
    )
}

/// Replaces colour codes by readable text.
fn visible(text: &str) -> String {
    text.replace('\x1b', "␛")
}

#[test]
fn on_a_narrow_page() {
    insta::assert_snapshot!(plain(&known_story(80)), @r"
    FAIL  counter  gap_free
      s1: item 9 was delivered after item 7; 8 never was (generation 2, at 4.574 s)
      2 operations and 2 faults, seed 1, with defect resumes-one-too-late,
      client.back-off-max 100ms, server.session-lifetime 2s

         0.000 s  client   counter.client.recovering (generation 1)
         0.021 s  server   counter.server.attached (generation 1, resumed 0) on
                             client#1
         0.038 s  client   counter.client.connected (generation 1) on client#1
         1.000 s  client   watch stream s1 (call 1)
         1.255 s  client   s1: items 1 to 7, until 2.758 s
         3.000 s  network  cut client#1: client learns after 1.500 s, server at once
         3.000 s  server   client#1 (generation 1) is over at the server's end:
                             connection reset
         3.000 s  server   counter.server.detached (generation 1) on client#1
         4.500 s  network  over: cut client#1
         4.500 s  client   client#1 (generation 1) is over: connection reset
         4.500 s  client   counter.client.lost (generation 1, why broken: connection
                             reset) on client#1
         4.500 s  client   counter.client.recovering (generation 2)
         4.513 s  client   sends hello f0697ec92aef99d02944b6b1b4598493 2 2 on
                             client#2
         4.531 s  server   counter.server.attached (generation 2, resumed 1) on
                             client#2
         4.549 s  client   counter.client.connected (generation 2) on client#2
         4.549 s  client   counter.client.resumed (generation 2, streams 1) on
                             client#2
         4.549 s  client   sends watch s1 9 on client#2
         4.574 s  client   s1: items 9 to 14, until 4.574 s
         4.574 s  BROKEN   gap_free of s1 is violated here

      replay   reknit replay scenarios/counter/return-before-and-after-session-expiry.toml --seed 1 --defect resumes-one-too-late
      picture  target/reknit/counter-gap-free-return-before-and-after-session-expiry-1.html
    ");
}

#[test]
fn on_a_wide_page() {
    insta::assert_snapshot!(plain(&known_story(120)), @r"
    FAIL  counter  gap_free
      s1: item 9 was delivered after item 7; 8 never was (generation 2, at 4.574 s)
      2 operations and 2 faults, seed 1, with defect resumes-one-too-late, client.back-off-max 100ms,
      server.session-lifetime 2s

         0.000 s  client   counter.client.recovering (generation 1)
         0.021 s  server   counter.server.attached (generation 1, resumed 0) on client#1
         0.038 s  client   counter.client.connected (generation 1) on client#1
         1.000 s  client   watch stream s1 (call 1)
         1.255 s  client   s1: items 1 to 7, until 2.758 s
         3.000 s  network  cut client#1: client learns after 1.500 s, server at once
         3.000 s  server   client#1 (generation 1) is over at the server's end: connection reset
         3.000 s  server   counter.server.detached (generation 1) on client#1
         4.500 s  network  over: cut client#1
         4.500 s  client   client#1 (generation 1) is over: connection reset
         4.500 s  client   counter.client.lost (generation 1, why broken: connection reset) on client#1
         4.500 s  client   counter.client.recovering (generation 2)
         4.513 s  client   sends hello f0697ec92aef99d02944b6b1b4598493 2 2 on client#2
         4.531 s  server   counter.server.attached (generation 2, resumed 1) on client#2
         4.549 s  client   counter.client.connected (generation 2) on client#2
         4.549 s  client   counter.client.resumed (generation 2, streams 1) on client#2
         4.549 s  client   sends watch s1 9 on client#2
         4.574 s  client   s1: items 9 to 14, until 4.574 s
         4.574 s  BROKEN   gap_free of s1 is violated here

      replay   reknit replay scenarios/counter/return-before-and-after-session-expiry.toml --seed 1 --defect resumes-one-too-late
      picture  target/reknit/counter-gap-free-return-before-and-after-session-expiry-1.html
    ");
}

#[test]
fn on_a_narrow_page_with_colours() {
    insta::assert_snapshot!(visible(&known_story(80)), @r"
    ␛[1m␛[31mFAIL␛[0m  counter  gap_free
      s1: item 9 was delivered after item 7; 8 never was (generation 2, at 4.574 s)
      2 operations and 2 faults, seed 1, with defect resumes-one-too-late,
      client.back-off-max 100ms, server.session-lifetime 2s

         0.000 s  client   counter.client.recovering (generation 1)
         0.021 s  server   counter.server.attached (generation 1, resumed 0) on
                             client#1
         0.038 s  client   counter.client.connected (generation 1) on client#1
         1.000 s  client   ␛[36mwatch stream s1 (call 1)␛[0m
         1.255 s  client   s1: items 1 to 7, until 2.758 s
         3.000 s  network  ␛[36mcut client#1: client learns after 1.500 s, server at once␛[0m
         3.000 s  server   ␛[33mclient#1 (generation 1) is over at the server's end:␛[0m
                             ␛[33mconnection reset␛[0m
         3.000 s  server   counter.server.detached (generation 1) on client#1
         4.500 s  network  ␛[36mover: cut client#1␛[0m
         4.500 s  client   ␛[33mclient#1 (generation 1) is over: connection reset␛[0m
         4.500 s  client   counter.client.lost (generation 1, why broken: connection
                             reset) on client#1
         4.500 s  client   counter.client.recovering (generation 2)
         4.513 s  client   sends hello f0697ec92aef99d02944b6b1b4598493 2 2 on
                             client#2
         4.531 s  server   counter.server.attached (generation 2, resumed 1) on
                             client#2
         4.549 s  client   counter.client.connected (generation 2) on client#2
         4.549 s  client   counter.client.resumed (generation 2, streams 1) on
                             client#2
         4.549 s  client   sends watch s1 9 on client#2
         4.574 s  client   s1: items 9 to 14, until 4.574 s
         4.574 s  BROKEN   ␛[1m␛[31mgap_free of s1 is violated here␛[0m

      replay   reknit replay scenarios/counter/return-before-and-after-session-expiry.toml --seed 1 --defect resumes-one-too-late
      picture  target/reknit/counter-gap-free-return-before-and-after-session-expiry-1.html
    ");
}

#[test]
fn on_a_wide_page_with_colours() {
    insta::assert_snapshot!(visible(&known_story(120)), @r"
    ␛[1m␛[31mFAIL␛[0m  counter  gap_free
      s1: item 9 was delivered after item 7; 8 never was (generation 2, at 4.574 s)
      2 operations and 2 faults, seed 1, with defect resumes-one-too-late, client.back-off-max 100ms,
      server.session-lifetime 2s

         0.000 s  client   counter.client.recovering (generation 1)
         0.021 s  server   counter.server.attached (generation 1, resumed 0) on client#1
         0.038 s  client   counter.client.connected (generation 1) on client#1
         1.000 s  client   ␛[36mwatch stream s1 (call 1)␛[0m
         1.255 s  client   s1: items 1 to 7, until 2.758 s
         3.000 s  network  ␛[36mcut client#1: client learns after 1.500 s, server at once␛[0m
         3.000 s  server   ␛[33mclient#1 (generation 1) is over at the server's end: connection reset␛[0m
         3.000 s  server   counter.server.detached (generation 1) on client#1
         4.500 s  network  ␛[36mover: cut client#1␛[0m
         4.500 s  client   ␛[33mclient#1 (generation 1) is over: connection reset␛[0m
         4.500 s  client   counter.client.lost (generation 1, why broken: connection reset) on client#1
         4.500 s  client   counter.client.recovering (generation 2)
         4.513 s  client   sends hello f0697ec92aef99d02944b6b1b4598493 2 2 on client#2
         4.531 s  server   counter.server.attached (generation 2, resumed 1) on client#2
         4.549 s  client   counter.client.connected (generation 2) on client#2
         4.549 s  client   counter.client.resumed (generation 2, streams 1) on client#2
         4.549 s  client   sends watch s1 9 on client#2
         4.574 s  client   s1: items 9 to 14, until 4.574 s
         4.574 s  BROKEN   ␛[1m␛[31mgap_free of s1 is violated here␛[0m

      replay   reknit replay scenarios/counter/return-before-and-after-session-expiry.toml --seed 1 --defect resumes-one-too-late
      picture  target/reknit/counter-gap-free-return-before-and-after-session-expiry-1.html
    ");
}

#[test]
fn only_commands_are_wider_than_the_page() {
    for width in [80, 120] {
        let story = plain(&known_story(width));
        let lines = story
            .lines()
            .filter(|line| !line.starts_with("  replay ") && !line.starts_with("  picture "));
        assert!(lines.clone().count() > 10);
        lines.for_each(|line| assert!(line.chars().count() <= width, "{line}"));
    }
}
