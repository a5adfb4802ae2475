//! A real server of exec, and a peer that sends any requests for files: `peers_fuzz::exec::file_server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::exec::file_server::ExecFilesScript| peers_fuzz::exec::file_server::holds(&script));
