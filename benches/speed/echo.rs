//! Measures one echo per second over a bare stream: the cost of the world itself, without a
//! protocol on top.

use std::sync::Arc;
use std::time::Duration;

use reknit::net::Endpoint;
use reknit::property::Guarantees;
use reknit::schedule::Limits;
use reknit::subject::{DynSubject, HostContext, Nothing, OperationQueue, Subject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::plans::{carry_out, nothing};
use super::turns::{Meter, Side, print_figure};

/// A server that echoes what it receives, and a client that sends a message and reads the echo once
/// per second.
pub struct Echo;

impl Subject for Echo {
    type Operation = Nothing;

    fn name(&self) -> &'static str {
        "echo"
    }

    fn description(&self) -> &'static str {
        "an echo over a bare stream"
    }

    async fn serve(&self, host: HostContext) {
        let mut listener =
            host.env.net.listen(&Endpoint::tcp("server", 80)).await.expect("nobody else listens");
        let mut stream = listener.accept().await.expect("a client connects");
        let mut received = [0; 5];
        while stream.read_exact(&mut received).await.is_ok()
            && stream.write_all(&received).await.is_ok()
        {}
    }

    async fn drive(&self, host: HostContext, _: OperationQueue<Nothing>) {
        let mut stream =
            host.env.net.connect(&Endpoint::tcp("server", 80)).await.expect("a server listens");
        let mut received = [0; 5];
        while stream.write_all(b"hello").await.is_ok()
            && stream.read_exact(&mut received).await.is_ok()
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn guarantees(&self, _: &Limits) -> Guarantees {
        Guarantees::default()
    }
}

/// Measures how much more a long run costs than a short one, per echo.
pub fn measure(meter: &mut Meter) {
    let echo: Arc<dyn DynSubject> = Arc::new(Echo);
    let [short, long] = [60, 3_660].map(|seconds| nothing("echo", Duration::from_secs(seconds)));
    let sides = [Side::new(|| carry_out(&echo, &long)), Side::new(|| carry_out(&echo, &short))];
    let Some([long, short]) = meter.turns("echo/an hour", sides) else { return };
    print_figure(
        "an echo over a bare stream",
        format!("{:.2} µs", (long - short) / 3_600.0 * 1e6),
        "5 µs, aim 3",
    );
}
