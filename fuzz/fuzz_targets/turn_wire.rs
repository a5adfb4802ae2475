//! The connections of a client and of a broker, and a peer that says anything: `peers_fuzz::turn::wire`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::turn::wire::TurnWireScript| peers_fuzz::turn::wire::holds(&script));
