//! The outside world of a simulated server: it produces the numbers, keeps the sums, and records
//! both as the ground truth.
//!
//! A stream that no table of the scenario declares has the defaults of [`StreamSetup`]. The name on
//! the wire identifies the client: `client2/s1.3` is the third watch of `s1` on `client2`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use super::operations::StreamSetup;
use crate::history::{Call, Stream};
use crate::net::BoxFuture;
use crate::schedule::Plan;
use crate::subject::Recorder;
use crate::subjects::records;
use reknit_counter::{Ledger, Name, Numbers, Source};

/// Produces numbers as the scenario declares.
pub(super) struct Producers {
    plan: Arc<Plan>,
    record: Recorder,
}

impl Producers {
    pub(super) fn new(plan: Arc<Plan>, record: Recorder) -> Self {
        Self { plan, record }
    }
}

/// The history item for a number. All items of a world are different, unless the names of two
/// streams are anagrams.
pub(super) fn item(value: u64) -> String {
    format!("{value}\n")
}

impl Source for Producers {
    fn open(&self, stream: &Name) -> Option<Box<dyn Numbers>> {
        let setup =
            self.plan.entry("stream", records::declared(stream.as_str())).unwrap_or_default();
        let letters: u64 = stream.as_str().bytes().map(u64::from).sum();
        let (record, opened) = (self.record.clone(), Instant::now());
        let stream = Stream::from(stream.as_str());
        Some(Box::new(Producer {
            stream,
            setup,
            record,
            opened,
            made: 0,
            base: letters * 1_000_000,
            over: false,
        }))
    }
}

/// Produces the numbers of one stream.
struct Producer {
    stream: Stream,
    setup: StreamSetup,
    record: Recorder,
    opened: Instant,
    made: u64,
    /// An offset that distinguishes the numbers of different streams.
    base: u64,
    over: bool,
}

impl Numbers for Producer {
    fn next(&mut self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async {
            if self.made == self.setup.numbers {
                if !self.setup.ends {
                    std::future::pending::<()>().await;
                }
                self.over = true;
                self.record.ended(&self.stream, outcome(self.made));
                return None;
            }
            let due = self.opened
                + self
                    .setup
                    .every
                    .0
                    .saturating_mul(u32::try_from(self.made + 1).unwrap_or(u32::MAX));
            tokio::time::sleep_until(due).await;
            self.made += 1;
            let value = self.base + self.made;
            self.record.produced(&self.stream, item(value));
            Some(value)
        })
    }
}

/// A server that no longer needs a stream drops its producer, which ends the stream.
impl Drop for Producer {
    fn drop(&mut self) {
        if !self.over {
            self.record.ended(&self.stream, format!("stopped after {}", self.made));
        }
    }
}

/// The outcome of a stream with `total` numbers.
pub(super) fn outcome(total: u64) -> String {
    format!("total {total}")
}

/// Keeps the sums. The memo of an entry is the number of the call that asked for it; a memo that is
/// not a number belongs to no call.
pub(super) struct SumLedger {
    sums: Mutex<BTreeMap<Name, u64>>,
    record: Recorder,
}

impl SumLedger {
    pub(super) fn new(record: Recorder) -> Self {
        Self { sums: Mutex::default(), record }
    }

    fn sums(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, u64>> {
        self.sums.lock().expect("nothing panics under the lock")
    }
}

impl Ledger for SumLedger {
    fn add(&self, counter: &Name, amount: u32, memo: &Name) -> u64 {
        self.record.effect(Call(memo.as_str().parse().unwrap_or(0)), counter.as_str());
        let mut sums = self.sums();
        let sum = sums.entry(counter.clone()).or_default();
        *sum = sum.wrapping_add(u64::from(amount));
        *sum
    }

    fn sum(&self, counter: &Name) -> u64 {
        self.sums().get(counter).copied().unwrap_or(0)
    }
}
