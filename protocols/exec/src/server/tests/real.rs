//! Tests with real sockets and real processes, for behaviour that in-memory connections cannot
//! show.

use super::*;
use crate::wire::sandbox::samples::{restricted, special};

/// Starts a server on loopback; returns its endpoint.
pub(super) async fn serve() -> (Env, Endpoint, ServerResources, JoinHandle<()>) {
    let env = Env::real();
    let listener = env.net.listen(&Endpoint::tcp("127.0.0.1", 0)).await.unwrap();
    let at = listener.endpoint();
    let server = Server::new(&env, ServerLimits::default());
    let resources = server.resources();
    (env, at, resources, tokio::spawn(server.serve(listener)))
}

pub(super) async fn connect(env: &Env, at: &Endpoint, session: Option<&str>) -> (Peer, String) {
    let stream = env.net.connect(at).await.unwrap();
    let link = Link::connect(stream, "server", WireLimits::default()).await.unwrap();
    let mut peer = Peer { link, asked: 0, answers: BTreeMap::new(), reported: VecDeque::new() };
    let session = loop {
        let asked = json!({"clientName": "test", "resumeSessionId": session});
        match peer.call("initialize", asked).await {
            Ok(answer) => break answer["sessionId"].as_str().unwrap().to_owned(),
            Err((-32010, _)) => tokio::task::yield_now().await, // old connection still attached
            Err(error) => panic!("{error:?}"),
        }
    };
    peer.complete_handshake().await;
    (peer, session)
}

fn shell(process: &str, script: &str) -> Value {
    json!({"processId": process, "argv": ["sh", "-c", script], "cwd": "/", "env": {"PATH": "/bin:/usr/bin"}, "pipeStdin": true})
}

/// Reads until the process is closed.
async fn all(peer: &mut Peer, process: &str) -> Value {
    loop {
        let next =
            peer.call("process/read", json!({"processId": process, "afterSeq": 0})).await.unwrap();
        if next["closed"] == true {
            return next;
        }
        let after = next["nextSeq"].as_u64().unwrap() - 1;
        peer.call(
            "process/read",
            json!({"processId": process, "afterSeq": after, "waitMs": 10_000}),
        )
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_shell_outlives_its_connection() {
    let (env, at, resources, _serving) = serve().await;
    let (mut peer, session) = connect(&env, &at, None).await;
    peer.call(
        "process/start",
        shell("p1", "echo before; read line; echo \"$line\" >&2; (sleep 0.1; echo late) & exit 7"),
    )
    .await
    .unwrap();
    assert_eq!(peer.line().await, "output p1:1 before");
    drop(peer);
    let (mut peer, again) = connect(&env, &at, Some(&session)).await;
    assert_eq!(again, session);
    peer.call("process/write", write("p1", "1", "during\n")).await.unwrap();
    let read = all(&mut peer, "p1").await;
    assert!(
        printed(&read).contains("during\n") && printed(&read).contains("late\n"),
        "{}",
        printed(&read)
    );
    assert_eq!(read["exitCode"], 7);
    assert_eq!(resources.counts().open_processes, 0);
}

#[tokio::test]
async fn terminate_kills_all_children_of_a_shell() {
    let (env, at, _, _serving) = serve().await;
    let (mut peer, _) = connect(&env, &at, None).await;
    peer.call("process/start", shell("p1", "sleep 1000 & echo started; wait")).await.unwrap();
    assert_eq!(peer.line().await, "output p1:1 started");
    assert_eq!(
        peer.call("process/terminate", json!({"processId": "p1"})).await.unwrap(),
        json!({"running": true})
    );
    let read = all(&mut peer, "p1").await;
    assert_eq!(
        (&read["exitCode"], &read["closed"]),
        (&json!(137), &json!(true)),
        "nobody holds its pipes any more"
    );
}

#[tokio::test]
async fn a_process_in_the_background_outlives_its_command() {
    let (env, at, _, serving) = serve().await;
    let (mut peer, _) = connect(&env, &at, None).await;
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!; exit 3";
    peer.call("process/start", shell("p1", script)).await.unwrap();
    let read = all(&mut peer, "p1").await;
    let stat = format!("/proc/{}/stat", printed(&read).trim());
    let is_alive = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    sleep(ms(50)).await;
    assert!(is_alive());
    serving.abort();
    let ended = async {
        while is_alive() {
            sleep(ms(5)).await;
        }
    };
    timeout(Duration::from_secs(10), ended).await.expect("it ends with the server");
}

/// Starts a script in a sandbox that can read everything, and write to this directory.
fn sandboxed(script: &str, directory: &std::path::Path) -> Value {
    let rules = json!([special("root", "read"), special("project_roots", "write")]);
    let mut asked = shell("p1", script);
    asked["sandbox"] = restricted(rules);
    asked["sandbox"]["workspaceRoots"] = json!([format!("file://{}", directory.display())]);
    asked["cwd"] = json!(directory);
    asked
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_sandbox_is_enforced_and_its_denial_is_reported() {
    let (env, at, _, _serving) = serve().await;
    let (mut peer, _) = connect(&env, &at, None).await;
    let outside = std::env::temp_dir().join(format!("reknit-sandbox-{}", std::process::id()));
    let inside = outside.join("inside");
    std::fs::create_dir_all(&inside).unwrap();
    let script = "touch in && echo wrote; mkdir .git || echo protected; touch ../out";
    match peer.call("process/start", sandboxed(script, &inside)).await {
        Ok(started) => assert_eq!(started["sandboxType"], "linuxSeccomp"),
        Err((_, why)) => return eprintln!("SKIPPED: this machine cannot confine a process: {why}"),
    }
    let read = all(&mut peer, "p1").await;
    assert!(printed(&read).starts_with("wrote\n"), "{}", printed(&read));
    assert!(printed(&read).contains("protected"), "{}", printed(&read));
    assert_eq!((&read["exitCode"], &read["sandboxDenied"]), (&json!(1), &json!(true)));
    assert!(inside.join("in").exists() && !outside.join("out").exists());
    assert!(!inside.join(".git").exists(), "nothing is left behind");
    std::fs::remove_dir_all(&outside).unwrap();
}
