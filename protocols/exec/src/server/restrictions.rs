//! The restrictions that a client puts on a command. The server enforces them, or refuses the start.
//! It never runs a command with more rights than the client wants to give it.
//!
//! `policy` says which sandboxes can be enforced. The server has no proxy, so it refuses the fields that
//! ask for one. (Codex 0.169.0 ignores `enforceManagedNetwork` and `managedNetwork` without a
//! `sandbox`.)

use reknit_seams::defect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::request_error::RequestError;
use crate::wire::sandbox::{Restrictions, Sandbox};

/// Returns the sandbox of a command, if it has one.
///
/// # Errors
/// [`RequestError::CannotEnforce`] with the first restriction that is no sandbox, and
/// [`RequestError::Params`] if the sandbox is malformed.
pub(super) fn check(restrictions: &Restrictions) -> Result<Option<Sandbox>, RequestError> {
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
        ("managedNetwork", managed_network.is_some() && !defect!(ManagedNetworkIgnored)),
        ("networkProxy", network_proxy.is_some()),
        (
            "credentialProviders",
            credential_providers.as_ref().is_some_and(hides) && !defect!(CredentialsUnhidden),
        ),
    ] {
        if restricts {
            return Err(RequestError::CannotEnforce(field));
        }
    }
    sandbox.as_ref().map(read).transpose()
}

/// Reads a sandbox.
///
/// # Errors
/// [`RequestError::Params`] if it is malformed.
pub(super) fn read(sandbox: &Value) -> Result<Sandbox, RequestError> {
    Sandbox::deserialize(sandbox).map_err(|error| RequestError::Params(format!("sandbox: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::sandbox::Permissions;

    fn checked(fields: Value) -> Result<Option<Sandbox>, RequestError> {
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
            assert_eq!(checked(fields), Ok(None));
        }
        let sandbox = checked(permissions(json!({"type": "disabled"}))).unwrap().unwrap();
        assert_eq!(sandbox.permissions, Permissions::Disabled);
    }

    #[test]
    fn every_other_restriction_is_refused() {
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
