//! The memory of a server while hostile clients send without an end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::NOW;
use super::stage::World;

/// How many bytes the server takes at most of one request, with the buffers of the system.
const TAKEN: usize = 8 << 20;

#[tokio::test]
async fn requests_without_an_end_are_refused_early() {
    let world = World::new().await;
    let start = world.request("POST /command", "", "");
    let length = |length: usize| start.replace("length: 0", &format!("length: {length}"));
    let chunked = start.replace("content-length: 0", "transfer-encoding: chunked");
    let spaces = vec![b' '; 1 << 16];
    let chunk = [b"10000\r\n", &spaces[..], b"\r\n"].concat();
    world
        .beside(async |_| {
            for (head, more, statuses) in [
                ("GET /ping HTTP/1.1\r\nx: ", &spaces[..], &[400, 431][..]),
                ("GET /", &[b'a'; 1 << 16], &[414, 431]),
                (&"x: y\r\n".repeat(200), b"x: y\r\n", &[400, 431]),
                (&length(2 << 20), &spaces, &[413]),
                (&length(usize::MAX >> 2), &spaces, &[413]),
                (&chunked, &chunk, &[413]),
                (&format!("{chunked}1;"), &[b'x'; 1 << 16], &[400]),
            ] {
                let end = world.send(head.as_bytes(), more, NOW).await;
                // An answer can be lost if the connection is reset while bytes are on their way.
                let is_right = end.status() == 0 || statuses.contains(&end.status());
                assert!(is_right, "{head:.40}: {end:?}");
                assert!(end.taken < TAKEN, "{head:.40}: {}", end.taken);
            }
        })
        .await;
}

/// The example as a process. Dropping it ends it.
struct Program(Child);

impl Program {
    /// Returns the process, and its address.
    fn start() -> (Self, String) {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("examples").join("sse_server");
        if !program.exists() {
            let build = ["build", "--quiet", "--package", "reknit-sse", "--example", "sse_server"];
            assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
        }
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        (Self(child), url.trim_end().strip_prefix("http://").unwrap().to_owned())
    }

    /// Returns the most memory that it has used so far, in MiB.
    fn peak(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() >> 10
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each connection may hold a request of 1 MiB. Twenty connections send, again and again, ten times as much.
#[test]
fn the_memory_of_a_server_stays_within_its_limits() {
    let (program, at) = Program::start();
    let before = program.peak();
    for round in 0..5 {
        let mut open = Vec::new();
        for n in 0..20 {
            let mut stream = TcpStream::connect(&at).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let head = match n % 4 {
                0 => "GET /ping HTTP/1.1\r\nx: ",
                1 => "POST /command HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n",
                2 => "POST /command HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffff\r\n",
                _ => "POST /session HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n",
            };
            // The server closes the connection early.
            let _ = stream.write_all(head.as_bytes());
            let most = if n % 4 == 3 { 15 } else { 160 }; // in the last case, the body never ends
            for _ in 0..most {
                if stream.write_all(&[b' '; 1 << 16]).is_err() {
                    break;
                }
            }
            open.push(stream);
        }
        if round == 4 {
            let mut last = TcpStream::connect(&at).unwrap();
            last.write_all(b"GET /ping HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            last.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        }
    }
    let grown = program.peak() - before;
    assert!(grown < 64, "{grown} MiB");
}
