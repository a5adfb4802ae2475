//! The restrictions that a client puts on a command. This server enforces none of them yet, so it
//! refuses every start with a restriction. It never runs a command with more rights than the client
//! wants to give it.
//!
//! Codex 0.169.0 ignores `enforceManagedNetwork` and `managedNetwork` without a `sandbox`; this
//! server refuses them.

use serde::Deserialize;
use serde_json::{Value, json};

use super::request_error::RequestError;
use crate::wire::sandbox::{Restrictions, Sandbox, SandboxType};

/// Returns the sandbox of a command without restrictions.
///
/// # Errors
/// [`RequestError::CannotEnforce`] with the first restriction, and [`RequestError::Params`] if the
/// sandbox is malformed.
pub(super) fn check(restrictions: &Restrictions) -> Result<SandboxType, RequestError> {
    let Restrictions {
        sandbox,
        enforce_managed_network,
        managed_network,
        network_proxy,
        credential_providers,
    } = restrictions;
    // Without an entry, no credential is hidden.
    let hides = |value: &Value| *value != json!([]) && *value != json!({});
    for (field, restricts) in [
        ("enforceManagedNetwork", *enforce_managed_network),
        ("managedNetwork", managed_network.is_some()),
        ("networkProxy", network_proxy.is_some()),
        ("credentialProviders", credential_providers.as_ref().is_some_and(hides)),
    ] {
        if restricts {
            return Err(RequestError::CannotEnforce(field));
        }
    }
    let Some(sandbox) = sandbox else { return Ok(SandboxType::None) };
    let sandbox = Sandbox::deserialize(sandbox)
        .map_err(|error| RequestError::Params(format!("sandbox: {error}")))?;
    if sandbox.permissions.permit_everything() {
        Ok(SandboxType::LinuxSeccomp)
    } else {
        Err(RequestError::CannotEnforce("sandbox"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(fields: Value) -> Result<SandboxType, RequestError> {
        check(&serde_json::from_value(fields).unwrap())
    }

    fn permissions(permissions: Value) -> Value {
        json!({"sandbox": {"permissions": permissions, "windowsSandboxLevel": "disabled"}})
    }

    #[test]
    fn a_command_without_restrictions_runs() {
        let none = json!({"sandbox": null, "enforceManagedNetwork": false, "managedNetwork": null, "networkProxy": null, "credentialProviders": null});
        for fields in [
            json!({}),
            none,
            json!({"credentialProviders": []}),
            json!({"credentialProviders": {}}),
        ] {
            assert_eq!(checked(fields), Ok(SandboxType::None));
        }
        for everything in [
            json!({"type": "disabled"}),
            json!({"type": "managed", "file_system": {"type": "unrestricted"}, "network": "enabled"}),
            json!({"type": "external", "network": "enabled"}),
        ] {
            assert_eq!(checked(permissions(everything)), Ok(SandboxType::LinuxSeccomp));
        }
    }

    #[test]
    fn every_restriction_is_refused() {
        let entries =
            json!([{"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}]);
        for restricted in [
            json!({"type": "managed", "file_system": {"type": "restricted", "entries": entries}, "network": "enabled"}),
            json!({"type": "managed", "file_system": {"type": "restricted", "entries": []}, "network": "restricted"}),
            json!({"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}),
            json!({"type": "external", "network": "restricted"}),
        ] {
            assert_eq!(
                checked(permissions(restricted)),
                Err(RequestError::CannotEnforce("sandbox"))
            );
        }
        for (field, value) in [
            ("enforceManagedNetwork", json!(true)),
            ("managedNetwork", json!({})),
            ("networkProxy", json!({"proxy": {}})),
            ("credentialProviders", json!([{}])),
            ("credentialProviders", json!({"a": {}})),
            ("credentialProviders", json!(5)),
        ] {
            assert_eq!(checked(json!({ field: value })), Err(RequestError::CannotEnforce(field)));
            let mut both = permissions(json!({"type": "disabled"}));
            both[field] = value;
            assert_eq!(checked(both), Err(RequestError::CannotEnforce(field)));
        }
    }

    #[test]
    fn a_policy_that_is_not_understood_is_refused() {
        for sandbox in [
            json!(7),
            json!({}),
            json!({"permissions": {"type": "disabled"}}),
            json!({"permissions": {"type": "disabled"}, "windowsSandboxLevel": "x"}),
            json!({"permissions": {"type": "danger-full-access"}, "windowsSandboxLevel": "disabled"}),
            json!({"permissions": {"type": "managed", "network": "enabled"}, "windowsSandboxLevel": "disabled"}),
            json!({"permissions": {"type": "external", "network": "x"}, "windowsSandboxLevel": "disabled"}),
        ] {
            let refused = checked(json!({ "sandbox": sandbox }));
            assert!(matches!(refused, Err(RequestError::Params(_))), "{refused:?}");
        }
    }
}
