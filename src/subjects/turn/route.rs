//! The way of a command to an app-server, as the product code names it.

use super::operations::RouteSetup;
use super::setup::{BROKER, PORT};
use super::workspace;
use crate::net::Endpoint;
use crate::process::Command;
use crate::subject::HostContext;
use reknit_turn::client::Route;

/// Returns the address of the broker on the host `broker`.
pub fn broker() -> Endpoint {
    Endpoint::tcp(BROKER, PORT)
}

/// Returns the route of a command on this host, for this account. `app_server` launches the
/// app-server of a command that uses no broker.
pub fn route(
    host: &HostContext,
    route: RouteSetup,
    account: Option<&str>,
    app_server: Command,
) -> Route {
    let endpoint = broker();
    match route {
        RouteSetup::Workspace => {
            let search = workspace::search(host, account.unwrap_or_default());
            Route::Workspace { broker: Box::new(search), app_server }
        }
        RouteSetup::BrokerOrDirect => Route::BrokerOrDirect { endpoint, app_server },
        RouteSetup::Broker => Route::Broker { endpoint },
        RouteSetup::Direct => Route::Direct { app_server },
    }
}
