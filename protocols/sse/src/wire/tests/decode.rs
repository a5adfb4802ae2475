use proptest::prelude::*;

use super::super::event::tests::records;
use super::super::{Epoch, Event, Framing};
use super::*;

const MOST: usize = 1 << 16;

/// Reads `text` in pieces that end at `cuts`.
fn read(text: &[u8], cuts: &[usize]) -> Result<Vec<Decoded>, DecodeError> {
    let mut decoder = Decoder::new(MOST);
    let mut from = 0;
    for to in cuts.iter().copied().chain([text.len()]) {
        let to = to.clamp(from, text.len());
        decoder.feed(&text[from..to])?;
        from = to;
    }
    Ok(std::iter::from_fn(|| decoder.next()).collect())
}

fn events(text: &str) -> Vec<Event> {
    read(text.as_bytes(), &[]).unwrap().into_iter().map(|one| one.record.event).collect()
}

#[test]
fn comments_names_and_unknown_fields_are_skipped() {
    let text = ": hello\nevent: error\nfoo: bar\nnothing\ndata: {\"type\":\"ping\"}\n\n";
    assert_eq!(events(text), [Event::Ping]);
}

#[test]
fn every_end_of_line_and_a_byte_order_mark_are_accepted() {
    for end in ["\n", "\r", "\r\n"] {
        let text = format!("\u{feff}data: {{\"type\":{end}data:\"ping\"}}{end}{end}");
        assert_eq!(events(&text), [Event::Ping], "{end:?}");
    }
}

#[test]
fn an_event_without_its_blank_line_is_not_complete() {
    assert_eq!(events("data: {\"type\":\"ping\"}\n"), []);
    assert_eq!(events("{\"type\":\"ping\"}"), []);
    let mut decoder = Decoder::new(MOST);
    decoder.feed(b"data: {}\n").unwrap();
    assert!(!decoder.is_between_frames());
    decoder.feed(b"\n").unwrap();
    assert!(decoder.is_between_frames());
}

#[test]
fn an_id_belongs_to_its_own_event_only() {
    let text = "id: 0000000000000001-4\ndata: {}\n\ndata: {}\n\nid: what\ndata: {}\n\n";
    let cursors: Vec<_> =
        read(text.as_bytes(), &[]).unwrap().iter().map(|one| one.cursor).collect();
    assert_eq!(cursors, [Some(Cursor::new(Epoch(1), 4)), None, None]);
}

#[test]
fn the_time_to_reconnect_is_remembered() {
    let mut decoder = Decoder::new(MOST);
    decoder.feed(b"retry: x\nretry: -1\n\n").unwrap();
    assert_eq!(decoder.retry(), None);
    decoder.feed(b"retry: 250\n\n").unwrap();
    assert_eq!(decoder.retry(), Some(Duration::from_millis(250)));
}

#[test]
fn a_frame_over_the_limit_is_an_error_before_it_is_complete() {
    let mut decoder = Decoder::new(8);
    decoder.feed(b": 345678").unwrap();
    assert!(matches!(decoder.feed(b"9"), Err(DecodeError::TooLarge(8))));
    let mut decoder = Decoder::new(12);
    decoder.feed(b"data: 1234\n").unwrap();
    assert!(
        matches!(decoder.feed(b"data: 567"), Err(DecodeError::TooLarge(12))),
        "both lines count"
    );
}

#[test]
fn a_line_that_is_not_utf_8_is_an_error() {
    assert!(matches!(read(b"data: \xff\n\n", &[]), Err(DecodeError::NotUtf8)));
}

proptest! {
    #[test]
    fn a_stream_is_read_back_however_it_is_cut(
        all in prop::collection::vec(records(), 0..5),
        standard: bool,
        cuts in prop::collection::vec(0..400_usize, 0..8),
    ) {
        let framing = if standard { Framing::Standard } else { Framing::Execd };
        let mut text = framing.prelude(Duration::from_secs(1)).to_vec();
        let cursor = Cursor::new(Epoch(9), 4);
        all.iter().for_each(|record| text.extend(framing.encode(cursor, record)));
        let mut cuts = cuts;
        cuts.sort_unstable();
        let decoded = read(&text, &cuts).unwrap();
        let read: Vec<_> = decoded.iter().map(|one| one.record.clone()).collect();
        prop_assert_eq!(read, all);
        for one in decoded {
            prop_assert_eq!(one.cursor, standard.then_some(cursor));
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic_or_hold_more_than_its_limit(bytes: Vec<u8>) {
        let mut decoder = Decoder::new(16);
        for byte in bytes {
            if decoder.feed(&[byte]).is_err() {
                break;
            }
            prop_assert!(decoder.line.len() + decoder.data.as_ref().map_or(0, String::len) <= 16 + 1);
        }
    }
}
