//! Files with mistakes, and the one line that each prints.

use super::*;

/// The text after [`HEAD`], which has three lines, and the line that is printed.
const BROKEN: &[(&str, &str)] = &[
    // -- keys, types and units
    ("subjct = 1", "f.toml:4:1: `subjct` is not a key of a scenario file; did you mean `subject`?"),
    ("seeds = 0", "f.toml:4:9: `seeds` must be a whole number from 1, not 0"),
    (r#"seeds = "3""#, "f.toml:4:9: `seeds` must be a whole number from 1, not a string"),
    ("horizon = 25", r#"f.toml:4:11: `horizon` must be a duration like `"25s"`, not a number"#),
    (r#"horizon = "25 s""#, "f.toml:4:11: `25 s` is not a duration; write `25s`"),
    (
        r#"latency = "20ms..1ms""#,
        "f.toml:4:11: the range `20ms..1ms` is in descending order; write `1ms..20ms`",
    ),
    (r#"order = "bth""#, "f.toml:4:9: `bth` is not a value of `order`; did you mean `both`?"),
    (
        r#"engines = ["evnt"]"#,
        "f.toml:4:12: `evnt` is not a value of `engines`; did you mean `event`?",
    ),
    (r#"engines-because = "x""#, "f.toml:4:1: `engines-because` needs `engines`; add `engines`"),
    (
        r#"source = ["ferry.detach-own"]"#,
        "f.toml:4:11: `ferry.detach-own` is not a rule of ferry; did you mean `ferry.detach-own-only`?",
    ),
    (
        r#"kills = ["StaleCloseDetaches"]"#,
        "f.toml:4:10: `StaleCloseDetaches` is the Rust name of the defect; write `stale-close-detaches`",
    ),
    (
        r#"kills = ["stale-close-detach"]"#,
        "f.toml:4:10: `stale-close-detach` is not a defect of ferry; did you mean `stale-close-detaches`?",
    ),
    ("x = ", "f.toml:4:5: invalid TOML: string values must be quoted, expected literal string"),
    ("seeds = 1\nseeds = 2", "f.toml:5:1: invalid TOML: duplicate key"),
    (r#"heal = "2m""#, "f.toml:4:8: `heal` is past the horizon of 1m; make `horizon` later"),
    // -- limits and the subject's own tables
    (
        r#"profile = "sed""#,
        "f.toml:4:11: `sed` is not a profile of limits of ferry; did you mean `seed`?",
    ),
    (
        "[limits]\n\"client.recovery-dedline\" = \"3s\"",
        "f.toml:5:1: `client.recovery-dedline` is not a limit of ferry; did you mean `client.recovery-deadline`?",
    ),
    (
        "[limits]\nclient.recovery-deadline = \"3s\"",
        r#"f.toml:5:1: write the limit's name between quotes: `"client.recovery-deadline"`"#,
    ),
    (
        "[limits]\n\"client.event-queue\" = \"3s\"",
        "f.toml:5:24: `client.event-queue` must be a whole number from 0, not a string",
    ),
    (
        "[limits]\n\"client.event-queue\" = 0",
        "f.toml:5:24: `client.event-queue` is at least 1, not 0",
    ),
    (
        "[limits]\n\"server.retained-bytes\" = 4096",
        r#"f.toml:5:27: `server.retained-bytes` must be a size like `"64KiB"`, not a number"#,
    ),
    (
        "[limits]\n\"server.retained-bytes\" = \"4KB\"",
        "f.toml:5:27: `4KB` is not a size; write `4KiB`",
    ),
    ("[process.p1]\nexti = 7", "f.toml:5:1: `exti` is not a key of `p1`; did you mean `exit`?"),
    (
        "[process.p1]\nprint = { lines = 1, every = \"50\" }\nexit = 1",
        "f.toml:5:30: `50` is not a duration; write a whole number and a unit, like `25s`, `50ms`, `3m` or `1h`",
    ),
    (
        "[process.p1]\nprint = { lines = -1, every = \"50ms\" }\nexit = 1",
        "f.toml:5:19: `lines` is at least 0, not -1",
    ),
    (
        "[process.p1]\nprint = { lines = 1 }\nexit = 1",
        "f.toml:5:1: `print` needs `every`, a string",
    ),
    ("[process.p1]\n", "f.toml:4:10: `p1` needs `exit`, a whole number"),
    ("[process]\np1 = 3", "f.toml:5:6: `p1` must be a table, not a number"),
    // -- steps
    (
        "[[step]]\nat = \"1s\"\ndrop-handle = {}\nmay-miss = false",
        "f.toml:7:12: `may-miss` must be `true`; leave it out instead",
    ),
    (
        "[[step]]\nat = \"1s\"",
        "f.toml:4:1: a step needs a verb: a fault like `cut`, or an operation of ferry: `start`, `write`, `drop-handle`",
    ),
    (
        "[[step]]\ncut = { conn = \"client#1\" }",
        r#"f.toml:4:1: a step needs `at = "1s"` or `after = "…"`"#,
    ),
    (
        "[[step]]\nat = \"1s\"\nctu = { conn = \"client#1\" }",
        "f.toml:6:1: `ctu` is not a key of `step`; did you mean `cut`?",
    ),
    (
        "[[step]]\nat = \"1s\"\ncut = { con = \"client#1\" }",
        "f.toml:6:9: `con` is not a key of `cut`; did you mean `conn`?",
    ),
    (
        "[[step]]\nat = \"1s\"\ncut = { conn = \"client\" }",
        "f.toml:6:16: `client` is not a connection; write `client#2`, `client/label#2`, `client:gen2` or `client#last`",
    ),
    (
        "[[step]]\nat = \"1s\"\ncut = { conn = \"clinet#1\" }",
        "f.toml:6:16: `clinet` is not a host; did you mean `client`?",
    ),
    (
        "[[step]]\nat = \"1s\"\ncut = {}",
        r#"f.toml:6:1: `cut` needs `conn`, a connection: `"client#1"`"#,
    ),
    (
        "[[step]]\nat = \"61s\"\ncut = { conn = \"client#1\" }",
        "f.toml:5:6: `at` is past the horizon of 1m; make `horizon` later",
    ),
    (
        "[[step]]\nat = \"1s\"\nafter = \"x\"\ncut = { conn = \"client#1\" }",
        "f.toml:6:1: a step has either `at` or `after`; leave one out",
    ),
    (
        "[[step]]\nat = \"1s\"\ncut = { conn = \"client#1\" }\nreset = { conn = \"client#1\" }",
        "f.toml:7:1: a step has one verb; write a separate step for `reset`",
    ),
    (
        "[[step]]\nat = \"1s\"\nstall = { conn = \"client#1\", toward = \"sever\" }",
        "f.toml:6:39: `sever` is not a host; did you mean `server`?",
    ),
    (
        "[[step]]\nat = \"1s\"\nhold = { lasts = \"1s\" }",
        r#"f.toml:6:1: a `hold` needs a point: `after = { point = "…" }`"#,
    ),
    (
        "[[step]]\nafter = \"ferry.server.detach.unlocked\"\nhold = { lasts = \"1s\" }",
        r#"f.toml:5:9: `ferry.server.detach.unlocked` is a point; write `{ point = "ferry.server.detach.unlocked" }`"#,
    ),
    (
        "[[step]]\nafter = { point = \"ferry.server.detach.unlocked\" }\nhold = { until = \"ferry.client.connected\" }",
        r#"f.toml:6:1: `hold` with `until` needs `at-most`, a duration: `"800ms"`"#,
    ),
    (
        "[[step]]\nafter = { point = \"ferry.server.detach.unlocked\" }\nhold = { until = { milestone = \"ferry.client.connected\", delay = \"1s\" }, at-most = \"1s\" }",
        "f.toml:6:58: `delay` is not possible here; write `then` beside `until`",
    ),
    (
        "[[step]]\nafter = { milestone = \"ferry.client.connected\", generaton = 2 }\nrestart = { host = \"server\" }",
        "f.toml:5:49: `generaton` is not a key of `after`; did you mean `generation`?",
    ),
    (
        "[[step]]\nafter = { nth = 2 }\nrestart = { host = \"server\" }",
        "f.toml:5:1: `after` needs exactly one of `milestone` and `point`",
    ),
    (
        "[[step]]\nafter = { milestone = \"ferry.client.conected\" }\nrestart = { host = \"server\" }",
        "f.toml:5:23: `ferry.client.conected` is not a milestone of ferry; did you mean `ferry.client.connected`?",
    ),
    (
        "[[step]]\nat = \"1s\"\nstart = { proces = \"p1\" }",
        "f.toml:6:11: `proces` is not a key of `start`; did you mean `process`?",
    ),
    ("[[step]]\nat = \"1s\"\nstart = {}", "f.toml:6:1: `start` needs `process`, a string"),
    (
        "[[step]]\nat = \"1s\"\nstart = { process = 1 }",
        "f.toml:6:21: `process` must be a string, not a number",
    ),
    (
        "[[step]]\nat = \"1s\"\nwrite = { process = \"p1\", text = \"\", times = 300 }",
        "f.toml:6:46: `times` is at most 255, not 300",
    ),
    (
        "[[step]]\nat = \"1s\"\nwrite = { process = \"p1\", text = \"\", how = \"twice\" }",
        "f.toml:6:44: `twice` is not a value of `how`; known: `once`, `til-it-sticks`",
    ),
    (
        "[[step]]\nat = \"1s\"\nstart = { process = \"p1\", client = \"client2\" }",
        "f.toml:6:36: `client2` is not a client host; did you mean `client`?",
    ),
    (
        "[[step]]\nat = \"1s\"\npartition = { hosts = [\"client\", \"client\"] }",
        "f.toml:6:34: `hosts` must be two hosts; `client` is listed twice",
    ),
    (
        "[[step]]\nat = \"1s\"\npartition = { hosts = [\"client\"] }",
        r#"f.toml:6:23: `hosts` must be two hosts like `["client", "server"]`, not 1"#,
    ),
    (
        "[[step]]\nat = \"1s\"\ncut = { conn = \"client#1\", learns = { server = \"nevr\" } }",
        "f.toml:6:48: `nevr` is not a duration; did you mean `never`?",
    ),
    (
        "[[step]]\nat = \"1s\"\nclock-jump = { host = \"server\", by = \"-3\" }",
        "f.toml:6:38: `3` is not a duration; write a whole number and a unit, like `25s`, `50ms`, `3m` or `1h`",
    ),
    (
        "[step]\nat = \"1s\"",
        "f.toml:4:1: `step` must be a list of tables, each under `[[step]]`, not a table",
    ),
    (
        "[[step]]\nat = \"1s\"\ndelay = { conn = \"client#1\", hosts = [\"client\", \"server\"], by = \"1s\" }",
        "f.toml:6:30: `delay` needs exactly one of `conn` or `hosts`",
    ),
    (
        "[[step]]\nat = \"1s\"\ncut-after = { conn = \"client#1\", toward = \"client\" }",
        "f.toml:6:1: `cut-after` needs exactly one of `bytes` or `messages`",
    ),
    // -- puppets
    ("[puppet.srever]\nscript = []", "f.toml:4:9: `srever` is not a host; did you mean `server`?"),
    (
        "[puppet.server]",
        r#"f.toml:4:9: `server` needs `script`, a list of tables like `{ expect = "hello" }`"#,
    ),
    (
        "[puppet.server]\nscript = [{ sned = \"x\" }]",
        "f.toml:5:13: `sned` is not a key of `script`; did you mean `send`?",
    ),
    (
        "[puppet.server]\nscript = [{ wait = \"1s\", times = 2 }]",
        "f.toml:5:26: `times` needs `send`; leave it out",
    ),
    (
        "[puppet.server]\nscript = [{ drain = false }]",
        "f.toml:5:21: `drain` must be `true`; leave the entry out instead",
    ),
    (
        "[puppet.server]\nscript = [{ wait = \"1s\", close = true }]",
        "f.toml:5:26: an entry of a script has one verb; write a separate entry for `close`",
    ),
    // -- expectations
    (
        "[expect]\nreachs = []",
        "f.toml:5:1: `reachs` is not a key of `expect`; did you mean `reaches`?",
    ),
    (
        "[expect]\nreaches = [\"ferry.client.conected\"]",
        "f.toml:5:12: `ferry.client.conected` is not a milestone of ferry; did you mean `ferry.client.connected`?",
    ),
    (
        "[expect]\nreaches = [{ point = \"ferry.client.connected\" }]",
        r#"f.toml:5:22: `ferry.client.connected` is a milestone; write `milestone = "ferry.client.connected"`"#,
    ),
    (
        "[expect]\nbreaks = \"gap_fre\"",
        "f.toml:5:10: `gap_fre` is not a property of ferry; did you mean `gap_free`?",
    ),
    (
        "[expect]\nat-least = { \"ferry.client.connected\" = 0.5 }",
        "f.toml:5:1: `at-least` is only for a swarm; write `reaches`, which each seed must meet",
    ),
    (
        "[expect.stream.p1]\nends = \"closed\"",
        "f.toml:5:8: `closed` is not a value of `ends`; known: `completed`, `failed`, `open`",
    ),
    (
        "[expect.stream.p1]\nends = \"failed\"\noutcome = \"x\"",
        r#"f.toml:6:1: `outcome` goes with `ends = "completed"` only"#,
    ),
    (
        "[expect.process.p1]\nends = \"completed\"",
        "f.toml:5:8: `completed` is not a value of `ends`; known: `closed`, `failed`, `open`",
    ),
    (
        "[expect.process.p1]\nexti = 7",
        "f.toml:5:1: `exti` is not a key of `p1`; did you mean `exit`?",
    ),
    ("[expect.process.p1]\nexit = 7", r#"f.toml:5:1: `exit` goes with `ends = "closed"` only"#),
    (
        "[expect.process.p1]\nends = \"closed\"\nexit = 256",
        "f.toml:6:8: `exit` is at most 255, not 256",
    ),
    (
        "[expect.process.p1]\nends = \"closed\"\nexit = -1",
        "f.toml:6:8: `exit` must be a whole number from 0, not -1",
    ),
    (
        "[expect.process.p1]\nends = \"closed\"\nexit = \"singal\"",
        "f.toml:6:8: `singal` is not a value of `exit`; did you mean `signal`?",
    ),
    (
        "[expect.process.p1]\nends = \"closed\"\nreason = \"x\"",
        r#"f.toml:6:1: `reason` goes with `ends = "failed"` only"#,
    ),
    (
        "[expect.process.p1]\nends = \"open\"\nwithin = \"1s\"",
        "f.toml:6:1: `within` limits the end of a process; leave it out if it stays open",
    ),
    (
        "[expect.process.p1]\nlive-from = 0",
        "f.toml:5:13: `live-from` must be a whole number from 1, not 0",
    ),
    (
        "[expect.process.p1.2]\nends = \"open\"",
        "f.toml:4:20: `2` is not a key of `p1`; known: `ends`, `exit`, `reason`, `output`, `within`, `live-from`, `really-ends`",
    ),
    (
        "[expect.call.x]\nends = \"open\"",
        "f.toml:4:14: `x` is not a call; calls are numbered from 1, in the order of their requests",
    ),
    // -- swarms
    ("[swarm]\nrunns = 1", "f.toml:5:1: `runns` is not a key of `swarm`; did you mean `runs`?"),
    (
        "seeds = 3\n[swarm]",
        "f.toml:4:1: `seeds` is not possible in a file with `[swarm]`; write the choice for it in `[swarm]`",
    ),
    ("[swarm]\nasks = \"1...3\"", "f.toml:5:8: `.3` is not a whole number"),
    (
        "[swarm]\nasks = []",
        r#"f.toml:5:8: the choice of `asks` is empty; write a number like `2`, or a range like `"1..3"`"#,
    ),
    (
        "[swarm.operations]\nstrat = 1",
        "f.toml:5:1: `strat` is not a key of `operations`; did you mean `start`?",
    ),
    (
        "[swarm.operations]\nstart = { at = [] }",
        "f.toml:5:1: `start` needs `weight`, a number from 0",
    ),
    (
        "[swarm.operations]\nstart = { weight = 1, then = [\"strat\"] }",
        "f.toml:5:31: `strat` is not an operation; did you mean `start`?",
    ),
    (
        "[swarm.faults.weights]\nrestart = 1",
        "f.toml:5:1: `restart` is not a key of `weights`; known: `cut`, `cut-after`, `partition`, `stall`, `blackhole`, `delay`, `delay-close`, `reset`, `slow`, `loss`, `reorder`, `flap` and 13 more",
    ),
    (
        "[swarm.faults.weights]\ncut = { learns = {} }",
        "f.toml:5:1: `cut` needs `weight`, a number from 0",
    ),
    (
        "[swarm.faults.weights]\ncut = { weight = 1, lasts = \"1s\" }",
        "f.toml:5:21: `lasts` is not a key of `cut`; known: `weight`, `learns`",
    ),
    (
        "[swarm]\n[expect.stream.p1]\nends=\"open\"",
        "f.toml:5:9: `stream` is only for a schedule: a swarm draws its streams, processes and calls",
    ),
    (
        "[swarm]\n[expect.process.p1]\nends=\"open\"",
        "f.toml:5:9: `process` is only for a schedule: a swarm draws its streams, processes and calls",
    ),
    (
        "[swarm]\n[expect]\nat-least = { \"ferry.client.connected\" = 1.5 }",
        "f.toml:6:41: `ferry.client.connected` must be a number from 0 to 1, not 1.5",
    ),
    ("[swarm.process]\nexit = \"x\"", "f.toml:5:8: `exit` must be a whole number, not a string"),
    ("[swarm.process]\nprint = { line = 1 }", "f.toml:4:8: `process` needs `exit`, a whole number"),
];

/// The same for mistakes in the first lines of a file.
const HEADLESS: &[(&str, &str)] = &[
    ("", "f.toml:1:1: a scenario file needs its format version: write `format = 1`"),
    ("format = 2", "f.toml:1:10: format 2 is unknown; this version of reknit reads format 1"),
    (
        "format = 1",
        "f.toml:1:1: a scenario file needs `subject`, the name of the protocol under test",
    ),
    (
        "format = 1\nsubject = \"fery\"",
        "f.toml:2:11: `fery` is not a subject; did you mean `ferry`?",
    ),
    (
        "format = 1\nsubject = \"ferry\"",
        "f.toml:1:1: a scenario file needs `title`, a string: what the scenario shows, in one line",
    ),
];

#[test]
fn a_mistake_is_one_line_with_its_position_and_a_fix() {
    for (text, line) in BROKEN {
        assert_eq!(parse(&format!("{HEAD}{text}")).unwrap_err(), *line, "{text}");
    }
    for (text, line) in HEADLESS {
        assert_eq!(parse(text).unwrap_err(), *line, "{text}");
    }
}

#[test]
fn no_text_makes_the_reader_panic_and_every_mistake_is_one_line() {
    let whole = [super::good::LATE_CLOSE, super::good::SWARM];
    for text in whole {
        for end in (0..text.len()).step_by(7).filter(|end| text.is_char_boundary(*end)) {
            let (head, tail) = text.split_at(end);
            let skipped: String = tail.chars().skip(1).collect();
            for broken in [
                head.to_owned(),
                format!("{head}{skipped}"),
                format!("{head}\"{tail}"),
                format!("{head}7{tail}"),
            ] {
                if let Err(mistake) = parse(&broken) {
                    assert_eq!(mistake.lines().count(), 1, "{mistake}");
                }
            }
        }
    }
}
