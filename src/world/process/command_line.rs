//! The values that a process prints about the command that started it.

use bytes::Bytes;

use super::calls;
use crate::process::{Command, Confinement, FilesScope, NetworkScope, PathAccess, Stdio};

/// Returns the lines that describe a command: its arguments, directory, input, variables and
/// permissions. The variables that only the simulation needs are left out.
pub(super) fn described(command: &Command) -> Bytes {
    let mut lines = vec![format!("arguments {}", command.argv.join(" "))];
    lines.extend(command.arg0.iter().map(|name| format!("named {name}")));
    lines.extend(command.cwd.iter().map(|directory| format!("in {directory}")));
    lines.push(match command.stdio {
        Stdio::Pipes { stdin: true } => "with an input".to_owned(),
        Stdio::Pipes { stdin: false } => "without an input".to_owned(),
        Stdio::Terminal(size) => format!("on a terminal of {} x {}", size.rows, size.columns),
    });
    let known = |name: &str| [calls::NAME, calls::CALL].contains(&name);
    let variables = command.env.iter().filter(|(name, _)| !known(name));
    lines.extend(variables.map(|(name, value)| format!("{name}={value}")));
    lines.extend(command.confinement.iter().flat_map(permissions));
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>().into()
}

fn permissions(confinement: &Confinement) -> Vec<String> {
    let network = match confinement.network {
        NetworkScope::All => "may use the network",
        NetworkScope::None => "may not use the network",
    };
    let mut lines = vec![network.to_owned()];
    match &confinement.files {
        FilesScope::All => lines.push("may use all files".to_owned()),
        FilesScope::Rules(rules) => lines.extend(rules.iter().map(|(path, access)| {
            let may = match access {
                PathAccess::Nothing => "may not use",
                PathAccess::Read => "may read",
                PathAccess::Write => "may write",
            };
            format!("{may} {}", path.display())
        })),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{PathRules, Size};

    #[test]
    fn each_part_of_a_command_has_a_line() {
        let mut rules = PathRules::default();
        rules.add("/", PathAccess::Read);
        rules.add("/w", PathAccess::Write);
        rules.add("/w/key", PathAccess::Nothing);
        let variable = |name: &str| (name.to_owned(), "1".to_owned());
        let command = Command {
            argv: vec!["p1".into(), "-a".into()],
            arg0: Some("sh".into()),
            cwd: Some("/srv".into()),
            env: vec![variable("A"), variable(calls::NAME), variable(calls::CALL)],
            stdio: Stdio::Terminal(Size::default()),
            confinement: Some(Confinement {
                files: FilesScope::Rules(rules),
                network: NetworkScope::None,
            }),
        };
        assert_eq!(
            described(&command),
            "arguments p1 -a\nnamed sh\nin /srv\non a terminal of 24 x 80\nA=1\n\
             may not use the network\nmay read /\nmay write /w\nmay not use /w/key\n"
        );
    }
}
