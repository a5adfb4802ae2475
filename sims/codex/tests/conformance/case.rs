//! The table of cases: one TOML file for each family in `cases`.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// A short conversation with a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Case {
    /// The special feature of this conversation.
    pub name: String,
    /// The lines that [`Step`](super::script::Step) describes.
    pub script: String,
    /// Whether the first connection performs the handshake before the script.
    #[serde(default = "yes")]
    pub handshake: bool,
    /// Shell commands that prepare the folder of the case, instead of those of its family.
    pub before: Option<String>,
    /// Shell commands in the folder of the case after the conversation. Their output is compared.
    #[serde(default)]
    pub after: String,
    /// How long an answer may take, in milliseconds, before it counts as missing.
    #[serde(default = "patience")]
    pub patience_ms: u64,
    /// Why our server answers differently.
    pub deliberate: Option<String>,
}

fn yes() -> bool {
    true
}

fn patience() -> u64 {
    10_000
}

/// The cases of one family.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name of its file.
    pub name: String,
    /// Shell commands that prepare the folders of the cases without own ones.
    pub before: Option<String>,
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    before: Option<String>,
    case: Vec<Case>,
}

/// Reads all families, in the order of their names.
pub fn families() -> Vec<Family> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &Path| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let table: Table = toml::from_str(&fs::read_to_string(path).unwrap())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Family { name, before: table.before, cases: table.case }
    };
    files.iter().map(|path| read(path)).collect()
}
