//! The examples as processes: curl against the server (without curl, these tests say so and check
//! nothing), and the client.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use reknit_sse::wire::{Decoder, Event, Record, RunCommand, SessionCreated};

/// A running server. Dropping it ends it and its commands.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(example("sse_server"))
            .args(arguments)
            .env("EXECD_ACCESS_TOKEN", "secret")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://"), "{url}");
        Self { child, url: url.trim_end().to_owned() }
    }

    /// Runs curl with a path of the server.
    fn curl(&self, path: &str, arguments: &[&str]) -> Output {
        curl(&format!("{}{path}", self.url), arguments).output().unwrap()
    }

    /// Starts a command with this id in the background.
    fn client_starts(&self, id: &str) {
        let request = RunCommand {
            operation_id: Some(id.to_owned()),
            background: true,
            ..RunCommand::shell("seq 3; exit 4")
        };
        let at = self.url.strip_prefix("http://").unwrap();
        let body = serde_json::to_string(&request).unwrap();
        let length = body.len();
        let mut stream = std::net::TcpStream::connect(at).unwrap();
        write!(
            stream,
            "POST /command HTTP/1.1\r\nhost: h\r\nconnection: close\r\nx-execd-access-token: secret\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }

    /// Starts a command in the foreground, and returns its events.
    fn run(&self, body: &str) -> Vec<Record> {
        let output = self.curl("/command", &["-d", body]);
        assert!(output.status.success(), "{output:?}");
        records(&output.stdout)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

/// Returns the program of an example. `cargo test` builds it, unless it builds this test only.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    if !program.exists() {
        let build = ["build", "--quiet", "--package", "reknit-sse", "--example", name];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    program
}

fn curl(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sSN", "--max-time", "60", "-H", "X-EXECD-ACCESS-TOKEN: secret"]);
    command.args(arguments).arg(url);
    command
}

fn has_curl() -> bool {
    let found = Command::new("curl").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: curl is not installed");
    }
    found
}

fn records(bytes: &[u8]) -> Vec<Record> {
    let mut decoder = Decoder::new(1 << 20);
    decoder.feed(bytes).unwrap();
    std::iter::from_fn(|| decoder.next()).map(|decoded| decoded.record).collect()
}

/// Returns the output of both pipes, and how the command ended.
fn outcome(records: &[Record]) -> (String, String) {
    let (mut output, mut ending) = (Vec::new(), String::new());
    for (record, position) in records.iter().filter(|one| one.position.is_some()).zip(1..) {
        assert_eq!(record.position, Some(position));
        match &record.event {
            Event::Output(_, bytes) => output.extend_from_slice(bytes),
            Event::Ended { ending: how, .. } => ending = format!("{how:?}"),
            other => panic!("{other:?}"),
        }
    }
    (String::from_utf8_lossy(&output).into_owned(), ending)
}

#[test]
fn curl_runs_commands_and_sees_their_endings() {
    if !has_curl() {
        return;
    }
    let server = Server::start(&["--hold", "10s"]);
    for (body, output, ending) in [
        (r#"{"command":"printf 'a\\n\\nb'; echo c >&2; exit 3"}"#, None, "Exited(3)"),
        (r#"{"command":"printf 'a\\r\\n\\r\\rb'"}"#, Some("a\r\n\r\rb"), "Exited(0)"),
        (r#"{"argv":["echo","x y"]}"#, Some("x y\n"), "Exited(0)"),
        (r#"{"command":"echo $A","envs":{"A":"b"}}"#, Some("b\n"), "Exited(0)"),
        (r#"{"command":"pwd","cwd":"/"}"#, Some("/\n"), "Exited(0)"),
        (r#"{"command":"kill -9 $$"}"#, Some(""), "Killed(9)"),
        (r#"{"command":"sleep 60","timeout":200}"#, Some(""), "TimedOut"),
        (r#"{"command":"sleep 60 & echo a"}"#, Some("a\n"), "Exited(0)"),
    ] {
        let seen = outcome(&server.run(body));
        assert_eq!(seen.1, ending, "{body}");
        if let Some(output) = output {
            assert_eq!(seen.0, output, "{body}");
        }
    }
    let (_, ending) = outcome(&server.run(r#"{"argv":["/no/such/program"]}"#));
    assert!(ending.starts_with("NotStarted("), "{ending}");
    let mut wrong = Command::new("curl");
    wrong.args(["-sS", "-d", "{}", "-w", "%{http_code}"]);
    wrong.args(["-H", "X-EXECD-ACCESS-TOKEN: wrong"]).arg(format!("{}/command", server.url));
    let refused = String::from_utf8(wrong.output().unwrap().stdout).unwrap();
    assert!(refused.ends_with("401"), "{refused}");
}

#[test]
fn a_large_output_arrives_whole_while_its_command_is_held() {
    if !has_curl() {
        return;
    }
    let server = Server::start(&["--hold", "30s"]);
    let (output, ending) = outcome(&server.run(r#"{"command":"seq 1 400000"}"#));
    let wanted: String = (1..=400_000).map(|line| format!("{line}\n")).collect();
    assert_eq!((output.len(), ending.as_str()), (wanted.len(), "Exited(0)"));
    assert!(output == wanted);
}

#[test]
fn killed_clients_resume_without_a_gap() {
    if !has_curl() {
        return;
    }
    let server = Server::start(&[]);
    let script = "for i in $(seq 300); do echo $i; echo $i >&2; sleep 0.01; done";
    let body = format!(r#"{{"operation_id":"c1","command":"{script}"}}"#);
    let url = |after: u64| format!("{}/command/c1/resume?after_eid={after}", server.url);
    let (mut after, mut seen, mut cuts) = (0, Vec::new(), 0);
    let mut request = curl(&format!("{}/command", server.url), &["-d", &body]);
    'streams: loop {
        let mut client = request.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = client.stdout.take().unwrap();
        let (mut decoder, mut buffer) = (Decoder::new(1 << 20), [0; 700]);
        let mut of_this_stream = 0;
        loop {
            let count = stdout.read(&mut buffer).unwrap();
            if count == 0 {
                break; // the old stream was still attached: the client was refused
            }
            decoder.feed(&buffer[..count]).unwrap();
            while let Some(decoded) = decoder.next() {
                let Some(position) = decoded.record.position else { continue };
                assert_eq!(position, after + 1);
                after = position;
                of_this_stream += 1;
                let is_end = matches!(decoded.record.event, Event::Ended { .. });
                seen.push(decoded.record);
                if is_end {
                    client.wait().unwrap();
                    break 'streams;
                }
            }
            if of_this_stream > 50 {
                cuts += 1;
                break;
            }
        }
        let _ = client.kill();
        client.wait().unwrap();
        request = curl(&url(after), &[]);
    }
    assert!(cuts >= 5, "{cuts}");
    assert_eq!((seen.len(), outcome(&seen).1.as_str()), (601, "Exited(0)"));
    for pipe in [reknit_sse::wire::OutputStream::Stdout, reknit_sse::wire::OutputStream::Stderr] {
        let lines = seen.iter().filter_map(|record| match &record.event {
            Event::Output(stream, bytes) if *stream == pipe => Some(bytes.clone()),
            _ => None,
        });
        assert!(lines.eq((1..=300).map(|line| format!("{line}\n"))), "{pipe:?}");
    }
}

#[test]
fn a_background_command_is_polled_and_interrupted() {
    if !has_curl() {
        return;
    }
    let server = Server::start(&[]);
    // The loop waits without a child, which the signal would also end.
    let body = r#"{"operation_id":"c1","background":true,"argv":["bash","-c","trap 'echo bye; exit 4' TERM; echo a; while :; do read -t 0.05 <> <(:); done"]}"#;
    assert_eq!(server.run(body).last().unwrap().event, Event::Detached);
    let text = |path: &str, arguments: &[&str]| {
        String::from_utf8(server.curl(path, arguments).stdout).unwrap()
    };
    while text("/command/c1/logs", &[]) != "a\n" {}
    assert_eq!(text("/command?id=c1", &["-X", "DELETE"]), "");
    while text("/command/status/c1", &[]).contains(r#""running":true"#) {}
    assert_eq!(text("/command/c1/logs?cursor=1", &[]), "bye\n");
    let head = text("/command/c1/logs", &["-D", "-", "-o", "/dev/null"]);
    assert!(head.contains("execd-commands-tail-cursor: 3\r\n"), "{head}");
    assert!(text("/command/status/c1", &[]).contains(r#""exit_code":4"#));
    let seen = outcome(&records(&server.curl("/command/c1/resume", &[]).stdout));
    assert_eq!(seen, ("a\nbye\n".to_owned(), "Exited(4)".to_owned()));
}

#[test]
fn a_shell_session_keeps_its_directory_and_variables() {
    if !has_curl() {
        return;
    }
    let server = Server::start(&[]);
    let folder = std::env::temp_dir().join(format!("reknit-sse-test-{}", std::process::id()));
    let body = format!(r#"{{"cwd":"{}/it's new"}}"#, folder.display());
    let created = server.curl("/session", &["-d", &body]);
    let created: SessionCreated = serde_json::from_slice(&created.stdout).unwrap();
    let id = created.session_id;
    let run = |command: &str| {
        let body = serde_json::json!({ "command": command }).to_string();
        outcome(&records(&server.curl(&format!("/session/{id}/run"), &["-d", &body]).stdout))
    };
    let ok = |output: &str| (output.to_owned(), "Exited(0)".to_owned());
    assert_eq!(
        run("export A=\"b 'c'\"; B=lost; pwd"),
        ok(&format!("{}/it's new\n", folder.display()))
    );
    assert_eq!(run("mkdir sub; cd sub; exit 3"), (String::new(), "Exited(3)".to_owned()));
    assert_eq!(run("echo \"$A $B\"; basename \"$PWD\""), ok("b 'c' \nsub\n"));
    assert_eq!(run("cd /; false"), (String::new(), "Exited(1)".to_owned()));
    assert_eq!(run("pwd"), ok("/\n"));
    let state = std::env::temp_dir().join(format!("reknit-sse-{id}"));
    assert!(state.exists());
    assert!(server.curl(&format!("/session/{id}"), &["-X", "DELETE"]).stdout.is_empty());
    assert!(!state.exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_state_of_a_deleted_session_does_not_come_back() {
    if !has_curl() {
        return;
    }
    let server = Server::start(&[]);
    let created = server.curl("/session", &["-d", ""]);
    let created: SessionCreated = serde_json::from_slice(&created.stdout).unwrap();
    let id = created.session_id;
    let state = std::env::temp_dir().join(format!("reknit-sse-{id}"));
    let runs = |command: &str| {
        let body = serde_json::json!({ "command": command }).to_string();
        curl(&format!("{}/session/{id}/run", server.url), &["-d", &body])
    };
    assert!(runs("A=1").output().unwrap().status.success());
    assert!(state.exists());
    let mut long = runs("rm \"$__state\"; sleep 60").stdout(Stdio::piped()).spawn().unwrap();
    let runs = || server.curl("/ping", &[]).status.success() && !state.exists();
    assert!((0..1_000).any(|_| runs()));
    assert!(server.curl(&format!("/session/{id}"), &["-X", "DELETE"]).stdout.is_empty());
    // The signal ends the command, and it saves its state.
    let mut stream = Vec::new();
    long.stdout.take().unwrap().read_to_end(&mut stream).unwrap();
    long.wait().unwrap();
    assert!(!outcome(&records(&stream)).1.is_empty(), "it has an ending");
    let is_gone = || server.curl("/ping", &[]).status.success() && !state.exists();
    assert!((0..100).any(|_| is_gone()));
}

/// Runs the client with these arguments after the URL. Returns its output, errors and exit status.
fn client(url: &str, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(example("sse_client"));
    let done = command.arg(url).args(arguments).env("EXECD_ACCESS_TOKEN", "secret").output();
    let done = done.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(done.stdout), text(done.stderr), done.status.code())
}

#[test]
fn the_client_prints_a_command_and_ends_with_its_status() {
    let server = Server::start(&[]);
    let run = client(&server.url, &["run", "printf 'a\nb'; echo c >&2; exit 7"]);
    assert_eq!(run, ("a\nb".to_owned(), "c\n".to_owned(), Some(7)));
    let run = client(&server.url, &["run", "kill -9 $$"]);
    assert_eq!(run, (String::new(), String::new(), Some(137)));
}

#[test]
fn the_client_follows_a_command_by_its_id() {
    let server = Server::start(&[]);
    server.client_starts("c1");
    let unknown = client(&server.url, &["follow", "c2"]);
    let why = "sse_client: the server does not have the command any more\n";
    assert_eq!(unknown, (String::new(), why.to_owned(), Some(1)));
    let seen = client(&server.url, &["follow", "c1"]);
    assert_eq!(seen, ("1\n2\n3\n".to_owned(), String::new(), Some(4)));
}

#[test]
fn wrong_arguments_are_one_line_and_the_status_2() {
    for arguments in [&["run"][..], &["walk", "x"], &["follow", "a b"], &["run", ""], &[]] {
        let (output, errors, status) = client("http://127.0.0.1:1", arguments);
        assert_eq!((output.as_str(), errors.lines().count(), status), ("", 1, Some(2)));
        assert!(errors.starts_with("usage: sse_client http://HOST:PORT"), "{errors}");
    }
    assert_eq!(client("127.0.0.1:1", &["run", "true"]).2, Some(2));
}
