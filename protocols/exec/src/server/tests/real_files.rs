//! Tests with real sockets and real files.

use super::real::{connect, serve};
use super::*;
use crate::wire::sandbox::samples::restricted;

#[tokio::test]
async fn real_files_never_block_the_connection() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let uri = |name: &str| crate::wire::FilePath::new(path(name)).to_string();
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    symlink("loop", path("loop")).unwrap();
    std::fs::create_dir(path("huge")).unwrap();
    for number in 0..3000 {
        std::fs::write(path("huge").join(number.to_string()), "").unwrap();
    }
    let odd = path("huge").join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    std::fs::write(&odd, "odd").unwrap();

    let (env, at, resources, _serving) = serve().await;
    let (mut peer, session) = connect(&env, &at, None).await;
    for (method, mut params, code) in [
        ("fs/readFile", json!({"path": uri("pipe")}), -32600),
        ("fs/writeFile", json!({"path": uri("pipe"), "dataBase64": "aGk="}), -32600),
        ("fs/open", json!({"handleId": "h", "path": uri("pipe"), "mode": "replace"}), -32600),
        (
            "fs/copy",
            json!({"sourcePath": uri("pipe"), "destinationPath": uri("x"), "recursive": false}),
            -32600,
        ),
        (
            "fs/copy",
            json!({"sourcePath": uri("huge/1"), "destinationPath": uri("pipe"), "recursive": false}),
            -32600,
        ),
        ("fs/readFile", json!({"path": "file:///dev/zero"}), -32600),
        ("fs/writeFile", json!({"path": "file:///dev/full", "dataBase64": "aGk="}), -32600),
        ("fs/readFile", json!({"path": uri("loop")}), -32603),
        ("fs/readDirectory", json!({"path": uri("loop")}), -32603),
    ] {
        params["sandbox"] = Value::Null;
        let refused = peer.call(method, params.clone()).await.unwrap_err();
        assert_eq!(refused.0, code, "{method} {params}: {}", refused.1);
    }
    let listed = peer.call("fs/readDirectory", json!({"path": uri("huge")})).await.unwrap();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 3001);
    let odd = json!({"path": crate::wire::FilePath::new(&odd).to_string()});
    assert_eq!(text(&peer.call("fs/readFile", odd).await.unwrap()["dataBase64"]), "odd");
    let status = peer.call("fs/readFile", json!({"path": "file:///proc/self/status"})).await;
    assert!(text(&status.unwrap()["dataBase64"]).starts_with("Name:"));

    let open = json!({"handleId": "h", "path": uri("huge/1"), "mode": "replace"});
    peer.call("fs/open", open).await.unwrap();
    drop(peer);
    let (mut peer, _) = connect(&env, &at, Some(&session)).await;
    let block = json!({"handleId": "h", "offset": 0, "chunk": "aGk="});
    assert_eq!(peer.call("fs/writeBlock", block).await.unwrap_err().0, -32004);
    peer.call("fs/remove", json!({"path": uri("huge")})).await.unwrap();
    assert!(!path("huge").exists());
    assert_eq!(resources.counts().file_handles, 0);
}

#[tokio::test]
async fn a_client_uses_files() {
    use crate::client::{Client, Failure};
    use crate::limits::ClientLimits;
    use crate::wire::files::{OpenMode, WalkOptions};

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
    let (env, at, resources, _serving) = serve().await;
    let client = Client::start(&env, at, ClientLimits::default());
    let files = client.files();
    files.create_directory(path("d/sub"), true).await.unwrap();
    files.write_file(path("d/a"), "hello".into()).await.unwrap();
    assert_eq!(files.read_file(path("d/a")).await.unwrap(), "hello");
    assert_eq!(files.metadata(path("d/a")).await.unwrap().size, 5);
    files.copy(path("d"), path("e"), true).await.unwrap();
    let real = files.canonicalize(path("e/../e/a")).await.unwrap();
    assert_eq!(real.local().unwrap(), path("e/a"));
    assert_eq!(files.read_directory(path("e")).await.unwrap().len(), 2);
    let options = WalkOptions {
        max_depth: 3,
        max_directories: 10,
        max_entries: 10,
        follow_directory_symlinks: false,
        prune_hidden_directories: false,
    };
    assert_eq!(files.walk(path(""), options).await.unwrap().entries.len(), 6);
    let watch = files.watch_missing(&[&path("new")], Some(&path("d"))).await.unwrap().unwrap();
    let new = files.open(path("new"), OpenMode::Replace).await.unwrap();
    new.write_block(1, "block".into()).await.unwrap();
    watch.changed().await.unwrap();
    assert_eq!(resources.counts().file_handles, 1);
    new.close().await.unwrap();
    let new = files.open(path("new"), OpenMode::Read).await.unwrap();
    let block = new.read_block(1, 100).await.unwrap();
    assert_eq!((&*block.chunk.0, block.eof), (&b"block"[..], true));
    files.remove(path("d"), true, false).await.unwrap();
    let gone = files.remove(path("d"), true, false).await;
    assert!(matches!(gone, Err(Failure::Refused { code: -32004, .. })), "{gone:?}");
    let nothing = restricted(json!([]));
    let refused = files.restricted(nothing).read_file(path("new")).await;
    assert!(matches!(refused, Err(Failure::Refused { code: -32600, .. })), "{refused:?}");
}
