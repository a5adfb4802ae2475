//! Receives milestones: one `tracing` dispatcher per worker thread, whose layer only appends to the
//! inbox.
//!
//! A dispatcher per run would rebuild the interest of every call site. A layer that does more would
//! re-enter the world.

use std::cell::RefCell;
use std::fmt::{self, Write};

use tracing::dispatcher::{DefaultGuard, Dispatch};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use crate::probe::MILESTONE;
use crate::schedule::MilestoneValue;

use crate::world::thread::{self, Noted};

/// The target of turmoil's own tracing events, which are not events of the subject.
const TURMOIL: &str = "turmoil";

thread_local! {
    static THREAD_TRACING: RefCell<Option<ThreadTracing>> = const { RefCell::new(None) };
}

/// The tracing state of a thread.
struct ThreadTracing {
    dispatch: Dispatch,
    logs: bool,
}

/// Makes this thread record milestones until the guard is dropped. With `logs`, it also records all
/// other tracing events of the subject.
pub(in crate::world) fn install(logs: bool) -> DefaultGuard {
    THREAD_TRACING.with_borrow_mut(|tracing_state| {
        if tracing_state.as_ref().is_none_or(|tracing_state| tracing_state.logs != logs) {
            *tracing_state = Some(ThreadTracing {
                dispatch: Dispatch::new(Registry::default().with(MilestoneLayer { logs })),
                logs,
            });
        }
        let dispatch = &tracing_state.as_ref().expect("it was just made").dispatch;
        tracing::dispatcher::set_default(dispatch)
    })
}

/// The tracing layer.
struct MilestoneLayer {
    logs: bool,
}

impl MilestoneLayer {
    fn records(&self, metadata: &Metadata<'_>) -> bool {
        let is_logged =
            || self.logs && *metadata.level() <= Level::DEBUG && metadata.target() != TURMOIL;
        metadata.is_event() && (metadata.target() == MILESTONE || is_logged())
    }
}

impl<S: Subscriber> Layer<S> for MilestoneLayer {
    fn register_callsite(
        &self,
        metadata: &'static Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        if self.records(metadata) {
            tracing::subscriber::Interest::always()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.records(metadata)
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(if self.logs {
            tracing::level_filters::LevelFilter::DEBUG
        } else {
            tracing::level_filters::LevelFilter::INFO
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !thread::is_recording() {
            return;
        }
        let metadata = event.metadata();
        if self.logs {
            let mut line = Line(format!("{:<5} {}", metadata.level(), metadata.target()));
            event.record(&mut line);
            thread::note(Noted::Log(line.0));
        }
        if metadata.target() == MILESTONE {
            let mut fields = Fields(Vec::with_capacity(4));
            event.record(&mut fields);
            thread::note(Noted::Milestone { name: metadata.name(), fields: fields.0 });
        }
    }
}

/// Collects the fields of a milestone.
struct Fields(Vec<(&'static str, MilestoneValue)>);

impl Fields {
    fn push(&mut self, field: &Field, value: MilestoneValue) {
        if field.name() != "message" {
            self.0.push((field.name(), value));
        }
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push(field, MilestoneValue::Number(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        let value = u64::try_from(value)
            .map_or_else(|_| MilestoneValue::Text(value.to_string()), MilestoneValue::Number);
        self.push(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, MilestoneValue::Number(value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push(field, MilestoneValue::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() != "message" {
            self.push(field, MilestoneValue::Text(format!("{value:?}")));
        }
    }
}

/// Formats an event as a line.
struct Line(String);

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, "  {}={value}", field.name());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = if field.name() == "message" {
            write!(self.0, "  {value:?}")
        } else {
            write!(self.0, "  {}={value:?}", field.name())
        };
        written.expect("writing to a string succeeds");
    }
}
