//! Tests of catch-ups that are longer than what a connection carries.

use super::*;

/// The size of the first page after a lost catch-up.
const PAGE: u64 = 64 << 10;

/// Cuts the connection and reconnects up to the catch-up read.
fn back_again(test: &mut CoreTest) {
    test.cut();
    test.advance(millis(1000));
    test.complete_handshake();
}

/// Creates a core whose catch-up with `p1` was lost once, and has begun again.
fn lost_once() -> (CoreTest, ObservedProcess) {
    let (mut test, [p1]) = CoreTest::running(["p1"]);
    back_again(&mut test);
    test.expect_read("p1", 0);
    back_again(&mut test);
    (test, p1)
}

/// Returns output of three quarters of a first page.
fn long() -> String {
    "x".repeat(48 << 10)
}

/// Returns the number of the last published event of `p1`.
fn published(test: &CoreTest) -> u64 {
    test.core.processes["p1"].published()
}

#[tokio::test(start_paused = true)]
async fn pages_are_kept_over_several_connections() {
    let (mut test, _p1) = lost_once();
    let id = test.expect_page("p1", 0, PAGE);
    test.reply(id, &answer(&[(1, &long())], 2, None, false));
    assert_eq!((published(&test), test.state()), (1, State::Recovering));
    test.expect_page("p1", 1, 2 * PAGE);
    back_again(&mut test);
    let id = test.expect_page("p1", 1, PAGE / 8);
    test.reply(id, &answer(&[(2, &long())], 3, None, false));
    let id = test.expect_page("p1", 2, PAGE / 4);
    test.reply(id, &answer(&[(3, "short")], 4, None, false));
    let id = test.expect_read("p1", 3);
    test.reply(id, &answer(&[(4, "last")], 5, None, false));
    assert_eq!((published(&test), test.state()), (4, State::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_read_whose_answer_was_too_long_is_repeated_in_pages() {
    let (mut test, [_p1]) = CoreTest::running(["p1"]);
    test.on_report(CoreTest::output("p1", 2, "b"));
    test.advance(millis(1000));
    test.expect_read("p1", 0);
    test.cut_by(LinkError::TooLong);
    test.complete_handshake();
    test.expect_page("p1", 0, PAGE);
}

#[tokio::test(start_paused = true)]
async fn pages_shrink_to_one_chunk() {
    let (mut test, _p1) = lost_once();
    for bytes in [PAGE, 4_096, 256, 16, 1, 1] {
        test.expect_page("p1", 0, bytes);
        back_again(&mut test);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_outage_begins_with_one_read_again() {
    let (mut test, _p1) = lost_once();
    let id = test.expect_page("p1", 0, PAGE);
    test.reply(id, &answer(&[], 1, None, false));
    let id = test.expect_read("p1", 0);
    test.reply(id, &answer(&[], 1, None, false));
    assert_eq!(test.state(), State::Connected);
    back_again(&mut test);
    test.expect_read("p1", 0);
}

/// The server of codex reports exit and close of the whole process with each page, and counts only
/// the chunks of the page.
#[tokio::test(start_paused = true)]
async fn exit_and_close_in_a_page_do_not_end_the_process() {
    let (mut test, p1) = lost_once();
    let id = test.expect_page("p1", 0, PAGE);
    test.reply(id, &answer(&[(1, &long())], 2, Some(7), true));
    assert_eq!((published(&test), test.state()), (1, State::Recovering));
    let id = test.expect_page("p1", 1, 2 * PAGE);
    test.reply(id, &answer(&[(2, "b")], 3, Some(7), true));
    let id = test.expect_read("p1", 2);
    test.reply(id, &answer(&[], 5, Some(7), true));
    assert!(p1.events_text().ends_with(" 2=b 3=exit(7) 4=closed"));
    assert_eq!(test.state(), State::Connected);
}

#[tokio::test(start_paused = true)]
async fn output_behind_an_exit_without_a_number_is_kept_over_several_connections() {
    let (mut test, p1) = lost_once();
    let id = test.expect_page("p1", 0, PAGE);
    test.reply(id, &answer(&[(1, "a"), (3, &long())], 4, Some(7), true));
    assert_eq!(p1.events_text(), "1=a", "2 may be the exit");
    test.expect_page("p1", 3, 2 * PAGE);
    back_again(&mut test);
    let id = test.expect_page("p1", 3, PAGE / 8);
    test.reply(id, &answer(&[(4, "d")], 5, Some(7), true));
    let id = test.expect_read("p1", 4);
    test.reply(id, &answer(&[], 6, Some(7), true));
    assert!(p1.events_text().starts_with("1=a 2=exit(7) 3=x"));
    assert!(p1.events_text().ends_with(" 4=d 5=closed"));
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_missing_in_a_page_is_a_gap() {
    let hole = answer(&[(2, "b")], 3, None, false);
    let holes = answer(&[(1, "a"), (4, "d")], 5, Some(0), true);
    for (page, reported) in [
        (hole, "failed: gap: event 1 is no longer retained, but event 2 is"),
        (holes, "failed: gap: event 2 is no longer retained, but event 4 is"),
    ] {
        let (mut test, p1) = lost_once();
        let id = test.expect_page("p1", 0, PAGE);
        test.reply(id, &page);
        assert_eq!((p1.events_text().as_str(), test.state()), (reported, State::Connected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_contradicts_itself_fails_its_process() {
    let (mut test, p1) = lost_once();
    let id = test.expect_page("p1", 0, PAGE);
    test.reply(id, &answer(&[(2, "b"), (1, "a")], 3, None, false));
    assert_eq!(p1.events_text(), "failed: the server contradicts itself about the process");
}

#[tokio::test(start_paused = true)]
async fn a_full_log_ends_the_pages() {
    let limits = ClientLimits { log_bytes: 50 << 10, ..ClientLimits::default() };
    let mut test = CoreTest::with(limits);
    test.complete_handshake();
    let _p1 = test.started("p1");
    back_again(&mut test);
    test.expect_read("p1", 0);
    back_again(&mut test);
    let id = test.expect_page("p1", 0, PAGE);
    test.reply(id, &answer(&[(1, &long()), (2, &long())], 3, None, false));
    assert_eq!((published(&test), test.state()), (2, State::Connected), "a whole page has room");
    assert!(test.nothing_sent(), "the next one has not");
}

/// Ends the connection, and returns how long the client pauses.
fn pause_after(test: &mut CoreTest) -> Duration {
    let (begin, opened) = (test.now, test.opened);
    test.on_report(Report::Over(CloseReason::FoundDead));
    while test.opened == opened {
        test.advance(millis(1));
    }
    test.now - begin
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_brings_events_shortens_the_pauses() {
    let (mut test, _p1) = lost_once();
    for _ in 0..6 {
        test.expect_request("process/read");
        pause_after(&mut test);
        test.complete_handshake();
    }
    let id = test.expect_page("p1", 0, 1);
    test.reply(id, &answer(&[(1, "a")], 2, None, false));
    test.expect_page("p1", 1, 2);
    assert!(pause_after(&mut test) <= millis(101), "a page arrived");
    test.complete_handshake();
    test.expect_request("process/read");
    assert!(pause_after(&mut test) >= millis(100), "none arrived");
}

#[tokio::test(start_paused = true)]
async fn an_installed_connection_that_brings_events_shortens_the_pauses() {
    for (brought, least, most) in [(0, 500, 1001), (1, 50, 101), (15, 50, 101), (16, 0, 0)] {
        let (mut test, _p1) = CoreTest::running(["p1"]);
        let caught_up = |test: &mut CoreTest| {
            test.complete_handshake();
            let id = test.expect_read("p1", 0);
            test.reply(id, &answer(&[], 1, None, false));
        };
        for _ in 0..9 {
            pause_after(&mut test);
            caught_up(&mut test);
        }
        (1..=brought).for_each(|seq| test.on_report(CoreTest::output("p1", seq, "a")));
        let pause = pause_after(&mut test);
        assert!((millis(least)..=millis(most)).contains(&pause), "{brought} events: {pause:?}");
    }
}
