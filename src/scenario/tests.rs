//! Scenario files with and without mistakes.

use std::path::Path;

use super::*;

mod drafts;
mod expect;
mod generated;
mod good;
mod mistakes;
mod process;
mod round_trip;
pub(super) mod subject;

/// The first lines of every schedule of the test subject.
const HEAD: &str = "format = 1\nsubject = \"ferry\"\ntitle = \"t\"\n";

fn parse(text: &str) -> Result<ScenarioFile, String> {
    ScenarioFile::parse(text, "f.toml", &[subject::ferry()]).map_err(|mistake| mistake.to_string())
}

/// Parses a scenario that begins with [`HEAD`].
fn after_head(text: &str) -> ScenarioFile {
    parse(&format!("{HEAD}{text}")).unwrap_or_else(|mistake| panic!("{mistake}"))
}

fn plan(scenario: &ScenarioFile) -> &Plan {
    match &scenario.body {
        Body::Schedule(plan) => plan,
        Body::Swarm(_) => panic!("this is a swarm"),
    }
}

#[test]
fn an_unreadable_path_is_a_one_line_mistake() {
    let load = |path: &Path| ScenarioFile::load(path, &[subject::ferry()]).unwrap_err().to_string();
    let folder = std::env::temp_dir();
    assert_eq!(
        load(&folder),
        format!("{}: this is a folder; name a scenario file in it", folder.display())
    );
    assert_eq!(
        load(Path::new("no/such.toml")),
        "no/such.toml: there is no such file; `reknit new SUBJECT` writes one to begin with"
    );
    let binary = folder.join(format!("reknit-{}-not-text.toml", std::process::id()));
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    let mistake = load(&binary);
    std::fs::remove_file(&binary).unwrap();
    assert_eq!(mistake, format!("{}: this file is not UTF-8 text", binary.display()));
}
