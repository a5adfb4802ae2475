//! A real server, and a peer that says anything: `exec_fuzz::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: exec_fuzz::server::Script| exec_fuzz::server::holds(&script));
