use std::time::Duration;

use bytes::Bytes;
use reknit_resume::Bounds;

use super::super::log::CommandLog;
use super::*;
use crate::wire::{Ending, Epoch, OutputStream};

const SECOND: Duration = Duration::from_secs(1);

fn id(text: &str) -> CommandId {
    text.parse().unwrap()
}

fn registry(limits: ServerLimits) -> Registry {
    Registry::new(limits)
}

fn start(registry: &mut Registry, name: &str, command: &str) -> Result<Started, Refusal> {
    let bounds = Bounds { items: 9, weight: 9999 };
    let log = CommandLog::new(Epoch(1), bounds);
    let create = || Command::new(log, None, 0, Instant::now());
    registry.start(id(name), RunCommand::shell(command), false, create)
}

/// Starts a command that ends at `at`, with `output` bytes of output.
fn ended(registry: &mut Registry, name: &str, at: Instant, output: usize) {
    let Ok(Started::New(running)) = start(registry, name, "ls") else { panic!("{name}") };
    running.change(|command| {
        command.output(0, OutputStream::Stdout, Bytes::from(vec![b'x'; output]));
        command.end(0, Ending::Exited(3), at);
    });
}

#[test]
fn a_repeated_start_finds_the_command() {
    let mut registry = registry(ServerLimits::default());
    let Ok(Started::New(first)) = start(&mut registry, "a", "ls") else { panic!() };
    let Ok(Started::Known(again)) = start(&mut registry, "a", "ls") else { panic!() };
    assert!(Arc::ptr_eq(&first, &again));
    assert_eq!(start(&mut registry, "a", "rm").err(), Some(Refusal::IdInUse(id("a"))));
    assert_eq!(registry.running(), 1);
}

#[test]
fn a_repeated_start_does_not_run_a_forgotten_command_again() {
    let now = Instant::now();
    let limits = ServerLimits::default();
    let mut registry = registry(limits);
    ended(&mut registry, "a", now, 1);
    registry.sweep(now + limits.ended_retention);
    assert_eq!(start(&mut registry, "a", "ls").err(), Some(Refusal::Expired(id("a"))));
    assert_eq!(registry.find(&id("a")).err(), Some(Refusal::Expired(id("a"))));
    let status = registry.status(&id("a")).unwrap();
    assert_eq!((status.exit_code, status.content.as_str()), (Some(3), ""));
    assert_eq!(registry.find(&id("b")).err(), Some(Refusal::UnknownCommand(id("b"))));
}

#[test]
fn a_start_that_continues_an_unknown_command_does_not_run_it() {
    let mut registry = registry(ServerLimits::default());
    let started = registry.start(id("a"), RunCommand::shell("ls"), true, || panic!("it runs"));
    assert_eq!(started.err(), Some(Refusal::UnknownCommand(id("a"))));
    assert_eq!(registry.len(), 0);
}

#[test]
fn running_commands_are_bounded_and_an_ended_one_makes_room() {
    let mut registry = registry(ServerLimits { running_commands: 2, ..Default::default() });
    for name in ["a", "b"] {
        start(&mut registry, name, "ls").unwrap();
    }
    assert_eq!(start(&mut registry, "c", "ls").err(), Some(Refusal::TooMany("running commands")));
    let running = registry.find(&id("a")).unwrap();
    running.change(|command| command.end(0, Ending::Exited(0), Instant::now()));
    assert!(matches!(start(&mut registry, "c", "ls"), Ok(Started::New(_))));
    assert!(matches!(start(&mut registry, "b", "ls"), Ok(Started::Known(_))), "it needs no room");
}

#[test]
fn the_retention_counts_from_the_ending() {
    let now = Instant::now();
    let limits = ServerLimits { ended_retention: 5 * SECOND, ..Default::default() };
    let mut registry = registry(limits);
    start(&mut registry, "running", "ls").unwrap();
    ended(&mut registry, "a", now + SECOND, 1);
    ended(&mut registry, "b", now + 3 * SECOND, 1);
    assert_eq!(registry.sweep(now + 5 * SECOND), Some(now + 6 * SECOND));
    assert_eq!(registry.len(), 3);
    assert_eq!(registry.sweep(now + 6 * SECOND), Some(now + 8 * SECOND));
    assert_eq!(registry.len(), 2);
    assert_eq!(registry.sweep(now + 99 * SECOND), None, "a running command is kept");
    assert_eq!(registry.len(), 1);
}

#[test]
fn the_logs_that_ended_first_make_room() {
    let now = Instant::now();
    let limits = ServerLimits { ended_commands: 2, ended_bytes: 1000, ..Default::default() };
    let mut registry = registry(limits);
    ended(&mut registry, "b", now, 1);
    ended(&mut registry, "a", now + SECOND, 1);
    ended(&mut registry, "c", now + 2 * SECOND, 1);
    registry.sweep(now + 2 * SECOND);
    assert_eq!(registry.find(&id("b")).err(), Some(Refusal::Expired(id("b"))));
    ended(&mut registry, "d", now + 3 * SECOND, 800);
    registry.sweep(now + 3 * SECOND);
    assert_eq!(registry.commands.keys().map(CommandId::as_str).collect::<Vec<_>>(), ["d"]);
    assert!(registry.census().1 <= limits.ended_bytes);
}

#[tokio::test]
async fn forgetting_a_command_ends_its_task() {
    let now = Instant::now();
    let limits = ServerLimits::default();
    let mut registry = registry(limits);
    ended(&mut registry, "a", now, 1);
    let task = tokio::spawn(std::future::pending::<()>());
    registry.find(&id("a")).unwrap().own(task.abort_handle());
    registry.sweep(now + limits.ended_retention);
    assert!(task.await.unwrap_err().is_cancelled());
}
