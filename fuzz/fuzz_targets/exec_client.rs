//! A real client of exec, and a peer that says anything: `peers_fuzz::exec::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::exec::client::ExecClientScript| peers_fuzz::exec::client::holds(&script));
