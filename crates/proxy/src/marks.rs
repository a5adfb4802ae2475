//! Finds the moments of a script in one direction of a connection.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::frames::{Frames, Part};
use super::script::{End, MessagePattern, Moment, Place, Script};

/// How many requests without an answer the proxy remembers for each direction.
const OPEN_REQUESTS: usize = 16 * 1024;

/// The next step of the proxy in one direction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Forward(Bytes),
    /// The rules at these places of the script fire.
    Fire(Vec<usize>),
}

/// The methods of the requests without an answer, by id.
#[derive(Default)]
pub(crate) struct Requests {
    to_client: Mutex<BTreeMap<String, String>>,
    to_server: Mutex<BTreeMap<String, String>>,
}

impl Requests {
    fn toward(&self, end: End) -> &Mutex<BTreeMap<String, String>> {
        match end {
            End::Client => &self.to_client,
            End::Server => &self.to_server,
        }
    }
}

/// The moments of one direction.
pub(crate) struct Marks {
    toward: End,
    requests: Arc<Requests>,
    /// Reads the messages, if a rule waits for one.
    frames: Option<Frames>,
    messages: Vec<Waiting>,
    /// The rules that wait for a number of bytes; the last one has the lowest number.
    bytes: Vec<(u64, usize)>,
    texts: Vec<Text>,
    forwarded: u64,
}

/// A rule that waits for a text.
struct Text {
    rule: usize,
    finder: Finder<'static>,
    /// The last bytes of the stream, fewer than the text has.
    tail: Vec<u8>,
}

impl Text {
    /// Returns where the text ends in these bytes, the next of the stream.
    fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.tail.len();
        self.tail.extend_from_slice(bytes);
        let length = self.finder.needle().len();
        // The text was not in the tail alone, so it ends in the new bytes.
        let end = self.finder.find(&self.tail).map(|start| start + length - before);
        self.tail.drain(..(self.tail.len() + 1).saturating_sub(length.max(1)));
        end
    }
}

/// A rule that waits for a message.
struct Waiting {
    rule: usize,
    pattern: MessagePattern,
    /// How many matching messages are still to come, with the one that it waits for.
    left: u32,
}

/// The part of a message that rules look at.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

impl Marks {
    pub(crate) fn new(script: &Script, conn: u32, toward: End, requests: Arc<Requests>) -> Self {
        let rules = || {
            let all = script.rules.iter().enumerate();
            all.filter(move |(_, rule)| rule.conn.is_none_or(|number| number == conn))
        };
        // An answer is matched by its request, which flows the other way.
        let reads = rules().any(|(_, rule)| matches!(rule.at, Moment::Message(_)));
        let messages = rules().filter_map(|(index, rule)| match &rule.at {
            Moment::Message(pattern) if pattern.toward == toward => {
                Some(Waiting { rule: index, pattern: pattern.clone(), left: pattern.nth.max(1) })
            }
            _ => None,
        });
        let mut bytes: Vec<_> = rules()
            .filter_map(|(index, rule)| match rule.at {
                Moment::Bytes { toward: end, count } if end == toward => Some((count, index)),
                _ => None,
            })
            .collect();
        bytes.sort_by(|one, other| other.cmp(one));
        let texts = rules().filter_map(|(index, rule)| match &rule.at {
            Moment::Text { toward: end, text } if *end == toward => {
                Some(Text { rule: index, finder: Finder::new(text).into_owned(), tail: Vec::new() })
            }
            _ => None,
        });
        Self {
            toward,
            requests,
            frames: reads.then(|| Frames::new(toward)),
            messages: messages.collect(),
            texts: texts.collect(),
            bytes,
            forwarded: 0,
        }
    }

    /// Takes the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: Bytes) -> Vec<Step> {
        let mut steps = Vec::new();
        let Some(frames) = &mut self.frames else {
            self.forward(bytes, &mut steps);
            return steps;
        };
        for part in frames.push(&bytes) {
            match part {
                Part::Other(bytes) => self.forward(bytes, &mut steps),
                Part::Message { raw, text } => self.message(raw, &text, &mut steps),
            }
        }
        steps
    }

    /// Takes the end of the stream.
    pub(crate) fn end(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(frames) = &mut self.frames {
            let rest = frames.rest();
            self.forward(rest, &mut steps);
        }
        steps
    }

    fn message(&mut self, mut raw: Bytes, text: &[u8], steps: &mut Vec<Step>) {
        let hits = self.hits(text);
        let fire = |place: Place, steps: &mut Vec<Step>| {
            let rules: Vec<_> = hits.iter().filter(|hit| hit.0 == place).map(|hit| hit.1).collect();
            if !rules.is_empty() {
                steps.push(Step::Fire(rules));
            }
        };
        fire(Place::Before, steps);
        if hits.iter().any(|hit| hit.0 == Place::Middle) {
            let half = raw.split_to(raw.len() / 2);
            self.forward(half, steps);
            fire(Place::Middle, steps);
        }
        self.forward(raw, steps);
        fire(Place::After, steps);
    }

    /// Returns the rules that wait for this message.
    fn hits(&mut self, text: &[u8]) -> Vec<(Place, usize)> {
        let (method, answered) = self.identify(text);
        let mut hits = Vec::new();
        self.messages.retain_mut(|waiting| {
            let pattern = &waiting.pattern;
            let fits = |wanted: &Option<String>, found: &Option<String>| {
                wanted.is_none() || wanted == found
            };
            if fits(&pattern.method, &method) && fits(&pattern.answer_to, &answered) {
                waiting.left -= 1;
            }
            if waiting.left == 0 {
                hits.push((pattern.place, waiting.rule));
            }
            waiting.left > 0
        });
        hits
    }

    /// Returns the method of a request or notification, or the method that an answer is for.
    fn identify(&self, text: &[u8]) -> (Option<String>, Option<String>) {
        let Ok(Head { id, method }) = serde_json::from_slice(text) else { return (None, None) };
        let id = id.map(|id| id.get().to_owned());
        match (id, method) {
            (Some(id), Some(method)) => {
                let mut open = lock(self.requests.toward(self.toward));
                if open.len() < OPEN_REQUESTS {
                    open.insert(id, method.clone().into_owned());
                }
                (Some(method.into_owned()), None)
            }
            (Some(id), None) => (None, lock(self.requests.toward(self.toward.other())).remove(&id)),
            (None, method) => (method.map(Cow::into_owned), None),
        }
    }

    fn forward(&mut self, mut bytes: Bytes, steps: &mut Vec<Step>) {
        if bytes.is_empty() {
            return;
        }
        // From here on, a text that was found is a number of bytes.
        let found = self.texts.extract_if(.., |text| match text.end_in(&bytes) {
            Some(end) => {
                self.bytes.push((self.forwarded + end as u64, text.rule));
                true
            }
            None => false,
        });
        if found.count() > 0 {
            self.bytes.sort_by(|one, other| other.cmp(one));
        }
        while let Some(count) = self.bytes.last().map(|mark| mark.0)
            && count <= self.forwarded + bytes.len() as u64
        {
            let at = self.bytes.partition_point(|mark| mark.0 > count);
            let rules = self.bytes.split_off(at).into_iter().rev().map(|mark| mark.1).collect();
            let before = bytes.split_to((count - self.forwarded) as usize);
            self.forwarded = count;
            if !before.is_empty() {
                steps.push(Step::Forward(before));
            }
            steps.push(Step::Fire(rules));
        }
        self.forwarded += bytes.len() as u64;
        if !bytes.is_empty() {
            steps.push(Step::Forward(bytes));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under the lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
    const ANSWER: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    fn script(rules: &str) -> Script {
        toml::from_str(rules).unwrap()
    }

    fn text(message: &str) -> Bytes {
        let mut frame = vec![0x81, message.len() as u8];
        frame.extend(message.as_bytes());
        frame.into()
    }

    fn both(script: &Script) -> (Marks, Marks) {
        let requests = Arc::<Requests>::default();
        let mut to_server = Marks::new(script, 1, End::Server, requests.clone());
        let mut to_client = Marks::new(script, 1, End::Client, requests);
        to_server.push(REQUEST.into());
        to_client.push(ANSWER.into());
        (to_server, to_client)
    }

    #[test]
    fn a_message_is_found_by_its_method_or_by_the_request_that_it_answers() {
        let script = script(
            r#"
            rule = [
                { at = { message = { toward = "server", method = "b", nth = 2 } }, fault = { reset = {} } },
                { at = { message = { toward = "client", answer-to = "b", nth = 2, place = "before" } }, fault = { reset = {} } },
                { at = { message = { toward = "client", method = "note" } }, fault = { reset = {} } },
                { at = { message = { toward = "client", nth = 3, place = "middle" } }, fault = { reset = {} } },
                { conn = 2, at = { message = { toward = "client" } }, fault = { reset = {} } },
            ]"#,
        );
        let (mut to_server, mut to_client) = both(&script);
        let requests =
            [r#"{"id":1,"method":"b"}"#, r#"{"id":2,"method":"a"}"#, r#"{"id":3,"method":"b"}"#]
                .map(text);
        let steps = requests.clone().map(|bytes| to_server.push(bytes));
        let forward = |bytes: &Bytes| Step::Forward(bytes.clone());
        assert_eq!(steps[0], [forward(&requests[0])]);
        assert_eq!(steps[1], [forward(&requests[1])]);
        assert_eq!(steps[2], [forward(&requests[2]), Step::Fire(vec![0])]);

        let note = text(r#"{"method":"note"}"#);
        assert_eq!(to_client.push(note.clone()), [forward(&note), Step::Fire(vec![2])]);
        let answer = text(r#"{"result":{"method":"x"},"id":1}"#);
        assert_eq!(to_client.push(answer.clone()), [forward(&answer)]);
        let mut answer = text(r#"{"id":3,"error":{}}"#);
        let steps = to_client.push(answer.clone());
        let half = answer.split_to(answer.len() / 2);
        assert_eq!(
            steps,
            [Step::Fire(vec![1]), forward(&half), Step::Fire(vec![3]), forward(&answer)]
        );
    }

    #[test]
    fn bytes_are_counted_from_the_start_of_the_connection() {
        let script = script(
            r#"
            rule = [
                { at = { bytes = { toward = "client", count = 5 } }, fault = { reset = {} } },
                { at = { bytes = { toward = "client", count = 3 } }, fault = { reset = {} } },
            ]"#,
        );
        let mut marks = Marks::new(&script, 1, End::Client, Arc::default());
        let forward = |bytes: &'static [u8]| Step::Forward(bytes.into());
        assert_eq!(marks.push(b"ab"[..].into()), [forward(b"ab")]);
        let steps = marks.push(b"cdefg"[..].into());
        assert_eq!(
            steps,
            [
                forward(b"c"),
                Step::Fire(vec![1]),
                forward(b"de"),
                Step::Fire(vec![0]),
                forward(b"fg")
            ]
        );
    }

    #[test]
    fn a_text_is_found_in_pieces_and_once() {
        let script = script(
            r#"
            rule = [
                { at = { text = { toward = "client", text = "aab" } }, fault = { reset = {} } },
                { at = { text = { toward = "client", text = "b" } }, fault = { reset = {} } },
                { at = { text = { toward = "server", text = "c" } }, fault = { reset = {} } },
            ]"#,
        );
        let mut marks = Marks::new(&script, 1, End::Client, Arc::default());
        let forward = |bytes: &'static [u8]| Step::Forward(bytes.into());
        assert_eq!(marks.push(b"xa"[..].into()), [forward(b"xa")]);
        assert_eq!(marks.push(b"a"[..].into()), [forward(b"a")]);
        let steps = marks.push(b"abcaab"[..].into());
        assert_eq!(steps, [forward(b"ab"), Step::Fire(vec![0, 1]), forward(b"caab")]);
    }
}
