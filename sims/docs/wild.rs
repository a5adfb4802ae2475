//! The table of `docs/found-in-the-wild.md`: each bug, the program that has it, the seeded bugs with the
//! same mistake, and the command that reproduces it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use reknit::subject::DefectDoc;
use reknit::subjects::{exec, sse};

use super::root;

/// A bug of a program.
struct Bug {
    number: u32,
    program: &'static Program,
    /// The mistake in a few words.
    what: &'static str,
    reproduction: Reproduction,
    /// The seeded bugs with the same mistake, and the scenario file that catches each.
    seeded: &'static [(&'static str, &'static str)],
}

/// A program with bugs, the package that tests it, and the subject with the same mistakes.
struct Program {
    name: &'static str,
    package: &'static str,
    folder: &'static str,
    subject: &'static str,
    defects: &'static [DefectDoc],
}

const CODEX: &Program = &Program {
    name: "codex",
    package: "codex_peer",
    folder: "sims/codex",
    subject: "exec",
    defects: exec::tables::DEFECTS,
};

const OPENSANDBOX: &Program = &Program {
    name: "opensandbox",
    package: "opensandbox_peer",
    folder: "sims/opensandbox",
    subject: "sse",
    defects: sse::tables::DEFECTS,
};

const EVENTSOURCE: &Program = &Program {
    name: "eventsource-client",
    package: "eventsource_peer",
    folder: "sims/eventsource",
    subject: "sse",
    defects: sse::tables::DEFECTS,
};

const BOTH: &Program = &Program { name: "both event sources", ..*EVENTSOURCE };

/// The test in the folder `tests` of its package that reproduces a bug.
enum Reproduction {
    /// The tests of `wild` whose names begin with this.
    Wild(&'static str),
    /// A script of `cuts`.
    Cuts(&'static str),
}

use Reproduction::{Cuts, Wild};

const fn bug(
    number: u32,
    program: &'static Program,
    what: &'static str,
    reproduction: Reproduction,
    seeded: &'static [(&'static str, &'static str)],
) -> Bug {
    Bug { number, program, what, reproduction, seeded }
}

#[rustfmt::skip]
const BUGS: &[Bug] = &[
    bug(1, CODEX, "two full queues stop a connection", Wild("bug_01"),
        &[("queues-deadlock", "hundreds-of-requests-beside-a-flood")]),
    bug(2, CODEX, "a dead client stays attached", Wild("bug_02"),
        &[("server-ping-without-deadline", "half-open-toward-the-server")]),
    bug(3, CODEX, "the client does not notice a dead connection", Cuts("half-open-to-client"),
        &[("client-ping-without-deadline", "half-open-toward-the-client")]),
    bug(4, CODEX, "a full reorder buffer fails a process", Wild("bug_04"),
        &[("overflow-fails-process", "more-early-events-than-the-queue-holds")]),
    bug(5, CODEX, "an HTTP request blocks everything behind it", Wild("bug_05"),
        &[("http-blocks-requests", "a-slow-web-server-beside-a-terminate")]),
    bug(6, CODEX, "a process that does not read blocks its connection", Wild("bug_06"),
        &[("full-stdin-blocks-requests", "a-full-stdin-beside-a-terminate")]),
    bug(7, CODEX, "concurrent requests reorder stdin", Wild("bug_07"),
        &[("writes-overtake", "writes-close-together")]),
    bug(8, CODEX, "a write to an ended process is accepted", Wild("bug_08"),
        &[("write-accepted-after-exit", "a-write-after-the-exit")]),
    bug(9, CODEX, "a late retry writes twice", Wild("bug_09"),
        &[("write-ids-forgotten", "more-writes-than-remembered-ids")]),
    bug(10, CODEX, "a terminal hides the signal", Wild("bug_10"), &[]),
    bug(11, CODEX, "a write to a FIFO stops the server", Wild("bug_11"), &[]),
    bug(12, CODEX, "closes are not answered, idle connections stay open", Wild("bug_12"), &[]),
    bug(13, CODEX, "a redirect carries a secret to another host", Wild("bug_13"),
        &[("credentials-follow-redirects", "http-redirects")]),
    bug(14, OPENSANDBOX, "a stream that ends early is not an error", Wild("bug_14"),
        &[("end-of-stream-is-success", "a-stream-that-ends-early")]),
    bug(15, OPENSANDBOX, "the client does not notice a dead connection", Wild("bug_15"),
        &[("silence-is-tolerated", "a-dead-connection-is-given-up")]),
    bug(16, BOTH, "an event without an id forgets the position", Wild("bug_16"),
        &[("cursor-forgotten-without-events", "two-cuts-without-an-event")]),
    bug(17, BOTH, "`retry:` without data is ignored", Wild("bug_17"), &[]),
    bug(18, EVENTSOURCE, "pauses are measured on another clock", Wild("bug_18"), &[]),
];

const MARKS: (&str, &str) = (
    "<!-- a table: REKNIT_BLESS=1 cargo test --test docs -->\n",
    "<!-- the end of the table -->\n",
);

/// Draws the row of a bug, and checks that everything that it names exists.
fn row(bug: &Bug) -> String {
    let (mut names, mut files, mut properties) = (Vec::new(), Vec::new(), BTreeSet::new());
    let Program { subject, defects, .. } = bug.program;
    for (name, file) in bug.seeded {
        let doc = defects.iter().find(|doc| doc.name == *name);
        let doc = doc.unwrap_or_else(|| panic!("bug {}: no defect {name}", bug.number));
        let path = format!("scenarios/{subject}/{file}.toml");
        let text = fs::read_to_string(root().join(&path)).expect("a scenario file");
        let kills = text.lines().find(|line| line.starts_with("kills")).unwrap_or_default();
        assert!(kills.contains(&format!("\"{name}\"")), "{path} kills no {name}");
        names.push(format!("`{name}`"));
        files.push(format!("[{file}](../{path})"));
        properties.extend(doc.breaks.iter().map(|property| format!("`{property}`")));
    }
    let joined = |words: Vec<String>| {
        if words.is_empty() { "—".to_owned() } else { words.join(", ") }
    };
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |",
        bug.number,
        bug.program.name,
        bug.what,
        joined(names),
        joined(files),
        joined(properties.into_iter().collect()),
        command(bug)
    )
}

/// Returns the command that reproduces a bug, and checks that its test exists.
fn command(bug: &Bug) -> String {
    let Program { package, folder, .. } = bug.program;
    let tests = root().join(folder).join("tests");
    let test = match bug.reproduction {
        Cuts(script) => {
            let scripts = fs::read_to_string(tests.join("cuts/cuts.toml")).expect("the scripts");
            assert!(scripts.contains(&format!("name = \"{script}\"")), "no script {script}");
            let cuts = format!("cargo test -p {package} --test cuts -- --ignored");
            return format!("`REKNIT_CUTS={script} {cuts}`");
        }
        Wild(test) => test,
    };
    let mut texts = fs::read_dir(tests.join("wild"))
        .expect("the tests")
        .map(|file| fs::read_to_string(file.expect("a file").path()).expect("a file of Rust"));
    let wanted = format!("async fn {test}");
    let text = texts.find(|text| text.contains(&wanted));
    let text = text.unwrap_or_else(|| panic!("no test {test}"));
    let (before, _) = text.split_once(&wanted).expect("it contains it");
    let attributes = before.rsplit_once("\n\n").map_or(before, |(_, attributes)| attributes);
    let ignored = if attributes.contains("#[ignore") { " --ignored" } else { "" };
    format!("`cargo test -p {package} --test wild --{ignored} {test}`")
}

#[test]
fn the_table_of_bugs_is_up_to_date() {
    let mut table =
        "| | program | bug | seeded bug | scenario | property | command |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    for bug in BUGS {
        writeln!(table, "{}", row(bug)).expect("a string takes all");
    }
    let path = root().join("docs/found-in-the-wild.md");
    let page = fs::read_to_string(&path).expect("the page");
    for bug in BUGS {
        assert!(
            page.contains(&format!("\n## {}. ", bug.number)),
            "no section about bug {}",
            bug.number
        );
    }
    let (before, rest) = page.split_once(MARKS.0).expect("the page has a place for the table");
    let (there, after) = rest.split_once(MARKS.1).expect("it has an end");
    if std::env::var_os("REKNIT_BLESS").is_some() {
        fs::write(&path, [before, MARKS.0, &table, MARKS.1, after].concat())
            .expect("it is writable");
    } else {
        assert_eq!(there, table, "REKNIT_BLESS=1 cargo test --test docs writes it anew");
    }
}
