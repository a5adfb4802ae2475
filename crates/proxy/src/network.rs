//! The condition of the whole network.

/// The condition of the whole network, beside what the script does to single connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkState {
    /// All data is forwarded.
    #[default]
    Fair,
    /// Every connection is reset, including new ones.
    Resets,
    /// Every connection is closed gracefully, including new ones.
    Closes,
    /// No data is forwarded, and none is lost: it arrives when the network works again.
    Still,
}

impl NetworkState {
    pub(crate) fn ends_connections(&self) -> bool {
        matches!(self, Self::Resets | Self::Closes)
    }
}
