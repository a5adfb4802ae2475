//! Unix sockets of the operating system.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixSocket, UnixStream};

use super::system::numbered;
use super::{Accept, BoxFuture, Endpoint, Listener, Stream};

pub(super) async fn connect(path: &Path) -> io::Result<Stream> {
    Ok(numbered(UnixStream::connect(path).await?))
}

/// How many connections may wait to be accepted; the system may allow fewer.
const BACKLOG: u32 = 1024;

pub(super) fn listen(path: &Path) -> io::Result<Listener> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile { id: id(path)?, path: path.to_owned() };
    // Before it listens: until then, each connection is refused.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(Box::new(Listening { socket: socket.listen(BACKLOG)?, file }))
}

/// Returns the identity of the file at a path: its device and inode.
fn id(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// The file of a listener. It is removed when this is dropped.
struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another program may have removed the file and listen at the same path.
        if id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A listener. The file is removed before the socket closes: until then the inode is in use, so no
/// other file can have the same one.
struct Listening {
    file: SocketFile,
    socket: UnixListener,
}

impl Accept for Listening {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Stream>> {
        Box::pin(async { Ok(numbered(self.socket.accept().await?.0)) })
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::unix(self.file.path.clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::net::{Connect, Network, System};

    fn at() -> (tempfile::TempDir, Endpoint) {
        let folder = tempfile::tempdir().unwrap();
        let at = Endpoint::unix(folder.path().join("socket"));
        (folder, at)
    }

    #[tokio::test]
    async fn bytes_pass_and_the_file_is_private() {
        let (_folder, at) = at();
        let mut listener = System.listen(&at).await.unwrap();
        assert_eq!(listener.endpoint(), at);
        assert_eq!(fs::metadata(at.path().unwrap()).unwrap().mode() & 0o777, 0o600);
        let (near, far) = tokio::join!(System.connect(&at), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        assert_ne!(near.id(), far.id());
        near.write_all(b"hello").await.unwrap();
        near.shutdown().await.unwrap();
        let mut received = String::new();
        far.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "hello");
    }
}
