//! The rows of the fault table.
//!
//! Three rules apply to all rows:
//! - Segments that a fault blocks are delayed, not lost. A real TCP retransmits them, so they
//!   arrive after the fault, at the next retransmission (backoff from 200 ms, doubling, counted
//!   from the first loss). But the sender gives up a connection with `TimedOut` if its data stays
//!   unacknowledged for about 15 min 24 s, and an open fails if its SYN stays unanswered for 127 s.
//! - If a fault with a duration names a connection that does not exist yet, the fault waits for the
//!   connection. A `cut` or `reset` of such a connection does nothing, and the run records a note.
//! - A direction is named by the host toward which the packets flow.

use super::Fidelity::{Full, None as Not};
use super::Need::{Always, Else, OneOf, SomeOf, With, WithElse};
use super::{FaultWord, Field, FieldType, Need};
use crate::schedule::fault::Fault;

/// The fault table.
pub const WORDS: &[FaultWord] = &[
    FaultWord {
        name: "cut",
        does: "A connection dies: from now on no packet of it passes, and what is in flight is lost. Each end gets an RST when \
               it learns of it, or never.",
        fields: &[CONN, LEARNS],
        client_sees: "`ConnectionReset`, when it learns; before that, silence: what it writes goes nowhere.",
        server_sees: "The same, at its own time.",
        outside: "A proxy or NAT that forgets a connection; a laptop that changes networks; a gateway that restarts.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Cut { conn: f.conn("conn"), learns: f.learns() },
    },
    FaultWord {
        name: "cut-after",
        does: "A connection dies as a `cut` does, as soon as so much of what flows toward a host has arrived there: also in \
               the middle of a frame. What is written after that never arrives.",
        fields: &[
            CONN,
            Field { doc: "The direction that is counted: toward this host.", ..TOWARD },
            Field {
                name: "bytes",
                kind: FieldType::Count,
                need: OneOf,
                doc: "So many bytes arrive, counted from the beginning of the connection.",
            },
            Field {
                name: "messages",
                kind: FieldType::Count,
                need: OneOf,
                doc: "So many messages arrive, as the subject's dissector counts them, and nothing of the next.",
            },
            LEARNS,
        ],
        client_sees: "What arrived before the cut, then as after a `cut`.",
        server_sees: "The same.",
        outside: "As for `cut`: at a position instead of a time. What was written, what was delivered and what was processed \
                  are three numbers; this freezes the second.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::CutAfter {
            conn: f.conn("conn"),
            toward: f.host("toward"),
            count: f.count(),
            learns: f.learns(),
        },
    },
    FaultWord {
        name: "partition",
        does: "Nothing passes between two hosts: neither what belongs to open connections nor what would open new ones. It \
               hits what is in flight, too.",
        fields: &[
            HOSTS,
            Field {
                need: Else("both ways"),
                doc: "Only what flows toward this one of the two is held back.",
                ..TOWARD
            },
            LASTS,
        ],
        client_sees: "Silence. After it, what was written during it arrives, late; a connect that outlives it succeeds.",
        server_sees: "The same.",
        outside: "A cable, a route, a firewall rule, a tunnel without coverage.",
        event: Full,
        turmoil: Full,
        build: |f| {
            let (one, other) = f.hosts();
            Fault::Partition { hosts: (one, other), toward: f.toward(), lasts: f.lasts() }
        },
    },
    FaultWord {
        name: "stall",
        does: "Nothing passes on a connection in one direction, data, acknowledgements and the end of the connection alike.",
        fields: &[CONN, TOWARD, LASTS],
        client_sees: "Toward it: silence, then everything, in order. From it: its writes are not acknowledged, and block once \
                      the window is full.",
        server_sees: "The other half of that.",
        outside: "A half-open link; a proxy that stops to forward one way.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Stall {
            conn: f.conn("conn"),
            toward: f.host("toward"),
            lasts: f.lasts(),
        },
    },
    FaultWord {
        name: "blackhole",
        does: "Nothing passes on a connection, in either direction, and nobody is told.",
        fields: &[CONN, LASTS],
        client_sees: "Silence. After it, what was written during it arrives, late; without an end, only its own detection helps.",
        server_sees: "The same.",
        outside: "A NAT or firewall that drops what belongs to a connection it has forgotten.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Blackhole { conn: f.conn("conn"), lasts: f.lasts() },
    },
    FaultWord {
        name: "delay",
        does: "Packets take longer, in order. Those that are sent while it is in force keep their delay.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "How much longer a packet takes.",
            },
            LASTS,
        ],
        client_sees: "Everything, later.",
        server_sees: "Everything, later.",
        outside: "A satellite, a queue that fills up, a proxy under load.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Delay {
            place: f.place(),
            toward: f.toward(),
            by: f.duration("by"),
            lasts: f.lasts(),
        },
    },
    FaultWord {
        name: "delay-close",
        does: "The end of a connection (its FIN or RST) arrives late in one direction; data before it does not.",
        fields: &[
            CONN,
            TOWARD,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "How much later it arrives.",
            },
        ],
        client_sees: "Toward it: the connection looks alive for so much longer after its peer has left it.",
        server_sees: "The same, where it is the one that is told late.",
        outside: "A proxy that keeps the other half open; an onClose that comes after the next connection is there.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::DelayClose {
            conn: f.conn("conn"),
            toward: f.host("toward"),
            by: f.duration("by"),
        },
    },
    FaultWord {
        name: "reset",
        does: "Somebody in the middle resets a connection: an RST goes to each end, after what was already sent in its \
               direction.",
        fields: &[
            CONN,
            Field { need: Else("both ends"), doc: "Only this end gets an RST.", ..TOWARD },
        ],
        client_sees: "What was already on its way, then `ConnectionReset`. With `toward` the other end, nothing: it writes to \
                      nobody, until it is answered with an RST.",
        server_sees: "The same.",
        outside: "A firewall or load balancer that ends idle or unwanted connections.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Reset { conn: f.conn("conn"), toward: f.toward() },
    },
    FaultWord {
        name: "slow",
        does: "A bad link: more latency, little bandwidth, small segments, a small window; at least one of them. What still waits in front of it when its time is up goes on at once.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "latency",
                kind: FieldType::Duration,
                need: SomeOf,
                doc: "So much more one-way latency.",
            },
            Field {
                name: "bandwidth",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "At most so many bytes a second.",
            },
            Field {
                name: "segment",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "At most so many bytes a segment.",
            },
            Field {
                name: "window",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "The receiver advertises at most so many bytes.",
            },
            LASTS,
        ],
        client_sees: "Everything, in order, later and in smaller pieces; writes block when the window is full.",
        server_sees: "The same.",
        outside: "A mobile network, a shared uplink, a slow reader behind a proxy.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Slow {
            place: f.place(),
            toward: f.toward(),
            by: f.slow(),
            lasts: f.lasts(),
        },
    },
    FaultWord {
        name: "refuse",
        does: "New connections to a host are refused: a SYN is answered with an RST. Open ones live on.",
        fields: &[HOST, LASTS],
        client_sees: "`ConnectionRefused`, one round trip after its SYN.",
        server_sees: "Nothing.",
        outside: "Nobody listens: the process restarts, the load balancer has no backend.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Refuse { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "hang",
        does: "New connections to a host are not answered: SYNs vanish, and are sent again after 1 s, doubling. Open \
               connections live on.",
        fields: &[HOST, LASTS],
        client_sees: "A connect that takes until the fault is over, or for ever; `TimedOut` after 127 s.",
        server_sees: "Nothing.",
        outside: "A firewall that drops; a full accept queue.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Hang { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "accept-then-close",
        does: "New connections to a host are accepted by somebody in its place, and closed at once: a handshake, then a FIN. \
               Open ones live on.",
        fields: &[HOST, LASTS],
        client_sees: "A connect that succeeds, then the end of the stream.",
        server_sees: "Nothing.",
        outside: "A load balancer or an SSH tunnel whose backend is gone.",
        event: Full,
        turmoil: Not("it needs a SYN-ACK, which turmoil cannot be given"),
        build: |f| Fault::AcceptThenClose { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "hold",
        does: "A task that reaches the point of the step's `after` stays there; all others run on. It needs an `after` that is \
               a point.",
        fields: &[
            Field {
                name: "lasts",
                kind: FieldType::Duration,
                need: OneOf,
                doc: "It stays so long.",
            },
            Field {
                name: "until",
                kind: FieldType::Trigger,
                need: OneOf,
                doc: "It stays until this is reached.",
            },
            Field {
                name: "then",
                kind: FieldType::Duration,
                need: WithElse("until", "it goes on at once"),
                doc: "And then so long.",
            },
            Field {
                name: "at-most",
                kind: FieldType::Duration,
                need: With("until"),
                doc: "The longest hold: it goes on after this in any case.",
            },
        ],
        client_sees: "Where the point is its own: one of its tasks is late. Otherwise what the server's lateness makes of it.",
        server_sees: "The same, the other way round.",
        outside: "A thread that is pre-empted between two steps; a garbage collector; a machine under load.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Hold { end: f.hold_end() },
    },
    FaultWord {
        name: "crash",
        does: "A host's process dies: its root is dropped, and its kernel closes its sockets. The processes that it launched are \
               killed, unless they are to live on.",
        fields: &[
            HOST,
            DOWN,
            Field {
                name: "processes",
                kind: FieldType::Orphans,
                need: Else("they die"),
                doc: "What becomes of the processes that it launched. Those that live on lose the other ends of their pipes, and \
                      belong to nobody: after the restart the host knows nothing of them.",
            },
        ],
        client_sees: "Of a server's: the end of the stream, or `ConnectionReset` where something was unread there; an RST for \
                      what it sends later, and for a new connection until the restart.",
        server_sees: "The same of a client's.",
        outside: "A panic, a kill, a deployment.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Crash { host: f.host("host"), lasts: f.lasts(), processes: f.orphans() },
    },
    FaultWord {
        name: "power-loss",
        does: "A host dies with its kernel and its processes: nobody is told. What its peers send is held, and answered with an RST after the \
               restart, not sooner.",
        fields: &[HOST, DOWN],
        client_sees: "Of a server's: silence. After the restart, `ConnectionReset` at its next retransmission; without one, \
                      only its own detection helps.",
        server_sees: "The same of a client's.",
        outside: "A plug, a hypervisor, a kernel panic, a battery.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::PowerLoss { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "restart",
        does: "A host that is down starts again, with nothing in memory. It does nothing to a host that is up.",
        fields: &[HOST],
        client_sees: "Of a server's: connects succeed again.",
        server_sees: "Of a client's: somebody new connects.",
        outside: "A supervisor.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Restart { host: f.host("host") },
    },
    FaultWord {
        name: "clock-jump",
        does: "A host's wall clock jumps, forth or back. Timers do not: they run on the monotonic clock.",
        fields: &[
            HOST,
            Field {
                name: "by",
                kind: FieldType::Jump,
                need: Always,
                doc: "By how much; back where it is below 0.",
            },
        ],
        client_sees: "Nothing, unless somebody measures with the wall clock.",
        server_sees: "The same.",
        outside: "NTP, a virtual machine that is resumed, a person.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::ClockJump { host: f.host("host"), by_ms: f.jump("by") },
    },
];

const ALWAYS: Need = Always;
const CONN: Field =
    Field { name: "conn", kind: FieldType::Conn, need: ALWAYS, doc: "The connection." };
const ONE_CONN: Field =
    Field { name: "conn", kind: FieldType::Conn, need: OneOf, doc: "On this connection." };
const HOSTS: Field = Field { name: "hosts", kind: FieldType::Hosts, need: ALWAYS, doc: "The two." };
const ONE_LINK: Field = Field {
    name: "hosts",
    kind: FieldType::Hosts,
    need: OneOf,
    doc: "On all that passes between these two hosts.",
};
const HOST: Field = Field { name: "host", kind: FieldType::Host, need: ALWAYS, doc: "The host." };
const TOWARD: Field = Field {
    name: "toward",
    kind: FieldType::Host,
    need: ALWAYS,
    doc: "The direction: toward this host.",
};
const BOTH_WAYS: Field =
    Field { need: Else("both ways"), doc: "Only what flows toward this host.", ..TOWARD };
const LASTS: Field = Field {
    name: "lasts",
    kind: FieldType::Duration,
    need: Else("for the rest of the run"),
    doc: "How long it is in force.",
};
const DOWN: Field = Field {
    name: "lasts",
    kind: FieldType::Duration,
    need: Else("it stays down, but for a `restart`"),
    doc: "It starts again after this.",
};
const LEARNS: Field = Field {
    name: "learns",
    kind: FieldType::Learns,
    need: Else("both learn at once"),
    doc: "When each end learns of it, counted from the cut; an end that is not named learns at once.",
};
