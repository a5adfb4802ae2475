//! Our server in this process, and a proxy in front of it.

use std::net::SocketAddr;

use reknit_proxy::{Happening, Proxy, Rule, Script};
use reknit_seams::Env;
use reknit_seams::net::Endpoint;
use reknit_sse::limits::ServerLimits;
use reknit_sse::server::{Server, ServerConfig};
use tokio::task::JoinHandle;

/// The secret that a client must know.
pub const TOKEN: &str = "secret";

/// A server behind a proxy.
pub struct Stage {
    proxy: Proxy,
    direct: SocketAddr,
    serving: JoinHandle<()>,
}

impl Stage {
    /// Starts both. The proxy breaks connections as the rules say.
    pub async fn start(limits: ServerLimits, rules: Vec<Rule>) -> Self {
        let env = Env::real();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.expect("a free port");
        let direct = SocketAddr::new(any.ip(), listener.endpoint().port().expect("a port"));
        let config = ServerConfig { access_token: Some(TOKEN.into()), ..ServerConfig::default() };
        let serving = tokio::spawn(Server::new(&env, config, limits).serve(listener));
        let proxy = Proxy::start(any, direct, Script { rules }).await.expect("a free port");
        Self { proxy, direct, serving }
    }

    /// Returns the address of the proxy.
    pub fn address(&self) -> String {
        self.proxy.address().to_string()
    }

    /// Returns the address of the server behind the proxy.
    pub fn direct(&self) -> SocketAddr {
        self.direct
    }

    /// Returns how many connections the proxy broke.
    pub fn broken(&self) -> usize {
        let events = self.proxy.events();
        events.iter().filter(|event| matches!(event.what, Happening::Fired { .. })).count()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
