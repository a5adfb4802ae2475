//! A connection whose app-server is initialized.

use std::future::Future;
use std::io;

use reknit_seams::milestone;
use tokio::time::timeout;

use super::{ClientError, News, Run, Server};
use crate::upstream::{RequestFailure, Upstream};
use crate::wire::{ClientInfo, InitializeAnswer, InitializeParams, method};

impl<C: Future<Output = ()>, N: FnMut(News)> Run<'_, C, N> {
    /// Connects to a server, and initializes it.
    pub(super) async fn connect(&mut self, server: Server<'_>) -> Result<Upstream, ClientError> {
        let within = self.limits.connect;
        let cancelled = ClientError::Cancelled { left_behind: None };
        if self.cancel.has_come() {
            return Err(cancelled);
        }
        let (env, limits) = (self.env, self.limits);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let client = ClientInfo { name: self.settings.service.clone(), title: None, version };
        let connected = async {
            let mut upstream = match server {
                Server::Broker(endpoint) => {
                    let stream = env.net.connect(endpoint).await;
                    let stream = stream.map_err(|error| ClientError::CannotConnect {
                        endpoint: endpoint.clone(),
                        why: error.to_string(),
                    })?;
                    Upstream::over(stream, limits.connection)
                }
                Server::Own(command) => Upstream::launch(env, command.clone(), limits.connection)
                    .await
                    .map_err(|error| cannot_launch(command.argv.first(), &error))?,
            };
            match initialize(&mut upstream, client).await {
                Ok(_) => {
                    milestone!("turn.client.connected");
                    Ok(upstream)
                }
                Err(failure) => Err(ClientError::NotInitialized {
                    place: server.place(),
                    why: failure.to_string(),
                }),
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.wait() => Err(cancelled),
            connected = timeout(within, connected) => {
                connected.unwrap_or(Err(ClientError::NotReady { place: server.place(), within }))
            }
        }
    }
}

fn cannot_launch(program: Option<&String>, error: &io::Error) -> ClientError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such program, or no such folder".to_owned(),
        _ => error.to_string(),
    };
    ClientError::CannotLaunch { program: program.cloned().unwrap_or_default(), why }
}

/// Opens the conversation with a server. Must be done once for each connection, before all else.
///
/// # Errors
/// [`RequestFailure`].
pub async fn initialize(
    upstream: &mut Upstream,
    client: ClientInfo,
) -> Result<InitializeAnswer, RequestFailure> {
    let params = InitializeParams::new(client);
    let params = serde_json::value::to_raw_value(&params).expect("the parameters are plain data");
    let answer = upstream.call(method::INITIALIZE, Some(params)).await?;
    upstream.notify(method::INITIALIZED, None);
    Ok(serde_json::from_str(answer.get()).unwrap_or_default())
}
