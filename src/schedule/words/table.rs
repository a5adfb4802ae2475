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
use crate::schedule::fault::{Fault, Orphans, Pipe, Unsynced};
use crate::schedule::names::Named;

/// The fault table.
pub const WORDS: &[FaultWord] = &[
    FaultWord {
        name: "cut",
        does: "The network drops a connection: from now on none of its packets are delivered, and packets in flight are lost. Each end gets an RST when it learns of the cut, or never.",
        fields: &[CONN, LEARNS],
        client_sees: "`ConnectionReset` when the client learns of the cut. Before that, silence: data that it writes is lost.",
        server_sees: "The same, when the server learns of the cut.",
        outside: "A proxy or NAT loses the state of a connection; a laptop changes networks; a gateway restarts.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Cut { conn: f.conn("conn"), learns: f.learns() },
    },
    FaultWord {
        name: "cut-after",
        does: "The network drops a connection, as with `cut`, as soon as a given amount of data has arrived at a host, also in the middle of a frame. Data after that never arrives.",
        fields: &[
            CONN,
            Field { doc: "Count data toward this host.", ..TOWARD },
            Field {
                name: "bytes",
                kind: FieldType::Count,
                need: OneOf,
                doc: "The number of bytes that arrive, counted from the start of the connection.",
            },
            Field {
                name: "messages",
                kind: FieldType::Count,
                need: OneOf,
                doc: "The number of messages that arrive, as the subject's dissector counts them. No byte of the next message arrives.",
            },
            LEARNS,
        ],
        client_sees: "The data that arrived before the cut, then the same as after a `cut`.",
        server_sees: "The same.",
        outside: "As for `cut`, but at a position instead of a time. The amounts of data written, delivered and processed differ; this fault fixes the delivered amount.",
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
        does: "The network delivers no packets between two hosts, neither for open connections nor for new ones. This includes packets in flight.",
        fields: &[
            HOSTS,
            Field {
                need: Else("both ways"),
                doc: "Only packets toward this host are affected.",
                ..TOWARD
            },
            LASTS,
        ],
        client_sees: "Silence. After the partition, data written during it arrives late, and a connect that is still waiting succeeds.",
        server_sees: "The same.",
        outside: "A broken cable or route, a firewall rule, a mobile network without coverage.",
        event: Full,
        turmoil: Full,
        build: |f| {
            let (one, other) = f.hosts();
            Fault::Partition { hosts: (one, other), toward: f.toward(), lasts: f.lasts() }
        },
    },
    FaultWord {
        name: "stall",
        does: "The network delivers no packets of a connection in one direction: no data, no acknowledgements and no FIN or RST.",
        fields: &[CONN, TOWARD, LASTS],
        client_sees: "Toward the client: silence, then all data in order. From the client: its writes are not acknowledged, and block when the window is full.",
        server_sees: "The opposite direction.",
        outside: "A half-open link; a proxy that stops forwarding in one direction.",
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
        does: "The network delivers no packets of a connection in either direction, and neither end gets an error.",
        fields: &[CONN, LASTS],
        client_sees: "Silence. After the fault, data written during it arrives late. If the fault never ends, only the client's own timeout detects it.",
        server_sees: "The same.",
        outside: "A NAT or firewall drops the packets of a connection whose state it has lost.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Blackhole { conn: f.conn("conn"), lasts: f.lasts() },
    },
    FaultWord {
        name: "delay",
        does: "Packets take longer, but stay in order. Packets sent while the fault is active keep their delay.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "The additional latency of a packet.",
            },
            LASTS,
        ],
        client_sees: "Everything, later.",
        server_sees: "Everything, later.",
        outside: "A satellite link, a queue that fills up, a proxy under load.",
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
        does: "The FIN or RST of a connection arrives late in one direction. Data before it arrives on time.",
        fields: &[
            CONN,
            TOWARD,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "The additional delay of the FIN or RST.",
            },
        ],
        client_sees: "Toward the client: the connection looks alive for this time after the server has closed it.",
        server_sees: "The same, if the fault is toward the server.",
        outside: "A proxy keeps the other half open; an onClose event arrives after the next connection is open.",
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
        does: "The network resets a connection: each end gets an RST, after the data already sent in its direction.",
        fields: &[
            CONN,
            Field { need: Else("both ends"), doc: "Only this end gets an RST.", ..TOWARD },
        ],
        client_sees: "The data already in flight, then `ConnectionReset`. If `toward` is the server: nothing, until the client writes and gets an RST as the answer.",
        server_sees: "The same.",
        outside: "A firewall or load balancer ends idle or unwanted connections.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Reset { conn: f.conn("conn"), toward: f.toward() },
    },
    FaultWord {
        name: "slow",
        does: "A bad link: more latency, low bandwidth, small segments or a small window, at least one of these. Packets that are still queued when the fault ends are delivered at once.",
        fields: &[
            ONE_CONN,
            ONE_LINK,
            BOTH_WAYS,
            Field {
                name: "latency",
                kind: FieldType::Duration,
                need: SomeOf,
                doc: "The additional one-way latency.",
            },
            Field {
                name: "bandwidth",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "The maximum number of bytes per second.",
            },
            Field {
                name: "segment",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "The maximum number of bytes per segment.",
            },
            Field {
                name: "window",
                kind: FieldType::Size,
                need: SomeOf,
                doc: "The maximum window, in bytes, that the receiver advertises.",
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
        does: "New connections to a host are refused: a SYN is answered with an RST. Open connections continue.",
        fields: &[HOST, LASTS],
        client_sees: "`ConnectionRefused`, one round trip after its SYN.",
        server_sees: "Nothing.",
        outside: "No process is listening: the server restarts, or the load balancer has no backend.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Refuse { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "hang",
        does: "New connections to a host are not answered: SYNs are dropped, and retransmitted after 1 s, doubling. Open connections continue.",
        fields: &[HOST, LASTS],
        client_sees: "A connect that waits until the fault ends, or fails with `TimedOut` after 127 s.",
        server_sees: "Nothing.",
        outside: "A firewall drops packets; the accept queue is full.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Hang { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "accept-then-close",
        does: "The network accepts new connections in place of a host and closes them at once: a TCP handshake, then a FIN. Open connections continue.",
        fields: &[HOST, LASTS],
        client_sees: "A connect that succeeds, then end of file.",
        server_sees: "Nothing.",
        outside: "A load balancer or an SSH tunnel without its backend.",
        event: Full,
        turmoil: Not("it needs a SYN-ACK that turmoil cannot send"),
        build: |f| Fault::AcceptThenClose { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "hold",
        does: "A task that reaches the point in the step's `after` stops there; all other tasks continue. The step's `after` must be a point.",
        fields: &[
            Field {
                name: "lasts",
                kind: FieldType::Duration,
                need: OneOf,
                doc: "The time for which the task stays.",
            },
            Field {
                name: "until",
                kind: FieldType::Trigger,
                need: OneOf,
                doc: "The task stays until this is reached.",
            },
            Field {
                name: "then",
                kind: FieldType::Duration,
                need: WithElse("until", "the task continues at once"),
                doc: "The time for which the task stays after `until` is reached.",
            },
            Field {
                name: "at-most",
                kind: FieldType::Duration,
                need: With("until"),
                doc: "The longest hold: the task continues after this time in any case.",
            },
        ],
        client_sees: "If the point is in the client, one of its tasks is late. Otherwise, the effects of a late server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A thread is preempted between two steps; a garbage collector; a machine under load.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Hold { end: f.hold_end() },
    },
    FaultWord {
        name: "crash",
        does: "The process of a host dies: its root future is dropped, and its kernel closes its sockets. The child processes that it launched are killed, unless `processes` is `live`.",
        fields: &[
            HOST,
            DOWN,
            Field {
                name: "processes",
                kind: FieldType::Name(Orphans::LIST),
                need: Else("they die"),
                doc: "The fate of the child processes. With `live` they continue as orphans: the other ends of their pipes are closed, and the host does not know them after its restart.",
            },
        ],
        client_sees: "If a server crashes: end of file, or `ConnectionReset` if the server had unread data. The client gets an RST for data sent later, and for new connections until the restart.",
        server_sees: "The same, if a client crashes.",
        outside: "A panic, a kill, a deployment.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Crash {
            host: f.host("host"),
            lasts: f.lasts(),
            processes: f.named("processes").unwrap_or_default(),
        },
    },
    FaultWord {
        name: "power-loss",
        does: "A host dies with its kernel and its processes, without a FIN or RST. Data that its peers send is answered with an RST only after the restart.",
        fields: &[
            HOST,
            DOWN,
            Field {
                name: "unsynced",
                kind: FieldType::Name(Unsynced::LIST),
                need: Else("nothing is lost"),
                doc: "The fate of data in files that was not synced. With `lost`, each file keeps its synced content, or all of it, or a part of the rest; and each folder keeps its synced entries, or all of them.",
            },
        ],
        client_sees: "If a server loses power: silence. After the restart, `ConnectionReset` at the client's next retransmission; without a restart, only the client's own timeout detects it.",
        server_sees: "The same, if a client crashes.",
        outside: "A pulled plug, a hypervisor failure, a kernel panic, an empty battery.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::PowerLoss {
            host: f.host("host"),
            unsynced: f.named("unsynced").unwrap_or_default(),
            lasts: f.lasts(),
        },
    },
    FaultWord {
        name: "restart",
        does: "A host that is down starts again, with empty memory. No effect on a host that is up.",
        fields: &[HOST],
        client_sees: "If a server restarts: connects succeed again.",
        server_sees: "If a client restarts: a new client connects.",
        outside: "A supervisor.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::Restart { host: f.host("host") },
    },
    FaultWord {
        name: "kill-children",
        does: "All processes of a host except its root are killed, with signal 9: its child processes, and the programs that were launched detached. The pipes that they hold end.",
        fields: &[HOST],
        client_sees: "If the host is a client: its child processes exit. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "The kernel runs out of memory; a user kills a process; a crash.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::KillChildren { host: f.host("host") },
    },
    FaultWord {
        name: "stop-children",
        does: "All processes of a host except its root are suspended, also those that it launches meanwhile. They take no step until the fault ends; only signal 9 ends one.",
        fields: &[HOST, LASTS],
        client_sees: "If the host is a client: its child processes read and write nothing. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "SIGSTOP, a debugger, a machine that swaps, a frozen control group.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::StopChildren { host: f.host("host"), lasts: f.lasts() },
    },
    FaultWord {
        name: "slow-children",
        does: "All processes of a host except its root run slowly, also those that it launches meanwhile: each pauses before each of its steps.",
        fields: &[
            HOST,
            Field { name: "by", kind: FieldType::Duration, need: Always, doc: "The pause." },
            LASTS,
        ],
        client_sees: "If the host is a client: everything from its child processes, later. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A machine under load, a small CPU quota.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::SlowChildren {
            host: f.host("host"),
            by: f.duration("by"),
            lasts: f.lasts(),
        },
    },
    FaultWord {
        name: "delay-output",
        does: "The output of the child processes of a host arrives late, in order. The host learns of an exit on time, so it can learn of the exit before it has read the last output.",
        fields: &[
            HOST,
            Field {
                name: "by",
                kind: FieldType::Duration,
                need: Always,
                doc: "The additional delay of the output.",
            },
            LASTS,
        ],
        client_sees: "If the host is a client: the output of its child processes, later. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A wrapper or a log collector relays the output; the thread that reads it is preempted.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::DelayOutput {
            host: f.host("host"),
            by: f.duration("by"),
            lasts: f.lasts(),
        },
    },
    FaultWord {
        name: "close-pipe",
        does: "One pipe of each child process of a host is closed at both ends, after the data that is already in it.",
        fields: &[
            HOST,
            Field {
                name: "pipe",
                kind: FieldType::Name(Pipe::LIST),
                need: Always,
                doc: "The pipe.",
            },
        ],
        client_sees: "If the host is a client: the end of the output, or an error when it writes to the input. The child process reads the end of its input, or gets signal 13 when it writes. If it is the server: the reaction of the server.",
        server_sees: "The same, with the roles exchanged.",
        outside: "A process closes its standard streams; a relay between the two ends.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::ClosePipe {
            host: f.host("host"),
            pipe: f.named("pipe").expect("it was checked"),
        },
    },
    FaultWord {
        name: "clock-jump",
        does: "The wall clock of a host jumps forward or back. Timers are not affected: they use the monotonic clock.",
        fields: &[
            HOST,
            Field {
                name: "by",
                kind: FieldType::Jump,
                need: Always,
                doc: "The size of the jump. A negative value jumps back.",
            },
        ],
        client_sees: "Nothing, unless the code measures time with the wall clock.",
        server_sees: "The same.",
        outside: "NTP, a resumed virtual machine, a manual change.",
        event: Full,
        turmoil: Full,
        build: |f| Fault::ClockJump { host: f.host("host"), by_ms: f.jump("by") },
    },
];

const ALWAYS: Need = Always;
const CONN: Field =
    Field { name: "conn", kind: FieldType::Conn, need: ALWAYS, doc: "The connection." };
const ONE_CONN: Field =
    Field { name: "conn", kind: FieldType::Conn, need: OneOf, doc: "The connection to affect." };
const HOSTS: Field =
    Field { name: "hosts", kind: FieldType::Hosts, need: ALWAYS, doc: "The two hosts." };
const ONE_LINK: Field = Field {
    name: "hosts",
    kind: FieldType::Hosts,
    need: OneOf,
    doc: "The two hosts whose packets are affected.",
};
const HOST: Field = Field { name: "host", kind: FieldType::Host, need: ALWAYS, doc: "The host." };
const TOWARD: Field = Field {
    name: "toward",
    kind: FieldType::Host,
    need: ALWAYS,
    doc: "Only packets toward this host are affected.",
};
const BOTH_WAYS: Field =
    Field { need: Else("both ways"), doc: "Only packets toward this host are affected.", ..TOWARD };
const LASTS: Field = Field {
    name: "lasts",
    kind: FieldType::Duration,
    need: Else("for the rest of the run"),
    doc: "The duration of the fault.",
};
const DOWN: Field = Field {
    name: "lasts",
    kind: FieldType::Duration,
    need: Else("the host stays down until a `restart`"),
    doc: "The host starts again after this time.",
};
const LEARNS: Field = Field {
    name: "learns",
    kind: FieldType::Learns,
    need: Else("both learn at once"),
    doc: "When each end learns of the cut, counted from the cut. An omitted end learns at once.",
};
