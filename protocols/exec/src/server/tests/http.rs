//! Tests of the HTTP requests that the server sends for a client.

use super::*;

fn get(id: &str, url: &str, streams: bool) -> Value {
    json!({"method": "GET", "url": url, "headers": [{"name": "X-A", "value": "b"}], "requestId": id, "streamResponse": streams})
}

/// Sends a request, and waits until the server has handled it.
async fn ask(peer: &mut Peer, params: Value) -> i64 {
    let id = peer.request("http/request", params);
    peer.wait_until_handled().await;
    id
}

/// Reads the head of a request.
async fn head(stream: &mut DuplexStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

/// Returns the next piece of a body: its number, its bytes, and whether it is the last.
async fn piece(peer: &mut Peer) -> (u64, String, bool) {
    let (method, sent) = peer.event().await;
    assert_eq!((method.as_str(), &sent["requestId"]), ("http/request/bodyDelta", &json!("http-1")));
    assert_eq!(sent.get("error"), Some(&json!(null)));
    (sent["seq"].as_u64().unwrap(), text(&sent["deltaBase64"]), sent["done"].as_bool().unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_streamed_arrives_complete() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let id = ask(
        &mut peer,
        json!({"method": "POST", "url": "http://a:81/b?c", "bodyBase64": "aGk=", "requestId": "http-1", "streamResponse": false}),
    )
    .await;
    let (to, mut site) = server.network.accept().await;
    assert_eq!((to.to_string().as_str(), to.label()), ("a:81", Some("http")));
    assert_eq!(
        head(&mut site).await,
        "POST /b?c HTTP/1.1\r\naccept: */*\r\nhost: a:81\r\ncontent-length: 2\r\n\r\n"
    );
    site.write_all(b"HTTP/1.1 404 Not Found\r\nX-B: c\r\nContent-Length: 4\r\n\r\nnone")
        .await
        .unwrap();
    let answer = peer.answer(id).await.unwrap();
    let headers = json!([{"name": "x-b", "value": "c"}, {"name": "content-length", "value": "4"}]);
    assert_eq!(answer, json!({"status": 404, "headers": headers, "bodyBase64": "bm9uZQ=="}));
    sleep(ms(1)).await;
    assert_eq!(server.resources.counts().http_requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_body_arrives_in_pieces_after_the_answer() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let id = ask(&mut peer, get("http-1", "http://a/", true)).await;
    let (_, mut site) = server.network.accept().await;
    assert_eq!(head(&mut site).await, "GET / HTTP/1.1\r\nx-a: b\r\naccept: */*\r\nhost: a\r\n\r\n");
    site.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none").await.unwrap();
    assert!(peer.receive().await);
    assert!(peer.reported.is_empty(), "the answer comes first");
    assert_eq!(peer.answer(id).await.unwrap()["bodyBase64"], "");
    assert_eq!(piece(&mut peer).await, (1, "one".to_owned(), false));
    site.write_all(b"two").await.unwrap();
    assert_eq!(piece(&mut peer).await, (2, "two".to_owned(), true), "the last piece carries bytes");
}

#[tokio::test(start_paused = true)]
async fn a_body_of_unknown_length_ends_with_an_empty_piece() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    ask(&mut peer, get("http-1", "http://a/", true)).await;
    let (_, mut site) = server.network.accept().await;
    head(&mut site).await;
    site.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        .await
        .unwrap();
    assert_eq!(piece(&mut peer).await, (1, "one".to_owned(), false));
    site.write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(piece(&mut peer).await, (2, String::new(), true));
}

#[tokio::test(start_paused = true)]
async fn the_last_piece_of_a_cut_body_has_an_error() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    ask(&mut peer, get("http-1", "http://a/", true)).await;
    let (_, mut site) = server.network.accept().await;
    head(&mut site).await;
    site.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none").await.unwrap();
    assert_eq!(piece(&mut peer).await, (1, "one".to_owned(), false));
    drop(site);
    let (_, last) = peer.event().await;
    assert_eq!((&last["seq"], &last["done"]), (&json!(2), &json!(true)));
    assert!(last["error"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_reports_why_and_frees_its_id() {
    let mut server =
        TestServer::with(ServerLimits { http_body_bytes: 3, ..ServerLimits::default() });
    let (mut peer, _) = server.client().await;
    assert_eq!(
        peer.call("http/request", get("http-1", "https://a/", true)).await.unwrap_err().0,
        -32602
    );
    assert_eq!(
        peer.call("http/request", get("http-1", "http://nobody/", true)).await.unwrap_err().0,
        -32603
    );
    let mut late = get("http-1", "http://a/", true);
    late["timeoutMs"] = json!(500);
    let began = Instant::now();
    assert_eq!(
        peer.call("http/request", late).await,
        Err((-32603, "the request failed: it took too long".into()))
    );
    assert_eq!(began.elapsed(), ms(500));
    server.network.accept().await;
    let long = ask(&mut peer, get("http-1", "http://a/", false)).await;
    let (_, mut site) = server.network.accept().await;
    head(&mut site).await;
    site.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour").await.unwrap();
    assert_eq!(
        peer.answer(long).await.unwrap_err().1,
        "the request failed: the body has more than 3 bytes"
    );
}

#[tokio::test(start_paused = true)]
async fn an_id_is_taken_until_its_body_has_ended() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    ask(&mut peer, get("http-1", "http://a/", true)).await;
    let (_, mut site) = server.network.accept().await;
    assert_eq!(
        peer.call("http/request", get("http-1", "http://a/", true)).await.unwrap_err().0,
        -32602
    );
    head(&mut site).await;
    site.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none").await.unwrap();
    assert_eq!(piece(&mut peer).await, (1, "one".to_owned(), true));
    let again = ask(&mut peer, get("http-1", "http://a/", true)).await;
    let (_, mut site) = server.network.accept().await;
    head(&mut site).await;
    site.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert_eq!(peer.answer(again).await.unwrap()["status"], 204);
    assert_eq!(piece(&mut peer).await, (1, String::new(), true));
}

#[tokio::test(start_paused = true)]
async fn requests_end_only_with_their_own_connection() {
    let mut server = TestServer::new();
    let ((mut one, _), (mut two, _)) = (server.client().await, server.client().await);
    ask(&mut one, get("http-1", "http://a/", true)).await;
    let (_, mut of_one) = server.network.accept().await;
    let answer = ask(&mut two, get("http-1", "http://a/", true)).await;
    let (_, mut of_two) = server.network.accept().await;
    head(&mut of_one).await;
    of_one.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\none").await.unwrap();
    assert_eq!(piece(&mut one).await.1, "one");
    drop(one);
    sleep(ms(1)).await;
    assert_eq!(of_one.read(&mut [0; 9]).await.unwrap(), 0, "its connection is closed");
    assert_eq!(server.resources.counts().http_requests, 1);
    head(&mut of_two).await;
    of_two.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    assert_eq!(two.answer(answer).await.unwrap()["status"], 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_not_read_while_the_client_does_not_read() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    ask(&mut peer, get("http-1", "http://a/", true)).await;
    let (_, mut site) = server.network.accept().await;
    head(&mut site).await;
    site.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n").await.unwrap();
    let all = tokio::spawn(async move { site.write_all(&vec![b'x'; 4_000_000]).await });
    sleep(ms(1000)).await; // the client reads nothing
    assert!(!all.is_finished());
    let (mut total, mut done) = (0, false);
    while !done {
        let (_, bytes, last) = piece(&mut peer).await;
        (total, done) = (total + bytes.len(), last);
    }
    assert_eq!(total, 4_000_000);
}

/// Answers the next request with a redirect; returns its target and its first line.
async fn redirect(server: &TestServer, status: u16, to: &str) -> String {
    let (from, mut site) = server.network.accept().await;
    let first = head(&mut site).await.lines().next().unwrap().to_owned();
    let answer = format!(
        "HTTP/1.1 {status} -\r\nLocation: {to}\r\nContent-Length: 999\r\n\r\npart of a body"
    );
    site.write_all(answer.as_bytes()).await.unwrap();
    site.read_to_end(&mut Vec::new()).await.unwrap(); // the server closes it, with the body unread
    format!("{from} {first}")
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_to_the_last_answer() {
    for streams in [false, true] {
        let mut server = TestServer::new();
        let (mut peer, _) = server.client().await;
        let mut post = get("http-1", "http://a/form", streams);
        (post["method"], post["bodyBase64"]) = (json!("POST"), json!("aGk="));
        let id = ask(&mut peer, post).await;
        assert_eq!(redirect(&server, 307, "http://b:81/form").await, "a:80 POST /form HTTP/1.1");
        assert_eq!(redirect(&server, 303, "/done").await, "b:81 POST /form HTTP/1.1");
        let (to, mut site) = server.network.accept().await;
        assert_eq!(to.to_string(), "b:81");
        assert_eq!(
            head(&mut site).await,
            "GET /done HTTP/1.1\r\nx-a: b\r\nreferer: http://b:81/form\r\naccept: */*\r\nhost: b:81\r\n\r\n"
        );
        site.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        let answer = peer.answer(id).await.unwrap();
        let headers = json!([{"name": "content-length", "value": "2"}]);
        let body = if streams { "" } else { "b2s=" };
        assert_eq!(answer, json!({"status": 200, "headers": headers, "bodyBase64": body}));
        if streams {
            assert_eq!(piece(&mut peer).await, (1, "ok".to_owned(), true));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_the_answer_if_the_client_wants_to_stop() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let mut stop = get("http-1", "http://a/", false);
    stop["redirectPolicy"] = json!("stop");
    let id = ask(&mut peer, stop).await;
    let (_, mut site) = server.network.accept().await;
    head(&mut site).await;
    site.write_all(b"HTTP/1.1 302 -\r\nLocation: /b\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
    let answer = peer.answer(id).await.unwrap();
    assert_eq!((&answer["status"], &answer["bodyBase64"]), (&json!(302), &json!("b2s=")));
    for policy in [json!("manual"), json!(null), json!({})] {
        let mut bad = get("http-1", "http://a/", false);
        bad["redirectPolicy"] = policy;
        assert_eq!(peer.call("http/request", bad).await.unwrap_err().0, -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_redirects_and_their_time_are_bounded() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let id = ask(&mut peer, get("http-1", "http://a/", true)).await;
    for _ in 0..=10 {
        redirect(&server, 302, "/").await;
    }
    let why = "the request failed: more than 10 redirects";
    assert_eq!(peer.answer(id).await, Err((-32603, why.into())));

    let mut late = get("http-1", "http://a/", true);
    late["timeoutMs"] = json!(500);
    let (began, id) = (Instant::now(), ask(&mut peer, late).await);
    sleep(ms(300)).await;
    redirect(&server, 302, "/").await;
    let why = "the request failed: it took too long";
    assert_eq!(peer.answer(id).await, Err((-32603, why.into())));
    assert_eq!(began.elapsed(), ms(500), "all hops share one deadline");
    server.network.accept().await;

    let id = ask(&mut peer, get("http-1", "http://a/", true)).await;
    redirect(&server, 302, "https://b/").await;
    let why = "the request failed: the target of a redirect: https is not supported";
    assert_eq!(peer.answer(id).await, Err((-32603, why.into())));
}

#[tokio::test(start_paused = true)]
async fn a_header_takes_its_value_from_the_server_s_environment() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let with = |variable: &str| {
        let mut params = get("http-1", "http://a/", false);
        params["headers"] =
            json!([{"name": "Authorization", "value": "Bearer ", "valueEnvVar": variable}]);
        params
    };
    let refused = peer.call("http/request", with("NO_TOKEN")).await.unwrap_err();
    assert_eq!(refused, (-32602, "invalid parameters: header Authorization: the server has no environment variable NO_TOKEN".into()));
    ask(&mut peer, with("A_TOKEN")).await;
    let (_, mut site) = server.network.accept().await;
    assert!(head(&mut site).await.contains("authorization: Bearer t\r\n"));
}
