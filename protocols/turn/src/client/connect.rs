//! A connection to a server that is initialized.

use std::future::Future;
use std::io;

use reknit_seams::{defect, milestone};
use tokio::time::timeout;

use super::{ClientError, News, Run, Server};
use crate::upstream::Upstream;
use crate::wire::ClientInfo;

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
                Server::Workspace(search) => {
                    return search.find_or_start(env).await.map_err(|why| ClientError::NoBroker {
                        directory: search.directory.clone(),
                        why: why.to_string(),
                    });
                }
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
            match upstream.initialize(client).await {
                Ok(_) => Ok(upstream),
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
                let late = || ClientError::NotReady { place: server.place(), within };
                let upstream = connected.unwrap_or_else(|_| Err(late()))?;
                milestone!("turn.client.connected");
                Ok(upstream)
            }
        }
    }
}

fn cannot_launch(program: Option<&String>, error: &io::Error) -> ClientError {
    let why = match error.kind() {
        io::ErrorKind::NotFound if !defect!(LaunchErrorsAreRaw) => {
            "there is no such program, or no such folder".to_owned()
        }
        _ => error.to_string(),
    };
    ClientError::CannotLaunch { program: program.cloned().unwrap_or_default(), why }
}
