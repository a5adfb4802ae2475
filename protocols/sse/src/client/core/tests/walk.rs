//! Random servers, networks and users: what the user receives is the log, whatever happens.

use proptest::prelude::*;

use super::*;

/// The next event on the current connection.
#[derive(Clone, Debug)]
enum Happening {
    /// The server sends events from its log, beginning this far after or before the cursor.
    Sends {
        skip: i8,
        count: u8,
    },
    /// The server has dropped its log up to here.
    Drops(u8),
    Ping,
    Lost(Loss),
    Refused(u16, Option<u64>),
    Sleeps(u16),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (-2_i8..=2, 0_u8..6).prop_map(|(skip, count)| Happening::Sends { skip, count }),
        1 => (0_u8..30).prop_map(Happening::Drops),
        1 => Just(Happening::Ping),
        2 => prop::sample::select(vec![Loss::Broken, Loss::EndedEarly, Loss::NoAnswer])
            .prop_map(Happening::Lost),
        1 => (prop::sample::select(vec![408, 409, 503]), prop::option::of(0_u64..9000))
            .prop_map(|(status, retry)| Happening::Refused(status, retry)),
        1 => (0_u16..12_000).prop_map(Happening::Sleeps),
    ]
}

/// The log has this many events; the last one is the ending.
const LAST: u64 = 20;

fn logged(position: u64) -> Record {
    let event = match position {
        LAST => Event::Ended { ending: Ending::Exited(0), took: 0 },
        _ => Event::Output(OutputStream::Stdout, Bytes::from(position.to_string())),
    };
    Record { position: Some(position), timestamp: 0, event }
}

proptest! {
    #[test]
    fn the_user_receives_the_log_in_order_or_a_failure(
        script in prop::collection::vec(happening(), 1..120),
    ) {
        let mut play = Play::follow();
        let mut dropped = 0;
        let (mut next, mut over) = (1, None);
        for happening in script {
            // Everything that the core does until it waits.
            loop {
                match play.core.step(play.now) {
                    Step::Wait => break,
                    Step::Open(_) => {
                        prop_assert!(over.is_none());
                        if !matches!(happening, Happening::Refused(..)) {
                            play.core.opened(Some(EPOCH), play.now);
                        } else {
                            break;
                        }
                    }
                    Step::Return(Ok(Some(item))) => {
                        prop_assert!(over.is_none(), "an item after the end");
                        next = match &item {
                            Item::Output(_, bytes) => {
                                prop_assert_eq!(bytes, &next.to_string());
                                next + 1
                            }
                            Item::Gap(gap) => {
                                prop_assert_eq!(gap.first, next);
                                prop_assert!(gap.last <= dropped, "the server has the rest");
                                gap.last + 1
                            }
                            Item::Ended { .. } => {
                                prop_assert_eq!(next, LAST);
                                next + 1
                            }
                        };
                        prop_assert_eq!(play.core.cursor().after, next - 1);
                    }
                    Step::Return(end) => {
                        let end = end.map(drop);
                        if end.is_ok() {
                            prop_assert_eq!(next, LAST + 1, "success is the ending");
                        }
                        if let Some(before) = over.replace(end.clone()) {
                            prop_assert_eq!(before, end, "it is final");
                        }
                        prop_assert!(!play.core.has_connection() && play.core.due().is_none());
                        break;
                    }
                }
            }
            match happening {
                Happening::Sends { skip, count } => {
                    let from = (next + dropped.saturating_sub(next - 1)).saturating_add_signed(skip.into());
                    let gap = (dropped >= next).then(|| {
                        Record::unlogged(0, Event::Gap(Gap { first: next, last: dropped }))
                    });
                    let from = from.max(1);
                    let log = (from..=LAST).take(count.into()).map(logged);
                    play.core.arrived(gap.into_iter().chain(log), play.now);
                }
                Happening::Drops(until) => dropped = dropped.max(u64::from(until).min(LAST - 1)),
                Happening::Ping => {
                    play.core.arrived(std::iter::once(Record::unlogged(0, Event::Ping)), play.now);
                }
                Happening::Lost(loss) => play.core.lost(loss, play.now),
                Happening::Refused(status, retry) => { play.refuses(status, "", retry); }
                Happening::Sleeps(time) => play.sleep(Duration::from_millis(time.into())),
            }
        }
        // From now on the server and the network are well. The follower completes, or fails at once.
        for _ in 0..60 {
            match play.core.step(play.now) {
                Step::Wait => {
                    if play.core.cursor().after < LAST {
                        let next = play.core.cursor().after + 1;
                        let gap = (dropped >= next)
                            .then(|| Record::unlogged(0, Event::Gap(Gap { first: next, last: dropped })));
                        let log = (next.max(dropped + 1)..=LAST).map(logged);
                        play.core.arrived(gap.into_iter().chain(log), play.now);
                    }
                    if let Step::Return(Ok(None)) = play.core.step(play.now) {
                        break;
                    }
                    if let Some(due) = play.core.due() && !play.core.has_connection() {
                        play.now = due;
                        play.core.wake(due);
                    }
                }
                Step::Open(_) => play.core.opened(Some(EPOCH), play.now),
                Step::Return(Ok(Some(_))) => {}
                Step::Return(_) => break,
            }
        }
        prop_assert!(matches!(play.core.step(play.now), Step::Return(Ok(None) | Err(_))));
    }
}
