//! No WebSockets: the feature `websocket` is off. A world refuses a plan that asks for one.

use std::io;

use crate::net::Stream;

/// There is none.
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

    pub async fn log(&mut self, _: String) -> io::Result<()> {
        match *self {}
    }

    pub async fn hear(&mut self, _: &mut Vec<u8>) -> io::Result<usize> {
        match *self {}
    }
}
