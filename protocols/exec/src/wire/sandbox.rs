//! The fields of a start that restrict its command.
//!
//! Their form was measured on codex 0.169.0 on 24 November 2026. Only as much is parsed as shows
//! whether a policy restricts anything.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The restrictions of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restrictions {
    /// The policy for files and the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Value>,
    /// Whether the command may reach the network only through a proxy of the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub enforce_managed_network: bool,
    /// The part of the network that the command may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_network: Option<Value>,
    /// The proxy between the command and the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_proxy: Option<Value>,
    /// The credentials that the proxy hides from the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_providers: Option<Value>,
}

/// The content of `sandbox`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sandbox {
    /// The policy.
    pub permissions: Permissions,
    /// Required, although it has a meaning on Windows only.
    #[serde(rename = "windowsSandboxLevel")]
    _windows_sandbox_level: WindowsLevel,
}

/// The rights that a sandbox grants.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Permissions {
    /// Everything.
    Disabled,
    /// Limited rights: the server must enforce the limits.
    Managed {
        /// The permitted files.
        file_system: FileSystem,
        /// The permitted network.
        network: Network,
    },
    /// All files, because something else confines the server; the server must enforce the rest.
    External {
        /// The permitted network.
        network: Network,
    },
}

/// The permitted files.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum FileSystem {
    /// All.
    Unrestricted,
    /// Those of the entries.
    Restricted {
        /// The entries.
        #[serde(rename = "entries")]
        _entries: Vec<IgnoredAny>,
    },
}

/// The permitted network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// All.
    Enabled,
    /// None.
    Restricted,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WindowsLevel {
    Disabled,
    RestrictedToken,
    Elevated,
    Mxc,
}

impl Permissions {
    /// Whether the command may do everything that the server may do.
    pub fn permit_everything(&self) -> bool {
        match self {
            Self::Disabled => true,
            Self::Managed { file_system: FileSystem::Unrestricted, network }
            | Self::External { network } => *network == Network::Enabled,
            // The entries may still permit everything. They are not examined: to refuse too much is
            // safe.
            Self::Managed { file_system: FileSystem::Restricted { .. }, .. } => false,
        }
    }
}

/// The kind of sandbox that a command runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxType {
    /// The start has no policy.
    None,
    /// The start has a policy, even if that policy permits everything: codex 0.169.0 on Linux answers
    /// this, and confines such a command no more than without a policy.
    LinuxSeccomp,
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}
