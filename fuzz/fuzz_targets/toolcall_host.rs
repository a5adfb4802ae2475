//! A real agent host, and a peer that says anything: `peers_fuzz::toolcall::host`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::toolcall::host::ToolcallHostScript| peers_fuzz::toolcall::host::holds(&script));
