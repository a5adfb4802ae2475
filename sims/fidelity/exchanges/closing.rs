//! The ends of connections: closed, half-closed, from one end or both. Closing with unread bytes is
//! also covered, although it is not graceful.

use crate::stage::{Exchange, Stage};

pub const ALL: &[Exchange] = &[
    Exchange {
        name: "close",
        play: |stage| Box::pin(close(stage)),
        reset: None,
        linux: &["server closes", "client reads: eof"],
    },
    Exchange {
        name: "close_after_a_last_word",
        play: |stage| Box::pin(last_word(stage)),
        reset: None,
        linux: &[
            "server writes `bye`: ok",
            "server closes",
            "client reads: `bye`",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "close_with_unread_data",
        play: |stage| Box::pin(close_unread(stage)),
        reset: None,
        linux: &[
            "client writes `hello`: ok",
            "server closes",
            "client reads: ConnectionReset",
            "client reads: eof",
            "client writes `x`: BrokenPipe",
        ],
    },
    Exchange {
        name: "close_with_unread_data_after_a_reply",
        play: |stage| Box::pin(close_unread_replied(stage)),
        reset: None,
        linux: &[
            "client writes `hello`: ok",
            "server writes `hi`: ok",
            "server closes",
            "client reads: `hi`",
            "client reads: ConnectionReset",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "close_with_unread_data_right_after_a_reply",
        play: |stage| Box::pin(close_unread_at_once(stage)),
        reset: None,
        linux: &[
            "client writes `hello`: ok",
            "server writes `hi`: ok",
            "server closes",
            "client reads: `hi`",
            "client reads: ConnectionReset",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "close_with_unread_data_both",
        play: |stage| Box::pin(close_unread_both(stage)),
        reset: None,
        linux: &[
            "client writes `hello`: ok",
            "server writes `hi`: ok",
            "client closes",
            "server writes `x`: ConnectionReset",
            "server closes",
        ],
    },
    Exchange {
        name: "write_after_the_peer_closed",
        play: |stage| Box::pin(write_after_close(stage)),
        reset: None,
        linux: &[
            "server closes",
            "client writes `one`: ok",
            "client writes `two`: BrokenPipe",
            "client writes `three`: BrokenPipe",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "read_after_a_write_to_a_closed_peer",
        play: |stage| Box::pin(read_after_late_write(stage)),
        reset: None,
        linux: &[
            "server closes",
            "client reads: eof",
            "client writes `one`: ok",
            "client reads: eof",
            "client reads: eof",
            "client writes `two`: BrokenPipe",
        ],
    },
    Exchange {
        name: "last_word_unread_while_writing_to_a_closed_peer",
        play: |stage| Box::pin(last_word_and_late_write(stage)),
        reset: None,
        linux: &[
            "server writes `bye`: ok",
            "server closes",
            "client writes `one`: ok",
            "client reads: `bye`",
            "client reads: eof",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "data_in_flight_to_a_closed_peer",
        play: |stage| Box::pin(in_flight(stage)),
        reset: None,
        linux: &[
            "server closes",
            "client writes `crossing`: ok",
            "client reads: eof",
            "client writes `two`: BrokenPipe",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "half_close_then_reply",
        play: |stage| Box::pin(half_close(stage)),
        reset: None,
        linux: &[
            "client writes `ask`: ok",
            "client shuts: ok",
            "server reads: `ask`",
            "server reads: eof",
            "server writes `reply`: ok",
            "client reads: `reply`",
            "server closes",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "half_close_with_unread_data",
        play: |stage| Box::pin(half_close_unread(stage)),
        reset: None,
        linux: &[
            "server writes `unread`: ok",
            "client shuts: ok",
            "server reads: eof",
            "server writes ` more`: ok",
            "client reads: `unread more`",
        ],
    },
    Exchange {
        name: "half_close_both",
        play: |stage| Box::pin(half_close_both(stage)),
        reset: None,
        linux: &[
            "client shuts: ok",
            "server shuts: ok",
            "client reads: eof",
            "server reads: eof",
            "client writes `x`: BrokenPipe",
            "server writes `x`: BrokenPipe",
            "client shuts: ok",
            "client closes",
            "server closes",
        ],
    },
    Exchange {
        name: "simultaneous_close",
        play: |stage| Box::pin(simultaneous(stage)),
        reset: None,
        linux: &["client shuts: ok", "server shuts: ok", "client reads: eof", "server reads: eof"],
    },
    Exchange {
        name: "shut_twice",
        play: |stage| Box::pin(shut_twice(stage)),
        reset: None,
        linux: &["client shuts: ok", "client shuts: ok", "client shuts: ok", "server reads: eof"],
    },
    Exchange {
        name: "shut_after_the_peer_closed",
        play: |stage| Box::pin(shut_after_close(stage)),
        reset: None,
        linux: &["server closes", "client shuts: ok", "client shuts: ok", "client reads: eof"],
    },
    Exchange {
        name: "write_after_own_shut",
        play: |stage| Box::pin(write_after_shut(stage)),
        reset: None,
        linux: &[
            "client shuts: ok",
            "client writes `x`: BrokenPipe",
            "client writes `x`: BrokenPipe",
            "server reads: eof",
        ],
    },
    Exchange {
        name: "read_after_own_shut",
        play: |stage| Box::pin(read_after_shut(stage)),
        reset: None,
        linux: &[
            "client shuts: ok",
            "client reads: nothing",
            "server writes `hello`: ok",
            "client reads: `hello`",
        ],
    },
    Exchange {
        name: "eof_asked_for_again",
        play: |stage| Box::pin(eof_again(stage)),
        reset: None,
        linux: &[
            "server shuts: ok",
            "client reads: eof",
            "client reads: eof",
            "client writes `heard?`: ok",
            "server reads: `heard?`",
            "client reads: eof",
        ],
    },
];

async fn close(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    server.close();
    stage.tick().await;
    client.read().await;
}

async fn last_word(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    server.write("bye").await;
    server.close();
    stage.tick().await;
    client.read().await;
    client.read().await;
}

async fn close_unread(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    client.write("hello").await;
    stage.tick().await;
    server.close();
    stage.tick().await;
    client.read().await;
    client.read().await;
    client.write("x").await;
}

async fn close_unread_at_once(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.write("hello").await;
    stage.tick().await;
    server.write("hi").await;
    server.close();
    stage.tick().await;
    client.read().await;
    client.read().await;
    client.read().await;
}

async fn close_unread_replied(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.write("hello").await;
    server.write("hi").await;
    stage.tick().await;
    server.close();
    stage.tick().await;
    client.read().await;
    client.read().await;
    client.read().await;
}

async fn close_unread_both(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.write("hello").await;
    server.write("hi").await;
    stage.tick().await;
    client.close();
    stage.tick().await;
    server.write("x").await;
    server.close();
}

async fn write_after_close(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    server.close();
    stage.tick().await;
    for text in ["one", "two", "three"] {
        client.write(text).await;
        stage.tick().await;
    }
    client.read().await;
}

async fn read_after_late_write(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    server.close();
    stage.tick().await;
    client.read().await;
    client.write("one").await;
    stage.tick().await;
    client.read().await;
    client.read().await;
    client.write("two").await;
}

async fn last_word_and_late_write(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    server.write("bye").await;
    server.close();
    stage.tick().await;
    client.write("one").await;
    stage.tick().await;
    client.read().await;
    client.read().await;
    client.read().await;
}

async fn in_flight(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    server.close();
    client.write("crossing").await;
    stage.tick().await;
    client.read().await;
    client.write("two").await;
    client.read().await;
}

async fn half_close(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.write("ask").await;
    client.shut().await;
    stage.tick().await;
    server.read().await;
    server.read().await;
    server.write("reply").await;
    stage.tick().await;
    client.read().await;
    server.close();
    stage.tick().await;
    client.read().await;
}

async fn half_close_unread(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    server.write("unread").await;
    stage.tick().await;
    client.shut().await;
    stage.tick().await;
    server.read().await;
    server.write(" more").await;
    stage.tick().await;
    client.read().await;
}

async fn half_close_both(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.shut().await;
    stage.tick().await;
    server.shut().await;
    stage.tick().await;
    client.read().await;
    server.read().await;
    client.write("x").await;
    server.write("x").await;
    client.shut().await;
    client.close();
    server.close();
}

async fn simultaneous(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    tokio::join!(client.shut(), server.shut());
    stage.tick().await;
    client.read().await;
    server.read().await;
}

async fn shut_twice(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.shut().await;
    client.shut().await;
    stage.tick().await;
    client.shut().await;
    server.read().await;
}

async fn shut_after_close(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    server.close();
    stage.tick().await;
    client.shut().await;
    stage.tick().await;
    client.shut().await;
    client.read().await;
}

async fn write_after_shut(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.shut().await;
    client.write("x").await;
    client.write("x").await;
    stage.tick().await;
    server.read().await;
}

async fn read_after_shut(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.shut().await;
    client.read().await;
    server.write("hello").await;
    stage.tick().await;
    client.read().await;
}

async fn eof_again(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    server.shut().await;
    stage.tick().await;
    client.read().await;
    client.read().await;
    client.write("heard?").await;
    stage.tick().await;
    server.read().await;
    client.read().await;
}
