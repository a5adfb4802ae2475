//! The table of faults. A fault is one file here, with one line in the table.
//!
//! `tamper` changes what arrives. For all other rows, three rules apply:
//! - Segments that a fault blocks are delayed, not lost. A real TCP retransmits them, so they
//!   arrive after the fault, at the next retransmission (backoff from 200 ms, doubling, counted
//!   from the first loss). But the sender gives up a connection with `TimedOut` if its data stays
//!   unacknowledged for about 15 min 24 s, and an open fails if its SYN stays unanswered for 127 s.
//! - If a fault with a duration names a connection that does not exist yet, the fault waits for the
//!   connection. A `cut` or `reset` of such a connection does nothing, and the run records a note.
//! - A direction is named by the host toward which the packets flow.

use std::time::Duration;

use super::fault::draw::FaultDraw;
use super::fault::effect::Effect;
use super::fault::segment::{LinkEffects, Passing};
use super::fault::shape::FaultShape;
use super::fault::{Definition, Drawn, Felt, Lateness};
use super::names::Conn;
use super::words::fields::Parts;
use super::words::{FaultFields, FaultWord, FieldValue, Unfit};

mod accept_then_close;
mod blackhole;
mod clock_jump;
mod close_pipe;
mod crash;
mod cut;
mod cut_after;
mod delay;
mod delay_close;
mod delay_output;
mod flap;
mod hang;
mod hold;
mod kill_children;
mod loss;
mod partition;
mod power_loss;
mod refuse;
mod reorder;
mod reset;
mod restart;
mod slow;
mod slow_children;
mod stall;
mod stop_children;
mod tamper;

/// Generates the enum of faults, the enum of their kinds, and the functions that have one arm per
/// fault. The order of the rows is the order in docs, and the order in which kinds are drawn.
macro_rules! table {
    ($($file:ident::$fault:ident,)*) => {
        $(pub use $file::$fault;)*

        /// A fault, with its fields.
        #[allow(missing_docs)] // the struct of each is documented
        #[derive(Clone, PartialEq)]
        pub enum Fault {
            $($fault($fault),)*
        }

        impl std::fmt::Debug for Fault {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Fault::$fault(fault) => fault.fmt(f),)*
                }
            }
        }

        /// A kind of fault: a word of the table, without its fields.
        #[allow(missing_docs)] // the struct of each is documented
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $($fault,)*
        }

        /// The fault table.
        pub const WORDS: &[FaultWord] = &[$($fault::WORD),*];

        impl FaultKind {
            /// All kinds.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$fault),*];

            /// Returns how often faults of this kind are drawn; `None` if never.
            pub fn drawn(self) -> Option<Drawn> {
                match self {
                    $(FaultKind::$fault => $fault::DRAWN,)*
                }
            }

            /// Draws a fault of this kind; `None` if it cannot affect any host of the run.
            pub fn draw(self, from: &FaultDraw<'_>) -> Option<Fault> {
                match self {
                    $(FaultKind::$fault => $fault::draw(from).map(Fault::$fault),)*
                }
            }

            fn build(self, fields: &FaultFields) -> Fault {
                match self {
                    $(FaultKind::$fault => Fault::$fault($fault::build(fields)),)*
                }
            }
        }

        impl Fault {
            /// Returns its kind.
            pub fn kind(&self) -> FaultKind {
                match self {
                    $(Fault::$fault(_) => FaultKind::$fault,)*
                }
            }

            /// Returns the fields in the order of the table, without optional fields that have no
            /// effect.
            pub fn fields(&self) -> Vec<(&'static str, FieldValue)> {
                let mut parts = Parts::default();
                match self {
                    $(Fault::$fault(fault) => fault.fields(&mut parts),)*
                }
                let order =
                    |name: &str| self.word().fields.iter().position(|field| field.name == name);
                parts.0.sort_by_key(|(name, _)| order(name));
                parts.0
            }

            /// Describes the fault in a report.
            pub fn sentence(&self) -> String {
                match self {
                    $(Fault::$fault(fault) => fault.sentence(),)*
                }
            }

            /// Returns what it does when it begins.
            pub fn effect(&self) -> Effect<'_> {
                match self {
                    $(Fault::$fault(fault) => fault.effect(),)*
                }
            }

            /// Changes the fate of a segment that it affects.
            pub fn pass(&self, segment: &Passing, effects: &mut LinkEffects) {
                match self {
                    $(Fault::$fault(fault) => fault.pass(segment, effects),)*
                }
            }

            /// Returns how much later it can make data arrive.
            pub fn lateness(&self) -> Lateness {
                match self {
                    $(Fault::$fault(fault) => fault.lateness(),)*
                }
            }

            /// Returns when a connection that it names feels it.
            pub fn felt(&self) -> Felt<'_> {
                match self {
                    $(Fault::$fault(fault) => fault.felt(),)*
                }
            }
        }
    };
}

pub use slow::SlowBy;

table! {
    cut::Cut,
    cut_after::CutAfter,
    partition::Partition,
    stall::Stall,
    blackhole::Blackhole,
    delay::Delay,
    delay_close::DelayClose,
    reset::Reset,
    slow::Slow,
    loss::Loss,
    reorder::Reorder,
    flap::Flap,
    tamper::Tamper,
    refuse::Refuse,
    hang::Hang,
    accept_then_close::AcceptThenClose,
    hold::Hold,
    crash::Crash,
    power_loss::PowerLoss,
    restart::Restart,
    clock_jump::ClockJump,
    kill_children::KillChildren,
    stop_children::StopChildren,
    slow_children::SlowChildren,
    delay_output::DelayOutput,
    close_pipe::ClosePipe,
}

impl FaultWord {
    /// Returns the row with this name.
    pub fn find(name: &str) -> Option<&'static FaultWord> {
        FaultKind::ALL.iter().map(|kind| kind.word()).find(|word| word.name == name)
    }

    /// Builds a fault from its fields.
    ///
    /// # Errors
    /// If a field is missing, is not one of the word's, has the wrong type, or does not fit with
    /// another field.
    pub fn build(&self, fields: &FaultFields) -> Result<Fault, Unfit> {
        self.check(fields)?;
        let kind = FaultKind::ALL.iter().find(|kind| kind.word().name == self.name);
        Ok(kind.expect("every row is one of the table").build(fields))
    }
}

impl FaultKind {
    /// Returns its row of the table.
    pub fn word(self) -> &'static FaultWord {
        &WORDS[self as usize]
    }

    /// Returns the kinds that can be drawn.
    pub fn drawable() -> impl Iterator<Item = FaultKind> {
        Self::ALL.iter().copied().filter(|kind| kind.drawn().is_some())
    }

    /// Returns the default shape of a kind that can be drawn, with this weight.
    pub fn shape(self, weight: u64) -> FaultShape {
        let shape = self.drawn().map(|drawn| (drawn.shape)());
        FaultShape { weight, ..shape.unwrap_or_default() }
    }
}

impl std::fmt::Display for FaultKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word().name)
    }
}

impl Fault {
    /// Returns its row of the table.
    pub fn word(&self) -> &'static FaultWord {
        self.kind().word()
    }

    /// Returns the connection that it names.
    pub fn conn(&self) -> Option<&Conn> {
        self.effect().conn()
    }

    /// Returns the latency that it can add, if that has a limit.
    pub fn latency(&self) -> Duration {
        match self.lateness() {
            Lateness::AtMost { by, .. } => by,
            Lateness::Unbounded => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::schedule::words::{FieldType, Need};
    use crate::schedule::{
        HoldEnd, Host, Learns, LinkPlace, Orphans, Tampering, TrafficCount, Trigger, Unsynced,
    };

    fn rebuilt(fault: &Fault) -> Fault {
        fault.word().build(&FaultFields(fault.fields().into_iter().collect())).unwrap()
    }

    #[test]
    fn a_fault_survives_conversion_to_fields_and_back() {
        let (conn, host) = (Conn::number("client", 2), Host::from("server"));
        let second = Some(Duration::from_secs(1));
        let learns = BTreeMap::from([(host.clone(), Learns::Never)]);
        let until = Trigger::milestone("t.connected")
            .field("generation", 2)
            .delay(Duration::from_millis(200));
        for fault in [
            Fault::Cut(Cut { conn: conn.clone(), learns: learns.clone() }),
            Fault::CutAfter(CutAfter {
                conn: conn.clone(),
                toward: host.clone(),
                count: TrafficCount::Messages(3),
                learns,
            }),
            Fault::Delay(Delay {
                place: LinkPlace::Link("a".into(), "b".into()),
                toward: None,
                by: Duration::ZERO,
                lasts: second,
            }),
            Fault::Slow(Slow {
                place: LinkPlace::Conn(conn.clone()),
                toward: Some(host.clone()),
                by: SlowBy { window: Some(1), ..SlowBy::default() },
                lasts: None,
            }),
            Fault::Hold(Hold {
                end: HoldEnd::Until { trigger: Box::new(until), at_most: Duration::from_secs(5) },
            }),
            Fault::Crash(Crash { host: host.clone(), lasts: None, processes: Orphans::Live }),
            Fault::ClockJump(ClockJump { host, by_ms: -3000 }),
        ] {
            assert_eq!(rebuilt(&fault), fault);
        }
    }

    #[test]
    fn every_row_builds_a_fault_of_its_name_and_names_are_unique() {
        for (n, word) in WORDS.iter().enumerate() {
            let fault = word.build(&sample(word)).unwrap();
            assert_eq!((fault.word().name, rebuilt(&fault)), (word.name, fault.clone()));
            assert!(WORDS[..n].iter().all(|other| other.name != word.name), "{} twice", word.name);
        }
    }

    /// All fields of a word, except dependent fields and all but the first field of a group of
    /// which exactly one is required.
    fn sample(word: &FaultWord) -> FaultFields {
        let value = |kind| match kind {
            FieldType::Host => FieldValue::Host("server".into()),
            FieldType::Hosts => FieldValue::Hosts("client".into(), "server".into()),
            FieldType::Conn => FieldValue::Conn(Conn::last("client")),
            FieldType::Duration => FieldValue::Duration(Duration::from_millis(1500)),
            FieldType::Jump => FieldValue::Jump(-1),
            FieldType::Size => FieldValue::Size(1024),
            FieldType::Count => FieldValue::Count(3),
            FieldType::Learns => {
                FieldValue::Learns(BTreeMap::from([("server".into(), Learns::Never)]))
            }
            FieldType::Name(list) => FieldValue::Name(list, list.names[1]),
            FieldType::Trigger => FieldValue::Trigger(Trigger::point("p")),
        };
        let mut one_of = 0;
        let wanted = word.fields.iter().filter(|field| match field.need {
            Need::OneOf => std::mem::replace(&mut one_of, 1) == 0,
            Need::With(_) | Need::WithElse(..) => false,
            _ => true,
        });
        FaultFields(wanted.map(|field| (field.name, value(field.kind))).collect())
    }

    #[test]
    fn an_error_names_the_wrong_field() {
        let wrong = |word: &str, fields: FaultFields| {
            let unfit = FaultWord::find(word).unwrap().build(&fields).unwrap_err();
            (unfit.field, unfit.message)
        };
        let second = FieldValue::Duration(Duration::from_secs(1));
        let conn = FieldValue::Conn(Conn::number("client", 1));
        assert_eq!(
            wrong("cut", FaultFields::default()),
            (None, "`cut` needs `conn`, a connection: `\"client#1\"`".into())
        );
        assert_eq!(
            wrong("cut", FaultFields::default().with("conn", second.clone())),
            (Some("conn"), "`conn` must be a connection: `\"client#1\"`".into())
        );
        assert_eq!(
            wrong(
                "hold",
                FaultFields::default().with("lasts", second.clone()).with("then", second.clone())
            ),
            (Some("then"), "`then` needs `until`; leave it out, or add `until`".into())
        );
        assert_eq!(
            wrong("delay", FaultFields::default().with("by", second.clone())),
            (None, "`delay` needs exactly one of `conn` or `hosts`".into())
        );
        assert_eq!(
            wrong("slow", FaultFields::default().with("conn", conn.clone())),
            (
                None,
                "`slow` needs at least one of `latency` or `bandwidth` or `segment` or `window`"
                    .into()
            )
        );
        let hosts = FieldValue::Hosts("client".into(), "server".into());
        assert_eq!(
            wrong(
                "delay",
                FaultFields::default().with("by", second).with("conn", conn).with("hosts", hosts)
            ),
            (Some("hosts"), "`delay` needs exactly one of `conn` or `hosts`".into())
        );
    }

    #[test]
    fn a_cut_names_when_each_end_learns_of_it() {
        let mut learns = std::collections::BTreeMap::new();
        let cut = |learns: &std::collections::BTreeMap<_, _>| {
            let conn = Conn::number("client", 1);
            Fault::Cut(Cut { conn, learns: learns.clone() }).sentence()
        };
        assert_eq!(cut(&learns), "cut client#1: both ends learn of it at once");
        learns.insert("client".into(), Learns::After(Duration::ZERO));
        assert_eq!(cut(&learns), "cut client#1: client learns at once, the other end at once");
        learns.insert("server".into(), Learns::After(Duration::from_millis(400)));
        assert_eq!(cut(&learns), "cut client#1: client learns at once, server after 400 ms");
        learns.insert("server".into(), Learns::Never);
        assert_eq!(cut(&learns), "cut client#1: client learns at once, server never");
    }

    #[test]
    fn faults_read_as_sentences() {
        let second = Some(Duration::from_secs(1));
        let link = LinkPlace::Link("client".into(), "server".into());
        let by = SlowBy { bandwidth: Some(1000), window: Some(512), ..SlowBy::default() };
        let texts = [
            Fault::Partition(Partition {
                hosts: ("client".into(), "server".into()),
                toward: Some("server".into()),
                lasts: second,
            }),
            Fault::Slow(Slow { place: link, toward: None, by, lasts: None }),
            Fault::Flap(Flap {
                hosts: ("client".into(), "server".into()),
                down: Duration::from_millis(300),
                up: Duration::from_secs(2),
                lasts: second,
            }),
            Fault::Tamper(Tamper {
                place: LinkPlace::Conn(Conn::number("client", 1)),
                toward: "client".into(),
                how: Tampering::Drop,
                messages: Some(2),
                lasts: None,
            }),
            Fault::Tamper(Tamper {
                place: LinkPlace::Conn(Conn::number("client", 1)),
                toward: "client".into(),
                how: Tampering::Repeat,
                messages: None,
                lasts: second,
            }),
            Fault::ClockJump(ClockJump { host: "server".into(), by_ms: -3000 }),
            Fault::PowerLoss(PowerLoss {
                host: "server".into(),
                unsynced: Unsynced::Kept,
                lasts: second,
            }),
            Fault::Crash(Crash { host: "server".into(), lasts: second, processes: Orphans::Live }),
        ]
        .map(|it| it.sentence());
        assert_eq!(
            texts,
            [
                "partition client and server toward server, 1 s",
                "slow client and server: 1000 B/s, a window of 512 B, until the end of the run",
                "the link of client and server flaps, 300 ms down and 2 s up, 1 s",
                "drop 2 messages on client#1 toward client",
                "repeat messages on client#1 toward client, 1 s",
                "wall clock of server jumps back by 3 s",
                "power loss of server, restarts after 1 s",
                "crash server, restarts after 1 s, its processes survive",
            ]
        );
    }
}
