//! The user of a simulated client: performs the operations of the schedule and records their
//! results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::operations::{CounterOperation, StreamName};
use super::outside::{item, outcome};
use crate::history::{Call, Ending as Ended, Stream};
use crate::subject::{HostContext, OperationQueue, Recorder};
use crate::subjects::records;
use reknit_counter::client::Closer;
use reknit_counter::{Client, Ending, Failure, Name, Watch};

/// How long a client may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The user of one client.
pub(super) struct CounterUser {
    host: HostContext,
    client: Arc<Client>,
    /// For each stream: how often it was watched, and the closer of the newest watch.
    watched: BTreeMap<Name, (u64, Stream, Closer)>,
    /// Tasks of operations that have not finished.
    busy: JoinSet<()>,
}

impl CounterUser {
    pub(super) fn new(host: HostContext, client: Client) -> Self {
        Self { host, client: Arc::new(client), watched: BTreeMap::new(), busy: JoinSet::new() }
    }

    /// Performs operations as they arrive, then closes the client.
    pub(super) async fn run(mut self, mut operations: OperationQueue<CounterOperation>) {
        loop {
            tokio::select! {
                biased;
                next = operations.next() => match next {
                    Some((call, operation)) => self.perform(call, operation).await,
                    None => break,
                },
                Some(_) = self.busy.join_next() => {}
            }
        }
        let goodbye = async {
            self.client.close().await;
            while self.busy.join_next().await.is_some() {}
        };
        if timeout(CLOSE_TIMEOUT, goodbye).await.is_err() {
            tracing::warn!("the client did not close in time");
        }
    }

    async fn perform(&mut self, call: Call, operation: CounterOperation) {
        let (client, record) = (self.client.clone(), self.host.record.clone());
        match operation {
            CounterOperation::Watch { stream } => self.watch(call, &stream).await,
            CounterOperation::Close { stream } => self.close(call, &stream).await,
            CounterOperation::Add { counter: StreamName(counter), amount } => {
                let memo = call.0.to_string().parse().expect("a number is a name");
                self.busy.spawn(async move {
                    report(&record, call, client.add(counter, amount, memo).await)
                });
            }
            CounterOperation::Peek { counter: StreamName(counter) } => {
                self.busy.spawn(async move { report(&record, call, client.peek(counter).await) });
            }
            CounterOperation::Lease { counter: StreamName(counter), lasts } => {
                self.busy.spawn(async move {
                    report(&record, call, client.lease(counter, lasts.0).await.map(|()| "over"))
                });
            }
        }
    }

    async fn watch(&mut self, call: Call, stream: &StreamName) {
        let nth = self.watched.get(&stream.0).map_or(0, |watched| watched.0) + 1;
        let Ok(name) =
            records::name(self.host.name.as_str(), stream.0.as_str(), nth).parse::<Name>()
        else {
            return self.host.record.refused(call, "the name of the record would be too long");
        };
        let record = Stream::from(name.as_str());
        self.host.record.opened(&record, call);
        let watch = self.client.watch(name).await;
        self.watched.insert(stream.0.clone(), (nth, record.clone(), watch.closer()));
        self.busy.spawn(follow(watch, record, self.host.record.clone()));
    }

    async fn close(&mut self, call: Call, stream: &StreamName) {
        let Some((_, record, closer)) = self.watched.get(&stream.0) else {
            return self.host.record.refused(call, "the stream is not watched");
        };
        self.host.record.gave_up(Some(record), call);
        closer.close().await;
        self.host.record.answered(call, "closed");
    }
}

/// Records a stream until it ends. Asks for the ending twice, to check that the reason does not
/// change.
async fn follow(mut watch: Watch, stream: Stream, record: Recorder) {
    while let Some(number) = watch.next().await {
        record.delivered(&stream, item(number.value), Some(number.generation));
    }
    for _ in 0..2 {
        record.stream_ended(
            &stream,
            match watch.ending() {
                Ending::Completed { total } => Ended::Completed { outcome: outcome(total).into() },
                Ending::Failed(failure) => Ended::Failed { reason: failure.to_string().into() },
            },
        );
    }
}

fn report(record: &Recorder, call: Call, outcome: Result<impl ToString, Failure>) {
    match outcome {
        Ok(result) => record.answered(call, result.to_string()),
        Err(failure) => record.failed(call, failure.to_string()),
    }
}
