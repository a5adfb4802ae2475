//! Replaces WebSockets if the feature `websocket` is off. A world refuses a plan that needs one.

use std::io;

use crate::net::Stream;

/// Has no values.
pub enum Messages {}

impl Messages {
    pub async fn accepted(_: Stream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub async fn connected(_: Stream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn stream(&self) -> &Stream {
        match *self {}
    }

    pub async fn send_text(&mut self, _: String) -> io::Result<()> {
        match *self {}
    }

    pub async fn receive(&mut self, _: &mut Vec<u8>) -> io::Result<usize> {
        match *self {}
    }
}
