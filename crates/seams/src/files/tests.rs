//! The operating system's files in a folder for the test, and files in memory: where they can,
//! both run the same tests.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Grants write access beneath one folder, and read access elsewhere, except to `secret`.
struct Below(PathBuf);

impl PathPolicy for Below {
    fn access(&self, path: &Path) -> Access {
        match path {
            _ if path.iter().any(|name| name == "secret") => Access::None,
            _ if path.starts_with(&self.0) => Access::Write,
            _ => Access::Read,
        }
    }
}

struct Stage {
    _folder: Option<TempDir>,
    path: PathBuf,
    files: Arc<dyn Files>,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        Self { _folder: Some(folder), path, files: Arc::new(System::default()) }
    }

    /// Files in memory.
    async fn memory() -> Self {
        let files = Arc::new(Memory::default().with_clock(crate::Env::real().clock));
        files.create_directory(Path::new("/t")).await.unwrap();
        Self { _folder: None, path: "/t".into(), files }
    }

    async fn both() -> [Self; 2] {
        [Self::new(), Self::memory().await]
    }

    fn at(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }

    async fn folder(&self, name: &str) {
        self.files.create_directory(&self.at(name)).await.unwrap();
    }

    async fn link(&self, target: impl AsRef<Path>, name: &str) {
        self.files.create_link(target.as_ref(), &self.at(name)).await.unwrap();
    }

    async fn write(&self, name: &str, text: &str) -> io::Result<()> {
        write(&*self.files, &self.at(name), text).await
    }
}

async fn write(files: &dyn Files, path: &Path, text: &str) -> io::Result<()> {
    files.open(path, Open::Replace).await?.write_at(0, text.into()).await
}

async fn read(files: &dyn Files, path: &Path) -> io::Result<String> {
    let bytes = files.open(path, Open::Read).await?.read_at(0, 1000).await?;
    Ok(String::from_utf8(bytes).unwrap())
}

fn is_a_link_error<T>(result: io::Result<T>) -> bool {
    let error = result.err().expect("this fails");
    let code = Some(rustix::io::Errno::LOOP.raw_os_error());
    error.raw_os_error() == code || error.to_string() == "too many links"
}

fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.err().expect("this fails").kind()
}

#[tokio::test]
async fn a_file_is_written_and_read() {
    for stage in Stage::both().await {
        stage.write("a", "hello").await.unwrap();
        let file = stage.files.open(&stage.at("a"), Open::Read).await.unwrap();
        assert_eq!(file.read_at(1, 3).await.unwrap(), b"ell");
        assert_eq!(file.read_at(3, 9).await.unwrap(), b"lo");
        assert_eq!(file.read_at(9, 9).await.unwrap(), b"");
        assert!(file.write_at(0, vec![1]).await.is_err());
        assert_eq!(file.metadata().await.unwrap().size, 5);
        let file = stage.files.open(&stage.at("a"), Open::Write).await.unwrap();
        file.write_at(7, b"!".to_vec()).await.unwrap();
        file.set_mode(0o700).await.unwrap();
        assert_eq!(read(&*stage.files, &stage.at("a")).await.unwrap(), "hello\0\0!");
        assert_eq!(file.metadata().await.unwrap().mode, 0o700);
        stage.write("a", "").await.unwrap();
        assert_eq!(file.metadata().await.unwrap().size, 0);
    }
}

#[tokio::test]
async fn a_record_is_replaced_atomically_under_a_lock() {
    for stage in Stage::both().await {
        let lock = stage.files.open(&stage.at("lock"), Open::Write).await.unwrap();
        assert!(lock.try_lock().await.unwrap());
        let other = stage.files.open(&stage.at("lock"), Open::Write).await.unwrap();
        assert!(!other.try_lock().await.unwrap());
        stage.write("record", "old").await.unwrap();
        let new = stage.files.open(&stage.at("record.new"), Open::New).await.unwrap();
        assert_eq!(
            kind(stage.files.open(&stage.at("record.new"), Open::New).await),
            io::ErrorKind::AlreadyExists
        );
        new.write_at(0, b"new".to_vec()).await.unwrap();
        new.sync().await.unwrap();
        stage.files.rename(&stage.at("record.new"), &stage.at("record")).await.unwrap();
        stage.files.sync_directory(&stage.at("")).await.unwrap();
        assert_eq!(read(&*stage.files, &stage.at("record")).await.unwrap(), "new");
        drop(lock);
        while !other.try_lock().await.unwrap() {} // the drop closes the file on another thread
    }
}

#[tokio::test]
async fn what_is_not_a_regular_file_is_never_opened() {
    let stage = Stage::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        stage.at("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(stage.at("socket")).unwrap();
    for path in [stage.at("pipe"), stage.at("socket"), "/dev/zero".into(), "/dev/tty".into()] {
        for how in [Open::Read, Open::Write, Open::Replace] {
            let opened = timeout(Duration::from_secs(5), stage.files.open(&path, how));
            let refused = opened.await.expect("it does not wait").err().expect("it is refused");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{path:?} {how:?}");
        }
        assert_eq!(stage.files.metadata(&path, true).await.unwrap().kind, Kind::Other);
    }
    let folder = stage.at("");
    assert_eq!(kind(stage.files.open(&folder, Open::Read).await), io::ErrorKind::InvalidInput);
    assert_eq!(kind(stage.files.open(&folder, Open::Replace).await), io::ErrorKind::IsADirectory);
}

#[tokio::test]
async fn links_are_followed_or_refused() {
    for stage in Stage::both().await {
        stage.folder("real").await;
        stage.link("real", "link").await;
        stage.link("real/new", "dangling").await;
        stage.link("loop", "loop").await;
        stage.write("link/a", "A").await.unwrap();
        stage.write("dangling", "N").await.unwrap();
        assert_eq!(read(&*stage.files, &stage.at("real/new")).await.unwrap(), "N");
        assert_eq!(
            stage.files.canonicalize(&stage.at("link/a")).await.unwrap(),
            stage.at("real/a")
        );
        assert_eq!(stage.files.read_link(&stage.at("link")).await.unwrap(), Path::new("real"));
        assert!(is_a_link_error(stage.write("loop", "").await));
        let plain = stage.files.restricted(Links::Refuse, None);
        assert_eq!(read(&*plain, &stage.at("real/a")).await.unwrap(), "A");
        for path in ["link/a", "dangling"] {
            assert!(is_a_link_error(plain.open(&stage.at(path), Open::Replace).await), "{path}");
        }
        assert!(is_a_link_error(plain.remove_file(&stage.at("link/a")).await));
        plain.remove_file(&stage.at("link")).await.unwrap();
        assert_eq!(read(&*stage.files, &stage.at("real/a")).await.unwrap(), "A");
    }
}

#[tokio::test]
async fn a_policy_judges_the_real_path() {
    for stage in Stage::both().await {
        for folder in ["in", "out"] {
            stage.folder(folder).await;
        }
        stage.write("out/f", "F").await.unwrap();
        stage.write("out/secret", "S").await.unwrap();
        stage.link(stage.at("out"), "in/out").await;
        stage.link("../out/f", "in/f").await;
        stage.link("../out/new", "in/new").await;
        stage.link("../out/secret", "in/alias").await;
        let files = stage.files.restricted(Links::Follow, Some(Arc::new(Below(stage.at("in")))));
        write(&*files, &stage.at("in/a"), "A").await.unwrap();
        files.create_directory(&stage.at("in/sub")).await.unwrap();
        assert_eq!(read(&*files, &stage.at("in/f")).await.unwrap(), "F");
        for path in ["in/out/f", "in/out/g", "in/f", "in/new", "out/f"] {
            let refused = kind(write(&*files, &stage.at(path), "X").await);
            assert_eq!(refused, io::ErrorKind::ReadOnlyFilesystem, "{path}");
        }
        assert_eq!(
            kind(read(&*files, &stage.at("in/alias")).await),
            io::ErrorKind::PermissionDenied
        );
        let outside = stage.at("in/out/f");
        assert_eq!(kind(files.remove_file(&outside).await), io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(
            kind(files.create_directory(&stage.at("in/out/d")).await),
            io::ErrorKind::ReadOnlyFilesystem
        );
        assert_eq!(
            kind(files.rename(&stage.at("in/a"), &stage.at("in/out/a")).await),
            io::ErrorKind::ReadOnlyFilesystem
        );
        assert_eq!(
            kind(files.rename(&stage.at("in/sub"), &stage.at("in/sub2")).await),
            io::ErrorKind::PermissionDenied
        );
        // The folder itself is an entry of a directory that is only readable.
        assert_eq!(
            kind(files.remove_directory(&stage.at("in")).await),
            io::ErrorKind::ReadOnlyFilesystem
        );
        // A second policy cannot widen the first.
        let twice = files.restricted(Links::Follow, Some(Arc::new(Below(stage.at("out")))));
        assert!(write(&*twice, &stage.at("out/f"), "X").await.is_err());
        assert_eq!(read(&*stage.files, &stage.at("out/f")).await.unwrap(), "F");
    }
}

#[tokio::test]
async fn a_denial_does_not_tell_whether_a_name_exists() {
    for stage in Stage::both().await {
        stage.folder("in").await;
        stage.folder("secret").await;
        stage.write("secret/f", "S").await.unwrap();
        stage.link(stage.at("secret/f"), "in/f").await;
        stage.link("../secret/none", "in/none").await;
        stage.link("none", "in/again").await;
        let files = stage.files.restricted(Links::Follow, Some(Arc::new(Below(stage.at("in")))));
        for name in ["secret/f", "secret/none", "secret/f/x", "secret/none/x", "in/f", "in/again"] {
            let path = stage.at(name);
            for refused in [
                kind(read(&*files, &path).await),
                kind(write(&*files, &path, "X").await),
                kind(files.metadata(&path, true).await),
                kind(files.create_directory(&path.join("x/y")).await),
                kind(files.remove_file(&path.join("x")).await),
            ] {
                assert_eq!(refused, io::ErrorKind::PermissionDenied, "{name}");
            }
        }
        assert_eq!(kind(read(&*files, &stage.at("in/x/y")).await), io::ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_refused_link_is_an_error_whether_or_not_it_leads_anywhere() {
    for stage in Stage::both().await {
        stage.folder("d").await;
        stage.link("d", "l").await;
        stage.link("none", "broken").await;
        let files = stage.files.restricted(Links::Refuse, None);
        for name in ["broken", "l/none", "broken/none", "l/none/none"] {
            assert!(is_a_link_error(read(&*files, &stage.at(name)).await), "{name}");
            assert!(is_a_link_error(write(&*files, &stage.at(name), "X").await), "{name}");
        }
        assert_eq!(kind(read(&*files, &stage.at("d/none")).await), io::ErrorKind::NotFound);
        assert_eq!(files.metadata(&stage.at("broken"), false).await.unwrap().kind, Kind::Link);
    }
}

#[tokio::test]
async fn directories_are_listed_up_to_a_bound() {
    for stage in Stage::both().await {
        stage.folder("d").await;
        stage.write("d/a", "").await.unwrap();
        let odd = stage.at("d").join(std::ffi::OsStr::from_bytes(b"\xff"));
        write(&*stage.files, &odd, "").await.unwrap();
        stage.link("nothing", "d/link").await;
        let mut entries = stage.files.entries(&stage.at("d"), 3).await.unwrap();
        entries.sort();
        let kinds: Vec<Kind> = entries.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [Kind::File, Kind::Link, Kind::File]);
        assert_eq!(entries[2].name.as_bytes(), b"\xff");
        assert_eq!(kind(stage.files.entries(&stage.at("d"), 2).await), io::ErrorKind::InvalidInput);
        assert_eq!(
            kind(stage.files.entries(&stage.at("d/a"), 2).await),
            io::ErrorKind::NotADirectory
        );
        assert_eq!(
            kind(stage.files.remove_directory(&stage.at("d")).await),
            io::ErrorKind::DirectoryNotEmpty
        );
    }
}

#[tokio::test]
async fn the_root_cannot_be_changed() {
    let files = System::default();
    let root = Path::new("/");
    assert_eq!(kind(files.create_directory(root).await), io::ErrorKind::AlreadyExists);
    assert_eq!(kind(files.remove_directory(root).await), io::ErrorKind::ResourceBusy);
    assert_eq!(kind(files.open(root, Open::Replace).await), io::ErrorKind::IsADirectory);
}

#[tokio::test]
async fn an_open_file_outlives_its_path() {
    for stage in Stage::both().await {
        stage.write("a", "kept").await.unwrap();
        let file = stage.files.open(&stage.at("a"), Open::Read).await.unwrap();
        stage.files.remove_file(&stage.at("a")).await.unwrap();
        assert_eq!(file.read_at(0, 10).await.unwrap(), b"kept");
        assert_eq!(kind(stage.files.metadata(&stage.at("a"), true).await), io::ErrorKind::NotFound);
    }
}

/// Returns what a loss of power leaves of files. The draws are these numbers, and then zeros.
async fn after_a_loss(draws: &[u64], changes: impl AsyncFn(&Memory)) -> Vec<String> {
    let files = Memory::tracking_syncs();
    changes(&files).await;
    let mut draws = draws.iter();
    files.lose_unsynced(|bound| {
        let drawn = draws.next().copied().unwrap_or(0);
        assert!(drawn < bound);
        drawn
    });
    let mut left = Vec::new();
    let mut directories = vec![std::path::PathBuf::from("/")];
    while let Some(directory) = directories.pop() {
        for entry in files.entries(&directory, 100).await.unwrap() {
            let path = directory.join(&entry.name);
            let text = match entry.kind {
                Kind::Directory => String::new(),
                _ => read(&files, &path).await.unwrap(),
            };
            left.push(format!("{}: {text}", path.display()));
            directories.extend((entry.kind == Kind::Directory).then_some(path));
        }
    }
    left
}

/// Writes a text over a file, and syncs the file if `sync` is set.
async fn put(files: &Memory, path: &str, text: &str, sync: bool) {
    write(files, Path::new(path), text).await.unwrap();
    if sync {
        files.open(Path::new(path), Open::Write).await.unwrap().sync().await.unwrap();
    }
}

#[tokio::test]
async fn a_loss_of_power_loses_what_was_not_synced() {
    let root = Path::new("/");
    let overwritten = async |files: &Memory| {
        put(files, "/a", "old", true).await;
        files.sync_directory(root).await.unwrap();
        put(files, "/a", "newer", false).await;
    };
    assert_eq!(after_a_loss(&[0], overwritten).await, ["/a: old"]);
    assert_eq!(after_a_loss(&[1], overwritten).await, ["/a: newer"]);
    assert_eq!(after_a_loss(&[2, 1], overwritten).await, ["/a: nld"]);
    assert_eq!(after_a_loss(&[2, 4], overwritten).await, ["/a: newe"]);
    let created = async |files: &Memory| {
        files.create_directory(Path::new("/d")).await.unwrap();
        files.sync_directory(root).await.unwrap();
        put(files, "/d/a", "text", true).await;
    };
    assert_eq!(after_a_loss(&[0], created).await, ["/d: "]);
    assert_eq!(after_a_loss(&[1], created).await, ["/d: ", "/d/a: text"]);
}

#[tokio::test]
async fn a_synced_replacement_survives_a_loss_of_power_whole() {
    let root = Path::new("/");
    let replaced = async |files: &Memory, sync: bool| {
        put(files, "/a", "old", true).await;
        files.sync_directory(root).await.unwrap();
        put(files, "/new", "newer", sync).await;
        files.rename(Path::new("/new"), Path::new("/a")).await.unwrap();
    };
    let synced = async |files: &Memory| replaced(files, true).await;
    assert_eq!(after_a_loss(&[0], synced).await, ["/a: old"]);
    assert_eq!(after_a_loss(&[1], synced).await, ["/a: newer"]);
    let torn = async |files: &Memory| replaced(files, false).await;
    assert_eq!(after_a_loss(&[1, 2, 2], torn).await, ["/a: ne"]);
    let durable = async |files: &Memory| {
        replaced(files, true).await;
        files.sync_directory(root).await.unwrap();
    };
    assert_eq!(after_a_loss(&[0, 0, 0], durable).await, ["/a: newer"]);
}

#[tokio::test]
async fn files_that_do_not_track_syncs_lose_nothing() {
    let files = Memory::default();
    put(&files, "/a", "text", false).await;
    files.lose_unsynced(|_| 0);
    assert_eq!(read(&files, Path::new("/a")).await.unwrap(), "text");
}
