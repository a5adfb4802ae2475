//! Labels of the lines of a request, an answer, or a stream: `POST /command HTTP/1.1`, `stdout 3`,
//! `ping`.

use crate::subject::{Dissector, Label, LineMessages, Message};

/// A dissector for HTTP whose bodies consist of lines. It ignores headers, empty lines and the sizes of
/// chunks.
#[derive(Debug, Default)]
pub(super) struct HttpLines(LineMessages);

impl Dissector for HttpLines {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let lines = self.0.feed(bytes).into_iter();
        lines
            .filter_map(|Message { end, label }| {
                let label = label_of(&label.text())?;
                Some(Message { end, label: Label::Known(label) })
            })
            .collect()
    }
}

/// Returns the label of a line; `None` if the line is not the main part of a message.
fn label_of(line: &str) -> Option<String> {
    let line = line.strip_prefix("data:").unwrap_or(line).trim();
    if line.starts_with('{') {
        let kind = field(line, "type").unwrap_or_else(|| "json".to_owned());
        return Some(match field(line, "eid") {
            Some(position) => format!("{kind} {position}"),
            None => kind,
        });
    }
    let is_head = line.starts_with("HTTP/") || line.ends_with("HTTP/1.1");
    is_head.then(|| line.to_owned())
}

/// Returns the value of a field, from the beginning of a JSON object.
fn field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    Some(rest[..end].trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_answers_and_events_have_labels() {
        let mut lines = HttpLines::default();
        let text = "GET /command/p1/resume?after_eid=3 HTTP/1.1\r\nhost: server\r\n\r\nHTTP/1.1 200 OK\r\n\r\n4f\r\n{\"eid\":4,\"type\":\"stdout\",\"text\":\"x\"}\n\n\r\n{\"type\":\"ping\",\"text\":\"pong\"}\n";
        let labels = lines.feed(text.as_bytes()).into_iter().map(|message| message.label.text());
        assert_eq!(
            labels.collect::<Vec<_>>(),
            ["GET /command/p1/resume?after_eid=3 HTTP/1.1", "HTTP/1.1 200 OK", "stdout 4", "ping"]
        );
    }
}
