//! The core of a broker, and peers that say anything: `peers_fuzz::turn::broker`.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: peers_fuzz::turn::broker::TurnBrokerScript| peers_fuzz::turn::broker::holds(&script));
