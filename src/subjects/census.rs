//! Records what a server holds while it serves.

use std::time::Duration;

use tokio::time::sleep;

use crate::history::{Data, Stream};
use crate::subject::Recorder;

/// How often the counts are read.
pub(in crate::subjects) const EVERY: Duration = Duration::from_secs(1);

/// Records the counts of a server while it serves: whenever they have changed, and none at its end.
pub(in crate::subjects) async fn counted<C: Copy + Default + PartialEq, T>(
    record: &Recorder,
    stream: Stream,
    (count, data): (impl Fn() -> C, fn(C) -> Data),
    serving: impl Future<Output = T>,
) -> T {
    let note = |counts| record.observed(&stream, data(counts));
    let mut census = Census { last: None, note };
    let counts = async {
        loop {
            sleep(EVERY).await;
            census.take(count());
        }
    };
    tokio::select! {
        biased;
        served = serving => served,
        () = counts => unreachable!("the census has no end"),
    }
}

struct Census<C: Copy + Default + PartialEq, N: Fn(C)> {
    last: Option<C>,
    note: N,
}

impl<C: Copy + Default + PartialEq, N: Fn(C)> Census<C, N> {
    fn take(&mut self, counts: C) {
        if self.last.replace(counts) != Some(counts) {
            (self.note)(counts);
        }
    }
}

impl<C: Copy + Default + PartialEq, N: Fn(C)> Drop for Census<C, N> {
    /// A server that has ended holds nothing.
    fn drop(&mut self) {
        self.take(C::default());
    }
}
