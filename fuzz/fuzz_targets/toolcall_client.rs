//! A real client of an agent host, and a peer that says anything: `peers_fuzz::toolcall::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::toolcall::client::ToolcallClientScript| peers_fuzz::toolcall::client::holds(&script));
