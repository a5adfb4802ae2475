//! How events are written: the frames of execd, and standard server-sent events.
//!
//! execd writes the JSON of an event and a blank line, without the field names of the standard, so
//! that a browser cannot read it. A client that accepts `text/event-stream` by name receives
//! standard events: `id:` with the cursor after the event, and `data:` with the same JSON. There is no
//! `event:`, because a browser uses the name `error` for its own events. By the standard, an event that is
//! not in the log would need no `id:`, and `retry:` could stand alone. But clients exist that then forget
//! their cursor, and ignore the time, so every event repeats the cursor, and `retry:` is a field of the
//! first one.

use std::time::Duration;

use bytes::Bytes;

use super::{Cursor, Record};

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// As execd writes them: the JSON and a blank line.
    #[default]
    Execd,
    /// As standard server-sent events.
    Standard,
}

impl Framing {
    /// The media type of both.
    pub const MEDIA_TYPE: &'static str = "text/event-stream";

    /// Returns the framing for a request with this `Accept` header: the standard one if it names
    /// `text/event-stream`. Without the header, or with wildcards only, the frames are those of
    /// execd.
    pub fn accepted(accept: Option<&str>) -> Self {
        let asks = |range: &str| {
            let mut parts = range.split(';').map(str::trim);
            let named =
                parts.next().is_some_and(|name| name.eq_ignore_ascii_case(Self::MEDIA_TYPE));
            let refused = |part: &str| {
                let quality = part.strip_prefix("q=").or(part.strip_prefix("Q="));
                quality.is_some_and(|quality| quality.parse() == Ok(0.0))
            };
            named && !parts.any(refused)
        };
        let standard = accept.is_some_and(|accept| accept.split(',').any(asks));
        if standard { Self::Standard } else { Self::Execd }
    }

    /// Writes one event. `cursor` is the place after it, or after the events before it if it is not in
    /// the log.
    pub fn encode(self, cursor: Cursor, record: &Record) -> Bytes {
        let json = record.to_json();
        if self == Self::Execd {
            return Bytes::from(json + "\n\n");
        }
        Bytes::from(format!("id: {cursor}\ndata: {json}\n\n"))
    }

    /// Returns what the first event begins with: the time after which a standard client reconnects.
    pub fn prelude(self, retry: Duration) -> Bytes {
        match self {
            Self::Execd => Bytes::new(),
            Self::Standard => Bytes::from(format!("retry: {}\n", retry.as_millis())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Epoch, Event, OutputStream};
    use super::*;

    #[test]
    fn only_a_client_that_names_the_media_type_gets_standard_events() {
        for (accept, framing) in [
            (None, Framing::Execd),
            (Some(""), Framing::Execd),
            (Some("*/*"), Framing::Execd),
            (Some("text/*"), Framing::Execd),
            (Some("application/json"), Framing::Execd),
            (Some("text/event-stream;q=0, */*"), Framing::Execd),
            (Some("text/event-stream; q=0.0"), Framing::Execd),
            (Some("text/event-stream"), Framing::Standard),
            (Some("application/json, Text/Event-Stream;q=0.5"), Framing::Standard),
        ] {
            assert_eq!(Framing::accepted(accept), framing, "{accept:?}");
        }
    }

    #[test]
    fn every_standard_event_has_the_cursor_as_its_id() {
        let cursor = Cursor::new(Epoch(1), 7);
        let event = Event::Output(OutputStream::Stdout, "a\n".into());
        let line = Record { position: Some(7), timestamp: 0, event };
        let ping = Record::unlogged(0, Event::Ping);
        let json = r#"{"eid":7,"type":"stdout","text":"a"}"#;
        assert_eq!(Framing::Execd.encode(cursor, &line), format!("{json}\n\n"));
        assert_eq!(
            Framing::Standard.encode(cursor, &line),
            format!("id: 0000000000000001-7\ndata: {json}\n\n")
        );
        assert_eq!(
            Framing::Standard.encode(cursor, &ping),
            "id: 0000000000000001-7\ndata: {\"type\":\"ping\",\"text\":\"pong\"}\n\n"
        );
    }

    #[test]
    fn a_standard_stream_starts_with_the_time_to_reconnect() {
        let second = Duration::from_secs(1);
        assert_eq!(Framing::Execd.prelude(second), "");
        assert_eq!(Framing::Standard.prelude(second), "retry: 1000\n");
    }
}
