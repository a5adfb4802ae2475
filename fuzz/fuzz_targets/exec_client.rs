//! A real client, and a peer that says anything: `exec_fuzz::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: exec_fuzz::client::Script| exec_fuzz::client::holds(&script));
