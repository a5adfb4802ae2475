//! A real server of exec, and a peer that says anything: `peers_fuzz::exec::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::exec::server::ExecServerScript| peers_fuzz::exec::server::holds(&script));
