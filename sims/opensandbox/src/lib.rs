//! The Python SDK of OpenSandbox, version [`VERSION`](install::VERSION), against reknit's sse server: a
//! client written by other people, for the original execd.
//!
//! - [`install`]: the SDK, from PyPI. [`sdk`]: a Python process that makes the calls of a test.
//! - [`server`]: our server, and a proxy in front of it.
//!
//! Everything runs over the loopback interface. Without Python or pip the tests pass, and print why they
//! tested nothing.
#![deny(missing_docs, unsafe_code)]

pub mod install;
pub mod sdk;
pub mod server;
