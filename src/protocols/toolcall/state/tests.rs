//! What actions make of sessions and chats.
