//! Output for people: stories of runs, tables of results, and the divergence of two runs.
//!
//! Everything here is a pure function from data to text. The text contains colours as escape codes;
//! the caller strips them if the output is not a terminal. No subject is needed, because the
//! history and the plan contain all names.
//!
//! - [`story`]: a failure in short form; the full story of a run.
//! - [`table`]: scenario, seeds, virtual time, milestones, verdict; and the totals. [`json`]: the
//!   same for machines.
//! - [`divergence`]: the first difference between two runs.
//! - [`mod@sentence`]: a violation as a sentence. [`mod@position`]: the position of a fault, in
//!   words.
//! - [`rendering`]: converts a history to the lines of a story. [`mod@line`], [`items`] and
//!   [`phrases`]: the parts of such lines.
//! - [`picture`]: a run as a page. [`map`]: a sweep as a page. [`matrix`]: a kill matrix as a page.
//! - [`ci_report`]: the results, case by case. `junit`, [`github`]: the formats of CI servers.
//! - [`envelope`]: a scenario file between markers, embedded in other output.

pub mod ci_report;
pub mod divergence;
pub mod envelope;
pub mod github;
pub mod items;
pub mod json;
#[cfg(feature = "cli")]
pub mod junit;
pub mod line;
pub mod map;
pub mod matrix;
pub mod phrases;
pub mod picture;
pub mod position;
pub mod rendering;
pub mod sentence;
pub mod story;
pub mod table;

pub use picture::Picture;
pub use position::position;
pub use rendering::RenderOptions;
pub use sentence::sentence;
pub use story::StoryFailure;
pub use table::TableRow;

/// The default width of a page.
pub const WIDTH: usize = 120;
