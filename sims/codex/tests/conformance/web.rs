//! An HTTP server for `http/request`: small, and with a few bad habits.
//!
//! `/hello` answers with a text, `/echo` with the request itself, `/status/N` with a status, `/to/N/PATH`
//! with a redirect to `/PATH`, `/away/N` with a redirect to another host name, `/loop` with a redirect to
//! itself, `/nowhere/N` with a redirect without a target, `/length` with the length of the body that
//! was sent, `/length/N` with a body of N bytes, `/never` not at all, `/half` with half of a body,
//! `/stalls` with half of a body and no end, `/pieces` with a body in chunks, `/gzip` with a
//! compressed one, `/cut` with a closed connection, `/garbage` with something that is not HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Longer than any case.
const FOREVER: Duration = Duration::from_secs(60);

/// The server. It ends when it is dropped.
pub struct Web {
    pub address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Web {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(async move { serve(stream).await });
            }
        });
        Self { address, _serving: serving }
    }
}

/// Answers one request, and closes the connection.
async fn serve(stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let path = head.first()?.split(' ').nth(1)?.to_owned();
    let port = stream.get_ref().local_addr().ok()?.port();
    let answer = answer(&path, &head, &body, port).await?;
    stream.write_all(&answer).await.ok()?;
    if path == "/stalls" {
        sleep(FOREVER).await;
    }
    stream.shutdown().await.ok()
}

async fn answer(path: &str, head: &[String], body: &[u8], port: u16) -> Option<Vec<u8>> {
    let parts: Vec<_> = path.trim_start_matches('/').splitn(3, '/').collect();
    let redirect = |code: &str, to: &str| message(code, &format!("location: {to}\r\n"), "moved");
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf ";
    let answer = match parts[..] {
        ["hello"] => message("200", "x-one: 1\r\nx-two: a\r\nx-two: b\r\n", "hello"),
        ["echo"] => {
            // The HTTP clients add these two themselves.
            let mut lines: Vec<_> =
                head[1..].iter().map(|line| line.to_ascii_lowercase()).collect();
            lines.retain(|line| !line.starts_with("host:") && !line.starts_with("connection:"));
            lines.sort();
            let body = String::from_utf8_lossy(body);
            message("200", "", &format!("{}\n{}\n\n{body}", head[0], lines.join("\n")))
        }
        ["status", code] => message(code, "", if code == "204" { "" } else { "status" }),
        ["to", code, path] => redirect(code, &format!("/{path}")),
        ["away", code] => redirect(code, &format!("http://localhost:{port}/echo")),
        ["nowhere", code] => message(code, "", "moved"),
        ["loop"] => redirect("302", "/loop"),
        ["length"] => message("200", "", &body.len().to_string()),
        ["length", length] => message("200", "", &"x".repeat(length.parse().ok()?)),
        ["half" | "stalls"] => half.into(),
        ["pieces"] => {
            let chunks = "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")
        }
        ["gzip"] => return Some(compressed()),
        ["never"] => {
            sleep(FOREVER).await;
            return None;
        }
        ["cut"] => return None,
        ["garbage"] => "what is this?\r\n\r\n".into(),
        _ => message("404", "", "not here"),
    };
    Some(answer.into_bytes())
}

/// The text `hello`, compressed.
fn compressed() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 25\r\n\r\n";
    let gzip: &[u8] =
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
    [head.as_bytes(), gzip].concat()
}

fn message(code: &str, headers: &str, body: &str) -> String {
    // An HTTP client would use the connection for its next request, which races its end.
    let length = body.len();
    format!(
        "HTTP/1.1 {code} Reason\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
