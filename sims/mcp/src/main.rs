//! A small MCP server over stdio: `echo` returns its input, `count` counts its calls.
//!
//! The count belongs to this process alone. A client that gets the next number still talks to the
//! same process, and knows how often each call took effect.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::transport::stdio;
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};

#[derive(Clone, Default)]
struct Tools {
    calls: Arc<AtomicU64>,
}

/// The arguments of `echo`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[tool_router]
impl Tools {
    #[tool(description = "gives back what it is given")]
    fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    #[tool(description = "says how often it was called")]
    fn count(&self) -> String {
        (self.calls.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }
}

#[tool_handler]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    Tools::default().serve(stdio()).await?.waiting().await?;
    Ok(())
}
