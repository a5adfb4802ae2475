//! `check`: validates scenario files. `new`: prints a starter file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::report::phrases;
use crate::scenario::{self, Undeclared, undeclared};
use crate::subject::DynSubject;

use super::files;
use super::page::{Page, UserError};

/// Reads scenario files and looks up every name in them, without running anything. Stops at the
/// first mistake. A name in an operation or an expectation that no table declares gets a note.
pub fn check(
    named: &[PathBuf],
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let found = files::find(named)?;
    for found in &found {
        let scenario = files::load(&found.path, subjects, page)?;
        let subject = files::subject(&scenario, subjects)?;
        for Undeclared { line, expectation, table, name } in undeclared(&scenario, &**subject) {
            let of = expectation.map_or(String::new(), |of| format!("{of}: "));
            let line = line.map_or(String::new(), |line| format!(":{line}"));
            let file = scenario.path.display();
            page.print(&format!(
                "{file}{line}: note: {of}no [{table}.{name}] declares `{name}`, so it does not exist in the run\n"
            ))?;
        }
    }
    page.print(&format!("{}: no mistake\n", phrases::count(found.len() as u64, "scenario file")))?;
    Ok(true)
}

/// The schema of scenario files in a crate that has one, and the comment for a crate that has none.
const SCHEMA: &str = "scenarios/schema.json";
const NO_SCHEMA: &str = "# To complete names in an editor: `reknit list schema > scenarios/schema.json`, and\n# `#:schema ../schema.json` on the first line.\n";

/// Prints a commented starter file for a subject.
pub fn new(
    name: &str,
    subjects: &[Arc<dyn DynSubject>],
    page: &mut Page<'_>,
) -> Result<bool, UserError> {
    let head = head(Path::new(""));
    page.print(&format!("{head}{}", scenario::starter(files::named(name, subjects)?)))?;
    Ok(true)
}

/// Returns the first lines of a starter file in the crate in this folder.
fn head(krate: &Path) -> &'static str {
    if krate.join(SCHEMA).exists() { "#:schema ../schema.json\n" } else { NO_SCHEMA }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::act;

    /// Runs a command with this standard input. Returns its output.
    fn command(words: &[&str], input: &str) -> String {
        let (mut out, mut err, mut input) = (Vec::new(), Vec::new(), input.as_bytes());
        let mut page = Page::of_test(&mut out, &mut err, &mut input, 100);
        let args: Vec<_> = ["reknit"].iter().chain(words).map(Into::into).collect();
        let status = act(&args, &crate::subjects::built_in(), &mut page);
        assert_eq!((String::from_utf8(err).unwrap().as_str(), status), ("", 0));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_undeclared_name_gets_a_note_wherever_it_is() {
        let file = |subject: &str, rest: &str| {
            let file = format!("format = 1\nsubject = \"{subject}\"\ntitle = \"t\"\n{rest}");
            command(&["check", "-"], &file)
        };
        let streams = "[stream.s1]\nnumbers = 3\n[[step]]\nat = \"1s\"\nwatch = { stream = \"s7\" }\n\
            [expect.stream.s1]\nends = \"open\"\n[expect.stream.\"client2/s1.2\"]\nends = \"open\"\n\
            [expect.stream.\"client2/s8.2\"]\nends = \"open\"\n[expect.stream.s9]\nends = \"open\"\n";
        assert_eq!(
            file("counter", streams),
            "-:6: note: no [stream.s7] declares `s7`, so it does not exist in the run\n\
             -: note: [expect.stream.\"client2/s8.2\"]: no [stream.s8] declares `s8`, so it does not exist in the run\n\
             -: note: [expect.stream.s9]: no [stream.s9] declares `s9`, so it does not exist in the run\n\
             1 scenario file: no mistake\n"
        );
        // The subject itself gives a name to the body of a request: `h1`.
        let processes = "[expect.process.p2]\nends = \"open\"\n[expect.stream.\"p3/stdout\"]\noutput = \"all\"\n\
            [expect.stream.h1]\noutput = \"all\"\n";
        assert_eq!(
            file("exec", processes),
            "-: note: [expect.stream.\"p3/stdout\"]: no [process.p3] declares `p3`, so it does not exist in the run\n\
             -: note: [expect.process.p2]: no [process.p2] declares `p2`, so it does not exist in the run\n\
             1 scenario file: no mistake\n"
        );
    }

    #[test]
    fn a_starter_names_the_schema_only_where_there_is_one() {
        let folder = std::env::temp_dir().join(format!("reknit-schema-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("scenarios")).unwrap();
        let without = head(&folder);
        std::fs::write(folder.join(SCHEMA), "{}").unwrap();
        let with = head(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((without, with), (NO_SCHEMA, "#:schema ../schema.json\n"));
        // The tests run where there is one.
        let starter = command(&["new", "counter"], "");
        assert!(starter.starts_with("#:schema ../schema.json\n"), "{starter}");
    }
}
