//! The tasks with files that random schedules draw, with the answers that they must have. No other call
//! uses the directory of the tasks.

use std::path::PathBuf;
use std::time::Duration;

use super::operations::ExecOperation;
use super::tasks::FileTask;
use crate::schedule::units::WrittenDuration;

/// A task, and its answer.
type Answered = (FileTask, &'static str);

/// The lists of tasks.
const LISTS: [fn() -> Vec<Answered>; 4] = [blocks, tree, copies, refusals];

/// Returns the operation with this number.
pub(super) fn operation(number: u8) -> ExecOperation {
    let list = LISTS[usize::from(number) % LISTS.len()]();
    let (tasks, says) = list.into_iter().map(|(task, says)| (task, says.to_owned())).unzip();
    ExecOperation::UseFiles {
        tasks,
        says,
        apart: true,
        every: WrittenDuration::default(),
        patience: WrittenDuration(Duration::from_secs(20)),
        sandbox: None,
    }
}

/// Files that are read and written block by block.
fn blocks() -> Vec<Answered> {
    let read = |path, blocks: &[(u64, usize)], answer| {
        (FileTask::ReadBlocks { path: PathBuf::from(path), blocks: blocks.to_vec() }, answer)
    };
    let blocks = [(0, "abc"), (5, "de"), (1, "B")];
    let blocks = blocks.map(|(offset, text)| (offset, text.to_owned())).to_vec();
    vec![
        write("/a", "hello world"),
        read(
            "/a",
            &[(0, 5), (5, 100), (11, 1)],
            r#""hello", " world" and the end, "" and the end"#,
        ),
        read("/a", &[(0, 11), (1, 11)], r#""hello world", "ello world" and the end"#),
        (FileTask::WriteBlocks { path: "/b".into(), blocks }, "written, written, written"),
        (FileTask::Read { path: "/b".into() }, r#""aBc\0\0de""#),
        describe("/b", "file of 7 bytes"),
        list("/", "file a, file b"),
    ]
}

/// Directories that are created, listed and removed.
fn tree() -> Vec<Answered> {
    let walk = |depth, entries, prunes, answer| {
        let path = "/d".into();
        (FileTask::Walk { path, depth, directories: 9, entries, follows: false, prunes }, answer)
    };
    vec![
        create("/d/e", true, "created"),
        create("/d/.h", false, "created"),
        create("/d/e", true, "created"),
        write("/d/.h/x", "1"),
        write("/d/e/y", "22"),
        describe("/d/e", "directory"),
        walk(0, 9, false, "directory file:///d/.h, directory file:///d/e"),
        walk(
            1,
            9,
            false,
            "directory file:///d/.h, directory file:///d/e, file file:///d/.h/x, file file:///d/e/y",
        ),
        walk(1, 2, false, "directory file:///d/.h, directory file:///d/e, and more"),
        walk(1, 9, true, "directory file:///d/.h, directory file:///d/e, file file:///d/e/y"),
        remove("/d", true, false, "removed"),
        list("/", "nothing"),
    ]
}

/// Files and directories that are copied.
fn copies() -> Vec<Answered> {
    let copy = |from: &str, to: &str, recursive| {
        (FileTask::Copy { path: from.into(), to: to.into(), recursive }, "copied")
    };
    vec![
        create("/d", false, "created"),
        write("/d/a", "one"),
        write("/d/b", "two"),
        copy("/d/a", "/d/b", false),
        (FileTask::Read { path: "/d/b".into() }, r#""one""#),
        copy("/d", "/e", true),
        list("/e", "file a, file b"),
        remove("/d/a", false, false, "removed"),
        list("/d", "file b"),
        describe("/e/a", "file of 3 bytes"),
        (FileTask::Resolve { path: "/e/./a".into() }, "file:///e/a"),
    ]
}

/// Tasks that the server refuses.
fn refusals() -> Vec<Answered> {
    const MISSING: &str = "refused: entity not found (-32004)";
    const EXISTS: &str = "refused: entity already exists (-32603)";
    const IS_DIRECTORY: &str =
        "refused: fs/copy requires recursive: true when sourcePath is a directory (-32600)";
    vec![
        create("/d/e", false, MISSING),
        create("/d", false, "created"),
        create("/d", false, EXISTS),
        (FileTask::Read { path: "/a".into() }, MISSING),
        write("/d/a", "1"),
        remove("/d", false, false, "refused: directory not empty (-32603)"),
        remove("/b", false, false, MISSING),
        remove("/b", false, true, "removed"),
        (FileTask::Copy { path: "/d".into(), to: "/e".into(), recursive: false }, IS_DIRECTORY),
        describe("/e", MISSING),
        list("/", "directory d"),
    ]
}

fn create(path: &str, parents: bool, answer: &'static str) -> Answered {
    (FileTask::CreateDirectory { path: path.into(), parents }, answer)
}

fn write(path: &str, text: &str) -> Answered {
    (FileTask::Write { path: path.into(), text: text.to_owned() }, "written")
}

fn describe(path: &str, answer: &'static str) -> Answered {
    (FileTask::Describe { path: path.into(), times: false }, answer)
}

fn list(path: &str, answer: &'static str) -> Answered {
    (FileTask::List { path: path.into() }, answer)
}

fn remove(path: &str, recursive: bool, force: bool, answer: &'static str) -> Answered {
    (FileTask::Remove { path: path.into(), recursive, force }, answer)
}
