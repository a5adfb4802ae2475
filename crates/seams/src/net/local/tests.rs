//! Tests unix sockets in memory and those of Linux with the same assertions.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::files::{self, Files, Kind, Open};
use crate::net::{Net, System};

/// A machine with unix sockets, and an empty directory.
struct Machine {
    net: Net,
    files: Arc<dyn Files>,
    directory: PathBuf,
    kind: MachineKind,
}

enum MachineKind {
    Linux { _directory: tempfile::TempDir },
    Memory(UnixSockets),
}

impl Machine {
    async fn both() -> [Self; 2] {
        let directory = tempfile::tempdir().unwrap();
        let linux = Self {
            net: Arc::new(System),
            files: Arc::new(files::System::default()),
            directory: directory.path().to_owned(),
            kind: MachineKind::Linux { _directory: directory },
        };
        let files = Memory::default();
        files.create_directory(Path::new("/run")).await.unwrap();
        let sockets = UnixSockets::new(files.clone());
        let memory = Self {
            net: Arc::new(sockets.clone()),
            files: Arc::new(files),
            directory: "/run".into(),
            kind: MachineKind::Memory(sockets),
        };
        [linux, memory]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn at(&self, name: &str) -> Endpoint {
        Endpoint::unix(self.path(name))
    }

    async fn refusal(&self, name: &str) -> io::ErrorKind {
        self.net.connect(&self.at(name)).await.map(|_| ()).unwrap_err().kind()
    }

    async fn bind_refusal(&self, name: &str) -> io::ErrorKind {
        self.net.listen(&self.at(name)).await.map(|_| ()).unwrap_err().kind()
    }

    /// A process listens, and is killed.
    async fn leave_a_socket(&self, name: &str) {
        match &self.kind {
            MachineKind::Linux { .. } => {
                drop(std::os::unix::net::UnixListener::bind(self.path(name)).unwrap());
            }
            MachineKind::Memory(sockets) => {
                let process = sockets.of_new_process();
                let listener = process.listen(&self.at(name)).await.unwrap();
                process.kill();
                drop(listener);
            }
        }
    }

    async fn connected(&self, name: &str) -> (Listener, Stream, Stream) {
        let mut listener = self.net.listen(&self.at(name)).await.unwrap();
        let near = self.net.connect(&self.at(name)).await.unwrap();
        let far = listener.accept().await.unwrap();
        (listener, near, far)
    }
}

async fn read(stream: &mut Stream) -> Result<Vec<u8>, io::ErrorKind> {
    let mut bytes = [0; 16];
    let read = stream.read(&mut bytes).await;
    read.map(|count| bytes[..count].to_vec()).map_err(|error| error.kind())
}

async fn written(stream: &mut Stream) -> Result<(), io::ErrorKind> {
    stream.write_all(b"x").await.map_err(|error| error.kind())
}

#[tokio::test]
async fn bytes_pass_in_both_directions() {
    for machine in Machine::both().await {
        let (listener, mut near, mut far) = machine.connected("socket").await;
        assert_eq!(listener.endpoint(), machine.at("socket"));
        near.write_all(b"hello").await.unwrap();
        assert_eq!(read(&mut far).await, Ok(b"hello".to_vec()));
        far.write_all(b"bye").await.unwrap();
        far.shutdown().await.unwrap();
        assert_eq!(read(&mut near).await, Ok(b"bye".to_vec()));
        assert_eq!(read(&mut near).await, Ok(Vec::new()));
        assert_eq!(written(&mut near).await, Ok(()), "only the other direction has ended");
        assert_eq!(written(&mut far).await, Err(io::ErrorKind::BrokenPipe));
    }
}

#[tokio::test]
async fn a_write_waits_for_room() {
    for machine in Machine::both().await {
        let (_listener, mut near, mut far) = machine.connected("socket").await;
        let sent = vec![7; 1 << 20];
        let mut received = Vec::new();
        let (written, read) = tokio::join!(
            async {
                near.write_all(&sent).await?;
                near.shutdown().await
            },
            far.read_to_end(&mut received)
        );
        written.unwrap();
        read.unwrap();
        assert_eq!(received, sent);
    }
}

#[tokio::test]
async fn without_a_file_there_is_no_such_address() {
    for machine in Machine::both().await {
        assert_eq!(machine.refusal("socket").await, io::ErrorKind::NotFound);
        assert_eq!(machine.refusal("no/socket").await, io::ErrorKind::NotFound);
        assert_eq!(machine.bind_refusal("no/socket").await, io::ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_listener_makes_its_path_busy_and_removes_its_file() {
    for machine in Machine::both().await {
        let listener = machine.net.listen(&machine.at("socket")).await.unwrap();
        assert_eq!(machine.bind_refusal("socket").await, io::ErrorKind::AddrInUse);
        let metadata = machine.files.metadata(&machine.path("socket"), false).await.unwrap();
        assert_eq!((metadata.kind, metadata.mode), (Kind::Other, 0o600));
        drop(listener);
        assert_eq!(machine.refusal("socket").await, io::ErrorKind::NotFound);
        drop(machine.net.listen(&machine.at("socket")).await.unwrap());
    }
}

#[tokio::test]
async fn the_file_of_a_killed_process_refuses_and_is_busy_until_it_is_removed() {
    for machine in Machine::both().await {
        machine.leave_a_socket("socket").await;
        assert_eq!(machine.refusal("socket").await, io::ErrorKind::ConnectionRefused);
        assert_eq!(machine.bind_refusal("socket").await, io::ErrorKind::AddrInUse);
        machine.files.remove_file(&machine.path("socket")).await.unwrap();
        machine.connected("socket").await;
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_socket_refuses_and_is_busy() {
    for machine in Machine::both().await {
        drop(machine.files.open(&machine.path("file"), Open::New).await.unwrap());
        assert_eq!(machine.refusal("file").await, io::ErrorKind::ConnectionRefused);
        assert_eq!(machine.bind_refusal("file").await, io::ErrorKind::AddrInUse);
    }
}

#[tokio::test]
async fn a_socket_cannot_be_opened_as_a_file() {
    for machine in Machine::both().await {
        let _listener = machine.net.listen(&machine.at("socket")).await.unwrap();
        let path = machine.path("socket");
        let opened = machine.files.open(&path, Open::Read).await.map(|_| ()).unwrap_err();
        assert_eq!(opened.kind(), io::ErrorKind::InvalidInput);
        let opened = machine.files.open(&path, Open::New).await.map(|_| ()).unwrap_err();
        assert_eq!(opened.kind(), io::ErrorKind::AlreadyExists);
    }
}

#[tokio::test]
async fn a_renamed_socket_is_reached_at_its_new_path() {
    for machine in Machine::both().await {
        let mut listener = machine.net.listen(&machine.at("socket")).await.unwrap();
        let (old, new) = (machine.path("socket"), machine.path("renamed"));
        machine.files.rename(&old, &new).await.unwrap();
        assert_eq!(machine.refusal("socket").await, io::ErrorKind::NotFound);
        machine.files.create_link(&new, &machine.path("link")).await.unwrap();
        let link = machine.at("link");
        let (near, far) = tokio::join!(machine.net.connect(&link), listener.accept());
        drop((near.unwrap(), far.unwrap()));
    }
}

#[tokio::test]
async fn a_listener_leaves_the_file_of_another_one() {
    for machine in Machine::both().await {
        let first = machine.net.listen(&machine.at("socket")).await.unwrap();
        machine.files.remove_file(&machine.path("socket")).await.unwrap();
        let _second = machine.net.listen(&machine.at("socket")).await.unwrap();
        drop(first);
        machine.net.connect(&machine.at("socket")).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_is_never_accepted_is_reset() {
    for machine in Machine::both().await {
        let listener = machine.net.listen(&machine.at("socket")).await.unwrap();
        let mut near = machine.net.connect(&machine.at("socket")).await.unwrap();
        assert_eq!(written(&mut near).await, Ok(()), "the kernel takes data before the accept");
        drop(listener);
        assert_eq!(read(&mut near).await, Err(io::ErrorKind::ConnectionReset));
        assert_eq!(read(&mut near).await, Ok(Vec::new()));
        assert_eq!(written(&mut near).await, Err(io::ErrorKind::BrokenPipe));
    }
}

#[tokio::test]
async fn a_close_is_a_reset_only_if_data_was_not_read() {
    for machine in Machine::both().await {
        let (_listener, mut near, mut far) = machine.connected("socket").await;
        far.write_all(b"last").await.unwrap();
        drop(far);
        assert_eq!(read(&mut near).await, Ok(b"last".to_vec()));
        assert_eq!(read(&mut near).await, Ok(Vec::new()));
        assert_eq!(written(&mut near).await, Err(io::ErrorKind::BrokenPipe));

        let (_listener, mut near, mut far) = machine.connected("other").await;
        far.write_all(b"last").await.unwrap();
        near.write_all(b"unread").await.unwrap();
        drop(far);
        assert_eq!(read(&mut near).await, Ok(b"last".to_vec()));
        assert_eq!(read(&mut near).await, Err(io::ErrorKind::ConnectionReset));
        assert_eq!(read(&mut near).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn a_path_that_is_too_long_is_invalid() {
    for machine in Machine::both().await {
        let name = "x".repeat(120);
        assert_eq!(machine.bind_refusal(&name).await, io::ErrorKind::InvalidInput);
        assert_eq!(machine.refusal(&name).await, io::ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn memory_has_no_other_network() {
    let sockets = UnixSockets::new(Memory::default());
    let refused = sockets.connect(&Endpoint::tcp("server", 80)).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
}
