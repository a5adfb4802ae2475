//! The examples `turn_client` and `turn_broker` as real processes, with a unix socket and a scripted
//! app-server.

mod background;
mod foreground;
mod hostile;
mod machine;
