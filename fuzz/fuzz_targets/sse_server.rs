//! A real server, and hostile clients that say anything: `peers_fuzz::sse::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::sse::server::SseServerScript| peers_fuzz::sse::server::holds(&script));
