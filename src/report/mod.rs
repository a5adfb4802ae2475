//! What a person reads: stories of runs, tables of results, where two runs part.
//!
//! Everything here is a pure function from data to text, with colours as escape codes in it: whoever prints strips them where
//! there is no terminal. It needs no subject: all names stand in the history and in the plan.
//!
//! - [`story`]: a failure, shortest first; the whole story of a run.
//! - [`table`]: scenario, seeds, virtual time, milestones, verdict; and the totals. [`json`]: the same for machines.
//! - [`divergence`]: where two runs part.
//! - [`mod@sentence`]: how a property broke. [`mod@position`]: where a fault was put.
//! - [`rendering`]: from a history to the lines of a story; [`mod@line`], [`items`] and [`phrases`]: what such lines are made of.
//! - [`picture`]: a run as a page to look at. [`map`]: a sweep as one. [`matrix`]: a kill matrix as one.
//! - [`ci_report`]: what was run, case by case; as CI servers read it: `junit`, [`github`].
//! - [`envelope`]: a scenario file between markers, in the middle of other output.

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

/// How wide a page is where nothing says it.
pub const WIDTH: usize = 120;
