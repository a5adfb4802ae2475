//! The system calls that a confined command cannot make. Each of them fails with `EPERM`. A program for
//! another processor (a 32-bit program) is killed.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Operator,
    SeccompCondition, SeccompFilter, SeccompRule,
};

use super::confinement::NetworkScope;

/// Forbidden to every confined command. Requests in an io_uring are not seen by a filter.
const ALWAYS: &[i64] =
    &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// Forbidden to a command without a network. A Unix socket
/// without an address reaches only its pair. The calls that reach into other processes could take over their sockets.
const WITHOUT_NETWORK: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
];

/// Calls that create sockets. Some of their arguments are forbidden.
const SOCKETS: &[i64] = &[libc::SYS_socket, libc::SYS_socketpair];

/// The bits of a socket's type without its flags.
const TYPE: u64 = 0xf;

/// The x32 form of a call on x86-64 has the number of the call plus the last of these.
#[cfg(target_arch = "x86_64")]
const X32: &[i64] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const X32: &[i64] = &[0];

/// Compiles the filter for a network. Fails on a processor that the library does not know.
pub(super) fn compile(network: NetworkScope) -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for form in X32 {
        rules.extend(ALWAYS.iter().map(|call| (call + form, Vec::new())));
        if network == NetworkScope::None {
            rules.extend(WITHOUT_NETWORK.iter().map(|call| (call + form, Vec::new())));
        }
        for call in SOCKETS {
            rules.insert(call + form, forbidden_sockets(network)?);
        }
    }
    let forbidden = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        forbidden,
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

/// With a network: those to the machine's own host, if it is virtual. Without: all but streams and
/// sequenced packets of the family Unix. (A Unix datagram is sent to a path without a connection.)
fn forbidden_sockets(network: NetworkScope) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    if network == NetworkScope::All {
        let host = SeccompCondition::new(0, Length::Dword, Operator::Eq, libc::AF_VSOCK as u64)?;
        return Ok(vec![SeccompRule::new(vec![host])?]);
    }
    let family = SeccompCondition::new(0, Length::Dword, Operator::Ne, libc::AF_UNIX as u64)?;
    let datagram =
        SeccompCondition::new(1, Length::Dword, Operator::MaskedEq(TYPE), libc::SOCK_DGRAM as u64)?;
    let raw =
        SeccompCondition::new(1, Length::Dword, Operator::MaskedEq(TYPE), libc::SOCK_RAW as u64)?;
    let rules = [family, datagram, raw].map(|condition| SeccompRule::new(vec![condition]));
    Ok(rules.into_iter().collect::<Result<_, _>>()?)
}
