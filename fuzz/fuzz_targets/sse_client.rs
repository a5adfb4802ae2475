//! A real client, and a server that says anything: `peers_fuzz::sse::client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::sse::client::SseClientScript| peers_fuzz::sse::client::holds(&script));
