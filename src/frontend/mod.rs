//! Shared code of the two front ends, the command line and the test suites: files, pictures,
//! terminals and CI jobs.
//!
//! - `files`: the scenario files of a folder. `picture`: HTML pages of failures. `github`: GitHub
//!   Actions jobs.
//! - `terminal`: colours and page width. `words`: commands as text.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use crate::hunt::fresh;
use crate::subject::DynSubject;

mod files;
pub(crate) mod github;
pub(crate) mod picture;
mod terminal;
mod words;

pub(crate) use files::{place, scenario_files};
pub(crate) use github::Github;
pub(crate) use picture::{Drawn, FOLDER as PICTURES, Repeated, file as picture_file};
pub(crate) use terminal::{colours, plain, width};
pub(crate) use words::{quoted, words_for};

/// Handles the command line if this process was started as a [fresh process](fresh).
pub(crate) fn answer(args: &[OsString], subjects: &[Arc<dyn DynSubject>]) -> Option<ExitCode> {
    if args.get(1)? != fresh::ASK {
        return None;
    }
    let file = std::io::read_to_string(std::io::stdin()).map_err(|error| error.to_string());
    let how: Vec<_> = args[2..].iter().filter_map(|word| word.to_str()).collect();
    Some(match file.and_then(|file| fresh::answer(&file, &how, subjects)) {
        Ok(statement) => {
            print!("{statement}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    })
}
