//! Sets of names that a later version may extend.

/// Defines an enum of names on the wire. A name that is not in the list is kept as `Other`. `null`
/// is the empty name.
macro_rules! open_names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// A name that this version does not know. The empty name if there was none.
            Other(String),
        }

        impl $name {
            /// The name on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(name) => name,
                }
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                match name {
                    $($text => Self::$variant,)+
                    _ => Self::Other(name.to_owned()),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = Option::<std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Ok(name.as_deref().unwrap_or_default().into())
            }
        }
    };
}

pub(super) use open_names;
