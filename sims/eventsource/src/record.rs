//! The events of our server, as a client for standard server-sent events sees them: an id and data.

use reknit_sse::wire::{Cursor, Event, Record};

/// Returns the record in the data of a server-sent event, and checks its id: an event of the log has its
/// own cursor.
///
/// # Panics
/// If the data is not a record, or the id is not that of the record.
pub fn record(id: &str, data: &str) -> Record {
    let record = Record::from_json(data).expect("a record");
    if let Some(position) = record.position {
        let cursor: Cursor = id.parse().expect("a cursor");
        assert!(cursor.epoch.is_some() && cursor.after == position, "{id}: {record:?}");
    }
    record
}

/// Returns the line of an output event, without its end.
pub fn line(record: &Record) -> Option<String> {
    let Event::Output(_, bytes) = &record.event else { return None };
    Some(String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned())
}
