//! One line of a story: a time, a place, an event, and its trigger. Also formats such lines.

use anstyle::{AnsiColor, Style};

use crate::history::Time;

/// One line of a story.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryLine {
    /// The time.
    pub at: Time,
    /// The place: a host, `network`, or `broken`.
    pub place: String,
    /// The event.
    pub text: String,
    /// The trigger that a step waited for: `after counter.client.connected`.
    pub after: Option<String>,
    /// The kind of line.
    pub tone: Tone,
}

/// The kind of a line, which selects its colour if colours are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// An action or an observation of product code.
    #[default]
    Plain,
    /// An action of the schedule.
    Schedule,
    /// Something ended successfully.
    Good,
    /// Something ended with an error.
    Bad,
    /// A property was violated here.
    Broken,
    /// A detail that most readers can skip.
    Quiet,
}

impl Tone {
    /// Returns the colour of this kind.
    pub fn style(self) -> Style {
        match self {
            Tone::Plain => Style::new(),
            Tone::Schedule => AnsiColor::Cyan.on_default(),
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Yellow.on_default(),
            Tone::Broken => AnsiColor::Red.on_default().bold(),
            Tone::Quiet => Style::new().dimmed(),
        }
    }
}

/// Returns text in a style, or plain text if the style is plain. The caller removes the escape
/// codes if the output is not a terminal.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The width of the time column: up to `9999.999 s`, after two spaces.
const TIMES: usize = 12;
/// The maximum width of the place column.
const PLACES: usize = 14;
/// The minimum width of the text, even on a narrow page.
const TEXT: usize = 24;

/// Formats lines in columns for a page of this width. Text that is too long continues on the next
/// line.
pub fn set(lines: &[StoryLine], width: usize) -> String {
    let places = lines.iter().map(|line| chars(&line.place)).max().unwrap_or(0).min(PLACES);
    let left = TIMES + 2 + places + 2;
    let room = width.saturating_sub(left).max(TEXT);
    let causes =
        lines.iter().filter_map(|line| line.after.as_deref()).map(chars).max().unwrap_or(0);
    let texts = lines
        .iter()
        .filter(|line| line.after.is_some())
        .map(|line| chars(&line.text))
        .max()
        .unwrap_or(0);
    let beside = (texts + 4 + causes <= room).then_some(texts + 4);
    lines.iter().map(|line| set_one(line, places, left, room, beside)).collect()
}

fn set_one(
    line: &StoryLine,
    places: usize,
    left: usize,
    room: usize,
    beside: Option<usize>,
) -> String {
    let style = line.tone.style();
    let mut text = wrap(&line.text, room).into_iter();
    let mut first = text.next().unwrap_or_default();
    let after = line.after.as_deref();
    // If there is no room for a column of triggers, a trigger that fits goes after its text, and
    // any other one goes below.
    let alone = after
        .filter(|after| chars(&line.text) + 4 + chars(after) <= room)
        .map(|_| chars(&first) + 4);
    let beside = beside.or(alone);
    if let (Some(column), Some(after)) = (beside, after) {
        let gap = column.saturating_sub(chars(&first));
        first = format!("{}{:gap$}{}", paint(style, &first), "", paint(Tone::Quiet.style(), after));
    } else {
        first = paint(style, &first);
    }
    let mut set = format!("{:>TIMES$}  {:<places$}  {first}\n", line.at, line.place);
    for more in text {
        set += &format!("{:left$}  {}\n", "", paint(style, &more));
    }
    if let (None, Some(after)) = (beside, after) {
        for more in wrap(after, room) {
            set += &format!("{:left$}  {}\n", "", paint(Tone::Quiet.style(), &more));
        }
    }
    set
}

/// Breaks text into pieces of at most `width` characters, between words if possible. The result is
/// never empty.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split([' ', '\n', '\r', '\t']).filter(|word| !word.is_empty()) {
        if let Some(last) = pieces.last_mut().filter(|last| chars(last) + 1 + chars(word) <= width)
        {
            last.push(' ');
            last.push_str(word);
            continue;
        }
        let mut rest = word;
        while !rest.is_empty() {
            let cut = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
            pieces.push(rest[..cut].to_owned());
            rest = &rest[cut..];
        }
    }
    if pieces.is_empty() {
        pieces.push(String::new());
    }
    pieces
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: u64, place: &str, text: &str, after: Option<&str>) -> StoryLine {
        let (place, text, after) = (place.to_owned(), text.to_owned(), after.map(str::to_owned));
        StoryLine { at: Time(at), place, text, after, tone: Tone::Plain }
    }

    #[test]
    fn columns_are_aligned() {
        let lines = [
            line(1000, "client", "watch stream s1", None),
            line(
                3412,
                "network",
                "stall client#2 toward client, 800 ms",
                Some("after counter.client.connected"),
            ),
            line(104_231, "network", "cut client#2", Some("after counter.client.gap")),
        ];
        insta::assert_snapshot!(set(&lines, 120), @r"
          1.000 s  client   watch stream s1
          3.412 s  network  stall client#2 toward client, 800 ms    [2mafter counter.client.connected[0m
        104.231 s  network  cut client#2                            [2mafter counter.client.gap[0m
        ");
    }

    #[test]
    fn on_a_narrow_page_text_continues_on_the_next_line() {
        let lines = [line(
            3412,
            "network",
            "stall client#2 toward client, 800 ms",
            Some("after counter.client.connected"),
        )];
        insta::assert_snapshot!(set(&lines, 50), @r"
        3.412 s  network  stall client#2 toward
                            client, 800 ms
                            [2mafter[0m
                            [2mcounter.client.connected[0m
        ");
    }

    #[test]
    fn a_word_wider_than_the_page_is_broken() {
        assert_eq!(wrap("abcdef gh", 4), ["abcd", "ef", "gh"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("äöü äöü", 3), ["äöü", "äöü"]);
    }
}
