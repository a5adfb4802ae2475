//! What must hold of `toolcall` on top of the generic properties.

use crate::property::Property;

/// The properties.
pub(super) const OWN: &[Property] = &[];
