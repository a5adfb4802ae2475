//! One line of a story: a time, a place, what happened there, and what it waited for; and how lines are set.

use anstyle::{AnsiColor, Style};

use crate::history::Time;

/// One line of a story.
#[derive(Clone, Debug, PartialEq)]
pub struct StoryLine {
    /// When.
    pub at: Time,
    /// Where: a host, `network`, or `broken`.
    pub place: String,
    /// What.
    pub text: String,
    /// What it waited for: `after counter.client.connected`.
    pub after: Option<String>,
    /// How it is to be read.
    pub tone: Tone,
}

/// How a line is to be read: its colour, where there are colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Something that product code did or saw.
    #[default]
    Plain,
    /// The schedule acted.
    Schedule,
    /// Something ended well.
    Good,
    /// Something ended badly.
    Bad,
    /// A property broke here.
    Broken,
    /// Only for those who look closely.
    Quiet,
}

impl Tone {
    /// Its colour.
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

/// Text in a style; plain where the style is. Whoever prints strips what a terminal would not show.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// How wide the column of times is: up to `9999.999 s`, with two blanks before it.
const TIMES: usize = 12;
/// How wide the column of places is at most.
const PLACES: usize = 14;
/// The text has at least so much room, however narrow the page.
const TEXT: usize = 24;

/// Sets lines in columns on a page of this width. Text that is too long goes on below itself.
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
    // Where the column of causes has no room, a cause that has stands behind its text, and the others below.
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

/// Breaks text into pieces of at most `width` characters, between words where that is possible. Never empty.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut pieces = vec![String::new()];
    for word in text.split([' ', '\n', '\r', '\t']).filter(|word| !word.is_empty()) {
        let last = pieces.last_mut().expect("there is always a piece");
        if last.is_empty() {
            last.push_str(word);
        } else if chars(last) + 1 + chars(word) <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            pieces.push(word.to_owned());
        }
        while chars(pieces.last().expect("there is always a piece")) > width {
            let long = pieces.pop().expect("there is always a piece");
            let cut = long.char_indices().nth(width).map_or(long.len(), |(at, _)| at);
            pieces.push(long[..cut].to_owned());
            pieces.push(long[cut..].to_owned());
        }
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
    fn on_a_narrow_page_text_goes_on_below_itself() {
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
