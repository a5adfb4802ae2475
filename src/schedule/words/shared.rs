//! Fields that several faults have.

use super::Need::{Always, Else, OneOf};
use super::{Field, FieldType};

/// The connection of a fault.
pub const CONN: Field =
    Field { name: "conn", kind: FieldType::Conn, need: Always, doc: "The connection." };
/// The connection, if it affects no link.
pub const ONE_CONN: Field =
    Field { name: "conn", kind: FieldType::Conn, need: OneOf, doc: "The connection to affect." };
/// The two hosts of a link.
pub const HOSTS: Field =
    Field { name: "hosts", kind: FieldType::Hosts, need: Always, doc: "The two hosts." };
/// The link, if it affects no connection.
pub const ONE_LINK: Field = Field {
    name: "hosts",
    kind: FieldType::Hosts,
    need: OneOf,
    doc: "The two hosts whose packets are affected.",
};
/// The host of a fault.
pub const HOST: Field =
    Field { name: "host", kind: FieldType::Host, need: Always, doc: "The host." };
/// The only direction.
pub const TOWARD: Field = Field {
    name: "toward",
    kind: FieldType::Host,
    need: Always,
    doc: "Only packets toward this host are affected.",
};
/// The only direction, if it does not affect both.
pub const BOTH_WAYS: Field =
    Field { need: Else("both ways"), doc: "Only packets toward this host are affected.", ..TOWARD };
/// The duration.
pub const LASTS: Field = Field {
    name: "lasts",
    kind: FieldType::Duration,
    need: Else("for the rest of the run"),
    doc: "The duration of the fault.",
};
/// The downtime of a host.
pub const DOWN: Field = Field {
    name: "lasts",
    kind: FieldType::Duration,
    need: Else("the host stays down until a `restart`"),
    doc: "The host starts again after this time.",
};
/// When each end of a connection learns of a cut.
pub const LEARNS: Field = Field {
    name: "learns",
    kind: FieldType::Learns,
    need: Else("both learn at once"),
    doc: "When each end learns of the cut, counted from the cut. An omitted end learns at once.",
};
