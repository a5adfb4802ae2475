//! The command as a function, from arguments to output and exit status.

use super::*;
use crate::history::Class;
use crate::property::Guarantees;
use crate::schedule::{Limit, LimitProfile, LimitValue, Limits, Plan};
use crate::subject::{
    DefectDoc, HostContext, MilestoneDoc, OperationQueue, Operations, PointDoc, Rule, Subject,
};

mod lines;

/// A subject with a row in each table, whose hosts do nothing.
struct SilentSubject;

/// The operations of its user.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Ask {
    /// Say nothing.
    Mumble {
        /// How loudly.
        volume: u64,
        /// To whom.
        to: Option<String>,
    },
}

impl Operations for Ask {
    fn class(&self) -> Class {
        Class::Durable
    }

    fn strategy(_: &Plan) -> proptest::strategy::BoxedStrategy<Self> {
        use proptest::strategy::{Just, Strategy};
        Just(Ask::Mumble { volume: 0, to: None }).boxed()
    }
}

impl Subject for SilentSubject {
    type Operation = Ask;

    fn name(&self) -> &'static str {
        "mute"
    }

    fn description(&self) -> &'static str {
        "a protocol without any message"
    }

    fn limits(&self) -> &'static [Limit] {
        const PATIENCE: Limit = Limit {
            name: "client.patience",
            default: LimitValue::secs(25),
            least: LimitValue::millis(1),
            doc: "How long it waits.",
        };
        &[PATIENCE]
    }

    fn limit_profiles(&self) -> &'static [LimitProfile] {
        const HASTY: LimitProfile = LimitProfile {
            name: "hasty",
            doc: "For people in a hurry.",
            values: &[("client.patience", LimitValue::secs(2))],
        };
        &[HASTY]
    }

    fn milestones(&self) -> &'static [MilestoneDoc] {
        &[MilestoneDoc {
            name: "mute.client.silent",
            fields: &["generation"],
            doc: "Nothing was said.",
            only: None,
        }]
    }

    fn points(&self) -> &'static [PointDoc] {
        &[PointDoc { name: "mute.server.unlocked", doc: "After the lock.", defect: Some("talks") }]
    }

    fn defects(&self) -> &'static [DefectDoc] {
        &[DefectDoc {
            rust: "Talks",
            name: "talks",
            doc: "Says something.",
            breaks: &["gap_free"],
            source: "a talk show",
        }]
    }

    fn rules(&self) -> &'static [Rule] {
        &[Rule { id: "mute.silence", doc: "Nothing is said.", source: "a monastery" }]
    }

    async fn serve(&self, _: HostContext) {}

    async fn drive(&self, _: HostContext, _: OperationQueue<Ask>) {}

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees::default()
    }
}

/// The output and exit status of a command.
#[derive(Debug, Default)]
struct Done {
    out: String,
    err: String,
    status: u8,
}

fn command(line: &str) -> Done {
    command_reading(line, "")
}

fn command_reading(line: &str, input: &str) -> Done {
    let subjects: Vec<Arc<dyn DynSubject>> = vec![Arc::new(SilentSubject)];
    let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), input.as_bytes());
    let mut page = Page::of_test(&mut out, &mut err, &mut input, 80);
    let args: Vec<OsString> =
        std::iter::once("reknit").chain(line.split_whitespace()).map(OsString::from).collect();
    let status = act(&args, &subjects, &mut page);
    let text = |bytes| anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string();
    Done { out: text(out), err: text(err), status }
}

/// Runs a command that must fail with status 2 and print only one line, on standard error. Returns
/// this line.
fn mistake(line: &str) -> String {
    let Done { out, err, status } = command(line);
    assert_eq!((out.as_str(), status, err.lines().count()), ("", 2, 1), "{line}: {err}");
    err.trim_end().to_owned()
}

#[test]
fn a_command_line_error_is_one_line_with_a_fix() {
    let mistakes = [
        "",
        "ru",
        "run --sed 3",
        "run --seeds 0",
        "run --seeds many",
        "run --seeds -1",
        "run --seed -1",
        "run --seeds 18446744073709551615",
        "run --engine steam",
        "run --engine turmoil --tick 0ms",
        "run --engine turmoil --tick 5",
        "run --tick 5ms",
        "replay a.toml --engine event --tick 5ms",
        "replay",
        "replay a.toml b.toml",
        "diff",
        "hunt mute -1",
        "hunt mute --bogus",
        "check a.toml --seeds 3",
        "diff a.toml --seed-c 2",
        "diff no/such/file.toml",
        "new",
        "new mut",
        "list limit",
        "list limits muet",
        "hunt mute --set profile=hasti",
        "run no/such/file.toml",
        "replay no/such/file.toml --until soon",
    ]
    .map(|line| format!("{line:<40} {}\n", mistake(line)));
    insta::assert_snapshot!(mistakes.concat(), @r"
                                             reknit: name a command: run, hunt, sweep, replay, shrink, keep, defects, check, new, diff or list; --help says what each does
    ru                                       reknit: unrecognized subcommand 'ru'; a similar subcommand exists: 'run'
    run --sed 3                              reknit: unexpected argument '--sed' found; a similar argument exists: '--seed'
    run --seeds 0                            reknit: invalid value '0' for '--seeds <N>': write a whole number from 1 to 100000; a hunt runs more
    run --seeds many                         reknit: invalid value 'many' for '--seeds <N>': write a whole number from 1 to 100000; a hunt runs more
    run --seeds -1                           reknit: invalid value '-1' for '--seeds <N>': write a whole number from 1 to 100000; a hunt runs more
    run --seed -1                            reknit: invalid value '-1' for '--seed <S>': write a whole number below 2^64
    run --seeds 18446744073709551615         reknit: invalid value '18446744073709551615' for '--seeds <N>': write a whole number from 1 to 100000; a hunt runs more
    run --engine steam                       reknit: invalid value 'steam' for '--engine <ENGINE>' [possible values: event, turmoil]
    run --engine turmoil --tick 0ms          reknit: invalid value '0ms' for '--tick <TIME>': a tick must be from `1ms` to `1s` long
    run --engine turmoil --tick 5            reknit: invalid value '5' for '--tick <TIME>': `5` is not a duration; write a whole number and a unit, like `25s`, `50ms`, `3m` or `1h`
    run --tick 5ms                           reknit: the event engine has no ticks; `--tick` needs `--engine turmoil`
    replay a.toml --engine event --tick 5ms  reknit: the event engine has no ticks; `--tick` needs `--engine turmoil`
    replay                                   reknit: the following required arguments were not provided: <FILE>
    replay a.toml b.toml                     reknit: unexpected argument 'b.toml' found
    diff                                     reknit: the following required arguments were not provided: <A>
    hunt mute -1                             reknit: unexpected argument '-1' found
    hunt mute --bogus                        reknit: unexpected argument '--bogus' found
    check a.toml --seeds 3                   reknit: unexpected argument '--seeds' found
    diff a.toml --seed-c 2                   reknit: unexpected argument '--seed-c' found; a similar argument exists: '--seed-b'
    diff no/such/file.toml                   reknit: no/such/file.toml: there is no such file; `reknit new SUBJECT` writes one to begin with
    new                                      reknit: the following required arguments were not provided: <SUBJECT>
    new mut                                  reknit: `mut` is not a subject; did you mean `mute`?
    list limit                               reknit: invalid value 'limit' for '[WHAT]' [possible values: subjects, faults, limits, profiles, milestones, points, defects, variants, rules, properties, operations, schema]; a similar value exists: 'limits'
    list limits muet                         reknit: `muet` is not a subject; did you mean `mute`?
    hunt mute --set profile=hasti            reknit: `hasti` is not a profile of limits of mute; did you mean `hasty`?
    run no/such/file.toml                    reknit: no/such/file.toml: there is no such file; `reknit new SUBJECT` writes one to begin with
    replay no/such/file.toml --until soon    reknit: --until soon: `soon` is not a duration; write a whole number and a unit, like `25s`, `50ms`, `3m` or `1h`
    ");
}

#[test]
fn a_folder_without_scenarios_is_a_mistake() {
    let folder = std::env::temp_dir().join(format!("reknit-empty-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let rendered = mistake(&format!("check {}", folder.display()));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(rendered.ends_with("no scenario file (*.toml) in this folder"), "{rendered}");
}

#[test]
fn help_is_not_an_error() {
    for line in ["--help", "help run", "run --help", "--version"] {
        let Done { out, err, status } = command(line);
        assert_eq!((err.as_str(), status), ("", 0), "{line}");
        assert!(!out.is_empty(), "{line}");
    }
}

#[test]
fn every_list_shows_its_table() {
    let lists = [
        "subjects",
        "limits",
        "profiles",
        "milestones",
        "points",
        "defects",
        "rules",
        "operations",
    ];
    let rendered =
        lists.map(|what| format!("-- {what}\n{}", command(&format!("list {what} mute")).out));
    insta::assert_snapshot!(rendered.concat(), @r"
    -- subjects
    mute  a protocol without any message
    -- limits
    client.patience  25s, at least 1ms. How long it waits.
                     2s in the profile hasty
    -- profiles
    hasty  For people in a hurry.
           · client.patience: 2s
    -- milestones
    mute.client.silent  Nothing was said.
                        fields: generation
    -- points
    mute.server.unlocked  After the lock.
                          only with talks
    -- defects
    talks  Says something.
           breaks gap_free
           a talk show
    -- rules
    mute.silence  Nothing is said.
                  a monastery
    -- operations
    mumble  Say nothing.
            · volume: How loudly.
            · to: To whom. (optional)
    ");
}

#[test]
fn a_list_without_a_kind_shows_the_kinds() {
    let Done { out, status, .. } = command("list");
    assert_eq!(status, 0);
    for what in [
        "subjects",
        "faults",
        "limits",
        "milestones",
        "points",
        "defects",
        "rules",
        "properties",
        "operations",
    ] {
        assert!(out.lines().any(|line| line.starts_with(what)), "{what}");
    }
}

#[test]
fn every_fault_and_every_property_is_listed() {
    let faults = command("list faults").out;
    for word in crate::schedule::faults::WORDS {
        assert!(
            faults.lines().any(|line| line.starts_with(&format!("{} ", word.name))),
            "{}",
            word.name
        );
    }
    let properties = command("list properties").out;
    assert!(crate::property::list(&[]).all(|(name, _)| properties.contains(name)));
    assert!(properties.contains("same_digest"));
}

#[test]
fn no_list_is_wider_than_the_page() {
    for what in ["faults", "properties", "limits"] {
        let long =
            command(&format!("list {what}")).out.lines().map(|line| line.chars().count()).max();
        assert!(long <= Some(80), "{what}: {long:?}");
    }
}

/// An output whose reader closed the pipe.
struct ClosedPipe;

impl std::io::Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut err = Vec::new();
    let (mut gone, mut input) = (ClosedPipe, std::io::empty());
    let mut page = Page::of_test(&mut gone, &mut err, &mut input, 80);
    assert_eq!(page.print("one"), Ok(()));
    assert_eq!(page.print("two"), Ok(()));
    assert!(page.closed);
    assert!(err.is_empty());
}

#[test]
fn a_starter_passes_its_own_check() {
    let starter = command("new mute");
    assert_eq!(starter.status, 0);
    let checked = command_reading("check -", &starter.out);
    assert_eq!(
        (checked.err.as_str(), checked.out.as_str(), checked.status),
        ("", "1 scenario file: no mistake\n", 0)
    );
}

#[test]
fn the_schema_of_all_subjects_is_listed() {
    let Done { out, status, .. } = command("list schema");
    let schema: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &schema["title"]), (0, &"A reknit scenario".into()));
}

#[test]
fn a_file_cannot_have_more_runs_than_memory_holds() {
    let file = "format = 1\nsubject = \"mute\"\ntitle = \"t\"\nseeds = 18446744073709551615\n";
    let checked = command_reading("check -", file);
    assert_eq!(checked.status, 2);
    assert!(checked.err.contains("`seeds` must be at most 100000"), "{}", checked.err);
}

#[test]
fn a_file_is_extracted_from_a_log() {
    let starter = command("new mute").out;
    let log = format!("a line of the log\n{}another\n", crate::report::envelope::seal(&starter));
    assert_eq!(command_reading("check -", &log).status, 0);
    let broken = command_reading("check -", "format = 1\nsubject = \"mute\"\nsteep = 3\n");
    assert_eq!((broken.status, broken.err.lines().count()), (2, 1));
    assert!(broken.err.starts_with("reknit: -:3:1: "), "{}", broken.err);
}

#[test]
fn a_run_is_drawn_into_the_named_file() {
    let out = std::env::temp_dir().join(format!("reknit-drawn-{}.html", std::process::id()));
    let starter = command("new mute").out;
    let Done { out: rendered, err, status } =
        command_reading(&format!("replay - --seed 3 --html {}", out.display()), &starter);
    let page = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert_eq!((err.as_str(), status), ("", 0));
    assert!(rendered.ends_with(&format!("\n  picture  {}\n", out.display())), "{rendered}");
    assert!(
        page.contains("<code>reknit replay - --seed 3</code>") && page.contains("all held"),
        "{page}"
    );
}

#[test]
fn a_picture_that_cannot_be_written_is_a_mistake() {
    let starter = command("new mute").out;
    let Done { out, err, status } = command_reading("replay - --html /dev/null/x.html", &starter);
    assert_eq!((out.as_str(), status, err.lines().count()), ("", 2, 1), "{err}");
    assert!(err.starts_with("reknit: /dev/null/x.html: this file cannot be written: "), "{err}");
    assert!(err.ends_with("; name another one with --html\n"), "{err}");
}

#[test]
fn a_run_is_compared_with_its_snapshot() {
    let folder = std::env::temp_dir().join(format!("reknit-snapshots-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("quiet.toml");
    let scenario =
        "format = 1\nsubject = \"mute\"\ntitle = \"Nothing happens\"\nhorizon = \"1s\"\n";
    std::fs::write(&file, scenario).unwrap();
    let run = format!("run {}", file.display());
    let taken = command(&format!("{run} --update-snapshots"));
    let snapshot = folder.join("snapshots/quiet.txt");
    let text = std::fs::read_to_string(&snapshot).unwrap();
    let same = command(&run);
    std::fs::write(&snapshot, format!("{text}client call 9 mumble: done at 1 s\n")).unwrap();
    let changed = command(&run);
    let updated = command(&format!("{run} --update-snapshots"));
    let again = std::fs::read_to_string(&snapshot).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!((taken.status, same.status, changed.status, updated.status), (0, 0, 1, 0));
    assert!(changed.out.contains("CHANGED: line "), "{}", changed.out);
    assert_eq!(again, text);
}

#[test]
fn a_snapshot_is_taken_only_of_the_files_own_run() {
    let done = command("run --update-snapshots --defect talks");
    assert_eq!((done.status, done.out.as_str()), (2, ""));
    assert!(done.err.contains("--update-snapshots"), "{}", done.err);
}
