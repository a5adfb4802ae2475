//! Tests of the requests for files.

use std::path::Path;

use super::*;
use crate::wire::Base64;
use crate::wire::sandbox::samples::{path, restricted, special};

const NOT_FOUND: i64 = -32004;
const INVALID: i64 = -32600;
const PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;

fn at(path: &str) -> String {
    format!("file://{path}")
}

fn data(text: &str) -> Value {
    json!(Base64(text.to_owned().into()))
}

async fn code(peer: &mut Peer, method: &str, params: Value) -> i64 {
    let answer = peer.call(method, params.clone()).await;
    answer.map(|result| panic!("{method} {params}: {result}")).unwrap_err().0
}

async fn write_file(peer: &mut Peer, path: &str, content: &str) {
    let params = json!({"path": at(path), "dataBase64": data(content)});
    assert_eq!(peer.call("fs/writeFile", params).await, Ok(json!({})));
}

async fn read_file(peer: &mut Peer, path: &str) -> String {
    text(&peer.call("fs/readFile", json!({"path": at(path)})).await.unwrap()["dataBase64"])
}

/// A client of a server with files: the directories `/d` and `/d/sub`, the file `/d/a`, and links.
async fn stage() -> (TestServer, Peer, String) {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    peer.call("fs/createDirectory", json!({"path": at("/d/sub")})).await.unwrap();
    write_file(&mut peer, "/d/a", "hello").await;
    let link = async |target: &str, path: &str| {
        server.files.create_link(Path::new(target), Path::new(path)).await.unwrap();
    };
    link("a", "/d/link").await;
    link("nothing", "/d/dangling").await;
    link("sub", "/d/folder").await;
    (server, peer, session)
}

#[tokio::test(start_paused = true)]
async fn every_method_answers_its_result() {
    let (_server, mut peer, _) = stage().await;
    assert_eq!(read_file(&mut peer, "/d/link").await, "hello");
    let described = peer.call("fs/getMetadata", json!({"path": at("/d/link")})).await.unwrap();
    assert_eq!(
        (&described["isFile"], &described["isSymlink"], &described["size"]),
        (&json!(true), &json!(true), &json!(5))
    );
    let real = peer.call("fs/canonicalize", json!({"path": at("/d/folder/../link")})).await;
    assert_eq!(real, Ok(json!({"path": at("/d/a")})));
    let listed = peer.call("fs/readDirectory", json!({"path": at("/d")})).await.unwrap();
    assert_eq!(
        listed["entries"],
        json!([
            {"fileName": "a", "isDirectory": false, "isFile": true},
            {"fileName": "folder", "isDirectory": true, "isFile": false},
            {"fileName": "link", "isDirectory": false, "isFile": true},
            {"fileName": "sub", "isDirectory": true, "isFile": false},
        ])
    );
    let copied = json!({"sourcePath": at("/d"), "destinationPath": at("/e"), "recursive": true});
    assert_eq!(peer.call("fs/copy", copied).await, Ok(json!({})));
    assert_eq!(read_file(&mut peer, "/e/link").await, "hello");
    assert_eq!(peer.call("fs/remove", json!({"path": at("/e")})).await, Ok(json!({})));
    assert_eq!(code(&mut peer, "fs/getMetadata", json!({"path": at("/e")})).await, NOT_FOUND);
    assert_eq!(read_file(&mut peer, "/d/a").await, "hello");
}

#[tokio::test(start_paused = true)]
async fn errors_have_the_codes_of_codex() {
    let (_server, mut peer, _) = stage().await;
    for (method, params, expected) in [
        ("fs/readFile", json!({"path": "/d/a"}), PARAMS),
        ("fs/readFile", json!({"path": null}), PARAMS),
        ("fs/readFile", json!({"path": "http://x/y"}), PARAMS),
        ("fs/readFile", json!({"path": "file://elsewhere/a"}), INVALID),
        ("fs/readFile", json!({"path": at("/d")}), INVALID),
        ("fs/readFile", json!({"path": at("/no")}), NOT_FOUND),
        ("fs/readFile", json!({"path": at("/d/a/b")}), INTERNAL),
        ("fs/readFile", json!({"path": at("/d/link"), "followSymlinks": false}), INTERNAL),
        ("fs/readFile", json!({"path": at(&format!("/{}", "n".repeat(5000)))}), INTERNAL),
        ("fs/writeFile", json!({"path": at("/d/b")}), PARAMS),
        ("fs/writeFile", json!({"path": at("/d/b"), "dataBase64": "!"}), INVALID),
        ("fs/writeFile", json!({"path": at("/d"), "dataBase64": ""}), INTERNAL),
        ("fs/writeFile", json!({"path": at("/no/b"), "dataBase64": ""}), NOT_FOUND),
        ("fs/createDirectory", json!({"path": at("/d/a")}), INTERNAL),
        ("fs/createDirectory", json!({"path": at("/d"), "recursive": false}), INTERNAL),
        ("fs/createDirectory", json!({"path": at("/no/b"), "recursive": false}), NOT_FOUND),
        ("fs/getMetadata", json!({"path": at("/d/dangling")}), NOT_FOUND),
        ("fs/getMetadata", json!({"path": at("/d/link"), "followSymlinks": false}), INVALID),
        ("fs/canonicalize", json!({"path": at("/d/dangling")}), NOT_FOUND),
        ("fs/readDirectory", json!({"path": at("/d/a")}), INTERNAL),
        ("fs/remove", json!({"path": at("/d"), "recursive": false}), INTERNAL),
        ("fs/remove", json!({"path": at("/no"), "force": false}), NOT_FOUND),
        (
            "fs/copy",
            json!({"sourcePath": at("/d"), "destinationPath": at("/e"), "recursive": false}),
            INVALID,
        ),
        (
            "fs/copy",
            json!({"sourcePath": at("/d"), "destinationPath": at("/d/folder/x"), "recursive": true}),
            INVALID,
        ),
        (
            "fs/copy",
            json!({"sourcePath": at("/no"), "destinationPath": at("/e"), "recursive": true}),
            NOT_FOUND,
        ),
        ("fs/open", json!({"handleId": "h", "path": at("/d")}), INVALID),
        ("fs/open", json!({"handleId": "h", "path": at("/d/a"), "mode": "x"}), PARAMS),
        ("fs/open", json!({"handleId": "h".repeat(33), "path": at("/d/a")}), INVALID),
        ("fs/readBlock", json!({"handleId": "h", "offset": 0, "len": 1}), NOT_FOUND),
        ("fs/readBlock", json!({"handleId": "h", "offset": 0, "len": 0}), INVALID),
        ("fs/readBlock", json!({"handleId": "h", "offset": 0, "len": 1_048_577}), INVALID),
        ("fs/writeBlock", json!({"handleId": "h", "offset": 0, "chunk": ""}), INVALID),
        ("fs/writeBlock", json!({"handleId": "h", "offset": i64::MAX, "chunk": "aGk="}), INVALID),
        ("fs/watchMissing", json!({"watchId": 1}), PARAMS),
        ("fs/unknown", json!({}), -32601),
    ] {
        assert_eq!(code(&mut peer, method, params.clone()).await, expected, "{method} {params}");
    }
    for quiet in [json!({"path": at("/no")}), json!({"path": at("/no/b")})] {
        assert_eq!(peer.call("fs/remove", quiet).await, Ok(json!({})));
    }
}

#[tokio::test(start_paused = true)]
async fn handles_read_and_write_blocks() {
    let (server, mut peer, _) = stage().await;
    let open = |id: &str, mode: &str| json!({"handleId": id, "path": at("/d/a"), "mode": mode});
    assert_eq!(peer.call("fs/open", open("r", "read")).await, Ok(json!({"handleId": "r"})));
    assert_eq!(code(&mut peer, "fs/open", open("r", "read")).await, INVALID);
    let block = |offset: u64, len: u64| json!({"handleId": "r", "offset": offset, "len": len});
    let read = peer.call("fs/readBlock", block(1, 3)).await.unwrap();
    assert_eq!(read, json!({"chunk": data("ell"), "eof": false}));
    let read = peer.call("fs/readBlock", block(3, 3)).await.unwrap();
    assert_eq!(read, json!({"chunk": data("lo"), "eof": true}));
    peer.call("fs/open", open("w", "replace")).await.unwrap();
    assert_eq!(read_file(&mut peer, "/d/a").await, "");
    for (offset, chunk) in [(0, "abc"), (5, "d"), (1, "B")] {
        let params = json!({"handleId": "w", "offset": offset, "chunk": data(chunk)});
        assert_eq!(peer.call("fs/writeBlock", params).await, Ok(json!({})));
    }
    assert_eq!(server.resources.counts().file_handles, 2);
    assert_eq!(peer.call("fs/close", json!({"handleId": "w"})).await, Ok(json!({})));
    assert_eq!(peer.call("fs/close", json!({"handleId": "w"})).await, Ok(json!({})));
    assert_eq!(read_file(&mut peer, "/d/a").await, "aBc\0\0d");
    // A failed write does not close a handle; a failed read does.
    let wrong = json!({"handleId": "r", "offset": 0, "chunk": data("x")});
    assert_eq!(code(&mut peer, "fs/writeBlock", wrong).await, INTERNAL);
    peer.call("fs/readBlock", block(0, 1)).await.unwrap();
    assert_eq!(code(&mut peer, "fs/readBlock", block(u64::MAX, 1)).await, INVALID);
    assert_eq!(code(&mut peer, "fs/readBlock", block(0, 1)).await, NOT_FOUND);
    assert_eq!(server.resources.counts().file_handles, 0);
    assert_eq!(code(&mut peer, "fs/close", json!({"handleId": "h".repeat(33)})).await, INVALID);
}

#[tokio::test(start_paused = true)]
async fn handles_are_bounded_and_end_with_their_connection() {
    let (mut server, mut peer, session) = stage().await;
    for number in 0..128 {
        let params = json!({"handleId": number.to_string(), "path": at("/d/a")});
        peer.call("fs/open", params).await.unwrap();
    }
    let params = json!({"handleId": "one more", "path": at("/d/a")});
    assert_eq!(code(&mut peer, "fs/open", params.clone()).await, INVALID);
    let (mut other, _) = server.client().await;
    other.call("fs/open", params).await.unwrap();
    assert_eq!(server.resources.counts().file_handles, 129);
    drop(peer);
    sleep(ms(10)).await;
    assert_eq!(server.resources.counts().file_handles, 1);
    let mut peer = server.resume(&session).await.unwrap();
    let params = json!({"handleId": "1", "offset": 0, "len": 1});
    assert_eq!(code(&mut peer, "fs/readBlock", params).await, NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_walk_lists_level_by_level_within_its_limits() {
    let (_server, mut peer, _) = stage().await;
    write_file(&mut peer, "/d/sub/z", "").await;
    peer.call("fs/createDirectory", json!({"path": at("/d/.hidden/x")})).await.unwrap();
    let options = |changes: Value| {
        let mut options = json!({"maxDepth": 9, "maxDirectories": 9, "maxEntries": 99, "followDirectorySymlinks": false});
        options.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        json!({"path": at("/d"), "options": options})
    };
    let mut walk = async |changes: Value| {
        let found = peer.call("fs/walk", options(changes)).await.map_err(|(code, _)| code)?;
        let names =
            |entry: &Value| entry["path"].as_str().unwrap()["file:///d/".len()..].to_owned();
        let names: Vec<String> = found["entries"].as_array().unwrap().iter().map(names).collect();
        Ok::<_, i64>((names.join(" "), found["truncated"] == true))
    };
    let of = |names: &str, truncated| Ok((names.to_owned(), truncated));
    assert_eq!(walk(json!({})).await, of(".hidden a sub .hidden/x sub/z", false));
    let pruned = json!({"pruneHiddenDirectories": true});
    assert_eq!(walk(pruned).await, of(".hidden a sub sub/z", false));
    let follows = json!({"followDirectorySymlinks": true});
    assert_eq!(walk(follows).await, of(".hidden a folder sub .hidden/x folder/z", false));
    assert_eq!(walk(json!({"maxDepth": 0})).await, of(".hidden a sub", false));
    assert_eq!(walk(json!({"maxEntries": 2})).await, of(".hidden a", true));
    assert_eq!(walk(json!({"maxDirectories": 2})).await, of(".hidden a sub .hidden/x", true));
    for bad in [json!({"maxEntries": 0}), json!({"maxDirectories": 0}), json!({"maxDepth": 65})] {
        assert_eq!(walk(bad).await, Err(INVALID));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_is_enforced_or_refused() {
    let (_server, mut peer, _) = stage().await;
    let sandbox = |entries: Value| {
        let mut sandbox = restricted(entries);
        (sandbox["cwd"], sandbox["workspaceRoots"]) = (json!(at("/d")), json!([at("/d")]));
        sandbox
    };
    let workspace = sandbox(json!([special("root", "read"), special("project_roots", "write")]));
    let write = |path: &str, sandbox: &Value| json!({"path": at(path), "dataBase64": "", "sandbox": sandbox});
    assert_eq!(peer.call("fs/writeFile", write("/d/b", &workspace)).await, Ok(json!({})));
    for path in ["/b", "/d/../b", "/d/.git"] {
        assert_eq!(
            code(&mut peer, "fs/writeFile", write(path, &workspace)).await,
            INTERNAL,
            "{path}"
        );
    }
    let nothing = sandbox(json!([]));
    let read = json!({"path": at("/d/a"), "sandbox": nothing});
    assert_eq!(code(&mut peer, "fs/readFile", read).await, INVALID);
    let glob =
        sandbox(json!([{"path": {"type": "glob_pattern", "pattern": "*"}, "access": "deny"}]));
    for bad in [glob, json!({}), json!(7)] {
        assert_eq!(code(&mut peer, "fs/writeFile", write("/d/b", &bad)).await, PARAMS);
    }
    let all = json!({"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"});
    assert_eq!(peer.call("fs/writeFile", write("/b", &all)).await, Ok(json!({})));
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_once_that_a_file_appeared() {
    let (_server, mut peer, _) = stage().await;
    let watch = |id: u64, missing: &[&str], present: Option<&str>| {
        let missing: Vec<String> = missing.iter().map(|path| at(path)).collect();
        json!({"watchId": id, "missing": missing, "present": present.map(at)})
    };
    for (params, watching) in [
        (watch(1, &["/d/new"], None), true),
        (watch(1, &["/d/other"], None), false),
        (watch(2, &["/d/a"], None), false),
        (watch(3, &[], None), false),
        (watch(4, &["/d/x"], Some("/no")), false),
        (watch(5, &["/d/x"], Some("/d/a")), true),
        (watch(6, &["/d/x"; 65], None), false),
    ] {
        let answer = peer.call("fs/watchMissing", params.clone()).await;
        assert_eq!(answer, Ok(json!({"watching": watching})), "{params}");
    }
    write_file(&mut peer, "/d/new", "").await;
    let changed = |id: u64| ("fs/missingChanged".to_owned(), json!({"watchId": id}));
    assert_eq!(peer.event().await, changed(1));
    peer.call("fs/remove", json!({"path": at("/d/a")})).await.unwrap();
    assert_eq!(peer.event().await, changed(5));
}

#[tokio::test(start_paused = true)]
async fn requests_for_one_path_are_done_in_order() {
    let (server, mut peer, _) = stage().await;
    for number in 0..100 {
        let content = data(&number.to_string());
        peer.request("fs/writeFile", json!({"path": at("/d/a"), "dataBase64": content}));
    }
    assert_eq!(read_file(&mut peer, "/d/a").await, "99");
    assert_eq!(server.resources.counts().file_requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_path_waits_for_earlier_blocks_of_a_handle() {
    let (_server, mut peer, _) = stage().await;
    let open = json!({"handleId": "h", "path": at("/d/a"), "mode": "replace"});
    let write = |offset: u64| json!({"handleId": "h", "offset": offset, "chunk": data("word")});
    peer.request("fs/open", open);
    for number in 0..9 {
        peer.request("fs/writeBlock", write(4 * number));
    }
    assert_eq!(read_file(&mut peer, "/d/a").await, "word".repeat(9));
    peer.request("fs/writeBlock", write(4 * 9));
    assert_eq!(read_file(&mut peer, "/d/a").await, "word".repeat(10));
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_may_not_be_removed_keeps_its_content() {
    let (_server, mut peer, _) = stage().await;
    let sandbox = restricted(json!([path(&at("/"), "read"), path(&at("/d"), "write")]));
    let remove = json!({"path": at("/d"), "sandbox": sandbox});
    assert_eq!(code(&mut peer, "fs/remove", remove).await, INTERNAL);
    assert_eq!(read_file(&mut peer, "/d/a").await, "hello");
}

#[tokio::test(start_paused = true)]
async fn too_many_waiting_requests_are_refused() {
    let mut server = TestServer::with(ServerLimits {
        waiting_requests: 4,
        file_bytes: 3,
        ..ServerLimits::default()
    });
    let (mut peer, _) = server.client().await;
    let ids: Vec<i64> = (0..40)
        .map(|_| peer.request("fs/writeFile", json!({"path": at("/a"), "dataBase64": "aGVsbG8="})))
        .collect();
    let mut refused = 0;
    for id in ids {
        match peer.answer(id).await {
            Ok(done) => assert_eq!(done, json!({})),
            Err((code, _)) => {
                assert_eq!(code, INTERNAL);
                refused += 1;
            }
        }
    }
    assert!((1..40).contains(&refused), "{refused}");
    assert_eq!(code(&mut peer, "fs/readFile", json!({"path": at("/a")})).await, INVALID);
}
