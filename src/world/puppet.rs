//! Plays the script of a puppet: a raw peer on a host of a world.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::net::{Endpoint, Net, Stream};
use crate::schedule::{Puppet, PuppetStep};

/// How long a puppet client waits before it connects again, and before it tries again where it could not.
const PAUSE: Duration = Duration::from_millis(100);

/// Plays a server's part.
pub(super) async fn serve(net: Net, at: Endpoint, puppet: Puppet, reset: fn(&Stream)) {
    let Ok(mut listener) = net.listen(&at).await else { return };
    let mut playing = JoinSet::new();
    for number in 1..=puppet.connections.unwrap_or(u64::MAX) {
        let Ok(stream) = listener.accept().await else { return };
        let script = puppet.script.clone();
        playing.spawn(async move { play(stream, &script, number, reset).await });
        while playing.try_join_next().is_some() {}
    }
    drop(listener);
    while playing.join_next().await.is_some() {}
}

/// Plays a client's part.
pub(super) async fn connect(net: Net, to: Endpoint, puppet: Puppet, reset: fn(&Stream)) {
    for number in 1..=puppet.connections.unwrap_or(1) {
        let stream = loop {
            match net.connect(&to).await {
                Ok(stream) => break stream,
                Err(_) => sleep(PAUSE).await,
            }
        };
        play(stream, &puppet.script, number, reset).await;
        sleep(PAUSE).await;
    }
}

/// Plays the script on one connection; an error of the connection ends it.
async fn play(mut stream: Stream, script: &[PuppetStep], number: u64, reset: fn(&Stream)) {
    let mut read = Vec::new();
    for step in script {
        if act(&mut stream, step, number, &mut read, reset).await.is_err() {
            return;
        }
    }
}

async fn act(stream: &mut Stream, step: &PuppetStep, number: u64, read: &mut Vec<u8>, reset: fn(&Stream)) -> io::Result<()> {
    match step {
        PuppetStep::Expect { text } => expect(stream, text.as_bytes(), read).await,
        PuppetStep::Send { text, times, every } => {
            for n in 1..=*times {
                if n > 1 {
                    sleep(*every).await;
                }
                let text = text.replace("{n}", &n.to_string()).replace("{conn}", &number.to_string());
                stream.write_all(text.as_bytes()).await?;
            }
            Ok(())
        }
        PuppetStep::Wait { lasts } => {
            sleep(*lasts).await;
            Ok(())
        }
        PuppetStep::Drain => {
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).await? > 0 {}
            Ok(())
        }
        PuppetStep::Close => Err(io::ErrorKind::ConnectionAborted.into()),
        PuppetStep::Reset => {
            reset(stream);
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
}

/// Reads until `wanted` has come, and takes what was read up to and with it.
async fn expect(stream: &mut Stream, wanted: &[u8], read: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let found = read.windows(wanted.len().max(1)).position(|window| window == wanted);
        if wanted.is_empty() || found.is_some() {
            read.drain(..found.unwrap_or(0) + wanted.len());
            return Ok(());
        }
        if stream.read_buf(read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
