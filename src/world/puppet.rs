//! Plays the script of a puppet: a scripted peer on a host of a world, without a protocol
//! implementation.

use std::io;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use self::peer::Peer;
use crate::net::{Endpoint, Net, Stream};
use crate::schedule::{Puppet, PuppetStep};

mod peer;

/// How long a puppet client waits before it opens the next connection, and before it retries a
/// failed one.
const PAUSE: Duration = Duration::from_millis(100);

/// Plays the part of a server.
pub(super) async fn serve(net: Net, at: Endpoint, puppet: Puppet, reset: fn(&Stream)) {
    let Ok(mut listener) = net.listen(&at).await else { return };
    let mut playing = JoinSet::new();
    for number in 1..=puppet.connections.unwrap_or(u64::MAX) {
        let Ok(stream) = listener.accept().await else { return };
        let puppet = puppet.clone();
        playing.spawn(async move {
            if let Ok(peer) = Peer::accepted(stream, puppet.speaks).await {
                play(peer, puppet.script_of(number), number, reset).await;
            }
        });
        while playing.try_join_next().is_some() {}
    }
    drop(listener);
    while playing.join_next().await.is_some() {}
}

/// Plays the part of a client.
pub(super) async fn connect(net: Net, to: Endpoint, puppet: Puppet, reset: fn(&Stream)) {
    for number in 1..=puppet.connections.unwrap_or(1) {
        let stream = loop {
            match net.connect(&to).await {
                Ok(stream) => break stream,
                Err(_) => sleep(PAUSE).await,
            }
        };
        if let Ok(peer) = Peer::connected(stream, puppet.speaks).await {
            play(peer, puppet.script_of(number), number, reset).await;
        }
        sleep(PAUSE).await;
    }
}

/// Plays the script on one connection. A connection error ends it.
async fn play(mut peer: Peer, script: &[PuppetStep], number: u64, reset: fn(&Stream)) {
    let mut read = Vec::new();
    for step in script {
        if act(&mut peer, step, number, &mut read, reset).await.is_err() {
            return;
        }
    }
}

async fn act(
    peer: &mut Peer,
    step: &PuppetStep,
    number: u64,
    read: &mut Vec<u8>,
    reset: fn(&Stream),
) -> io::Result<()> {
    match step {
        PuppetStep::Expect { text } => expect(peer, text.as_bytes(), read).await,
        PuppetStep::Send { text, times, every } => {
            for n in 1..=*times {
                if n > 1 {
                    sleep(*every).await;
                }
                let text =
                    text.replace("{n}", &n.to_string()).replace("{conn}", &number.to_string());
                peer.send_text(text).await?;
            }
            Ok(())
        }
        PuppetStep::Wait { lasts } => {
            sleep(*lasts).await;
            Ok(())
        }
        PuppetStep::Drain => {
            while peer.receive(read).await? > 0 {
                read.clear();
            }
            Ok(())
        }
        PuppetStep::Close => Err(io::ErrorKind::ConnectionAborted.into()),
        PuppetStep::Reset => {
            reset(peer.stream());
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

/// Reads until `wanted` has arrived, and removes everything up to its end from `read`.
async fn expect(peer: &mut Peer, wanted: &[u8], read: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let found = read.windows(wanted.len().max(1)).position(|window| window == wanted);
        if wanted.is_empty() || found.is_some() {
            read.drain(..found.unwrap_or(0) + wanted.len());
            return Ok(());
        }
        if peer.receive(read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
