//! The messages of the app-server, as types.
