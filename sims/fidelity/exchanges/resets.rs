//! The effect of a reset on bytes that arrived before it, on later reads and writes, and on an end
//! that waits.

use crate::stage::{Exchange, Stage, Toward};

pub const ALL: &[Exchange] = &[
    Exchange {
        name: "reset_then_read",
        play: |stage| Box::pin(reset_read(stage)),
        reset: Some(Toward::Client),
        linux: &[
            "client reads: ConnectionReset",
            "client reads: eof",
            "client writes `x`: BrokenPipe",
        ],
    },
    Exchange {
        name: "reset_then_write",
        play: |stage| Box::pin(reset_write(stage)),
        reset: Some(Toward::Client),
        linux: &[
            "client writes `one`: ConnectionReset",
            "client writes `two`: BrokenPipe",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "reset_then_shut",
        play: |stage| Box::pin(reset_shut(stage)),
        reset: Some(Toward::Client),
        linux: &["client shuts: ok", "client reads: ConnectionReset", "client reads: eof"],
    },
    Exchange {
        name: "reset_with_unread_data",
        play: |stage| Box::pin(reset_unread(stage)),
        reset: Some(Toward::Client),
        linux: &[
            "server writes `delivered`: ok",
            "client reads: `delivered`",
            "client reads: ConnectionReset",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "reset_with_unread_data_then_write",
        play: |stage| Box::pin(reset_unread_write(stage)),
        reset: Some(Toward::Client),
        linux: &[
            "server writes `delivered`: ok",
            "client writes `one`: ConnectionReset",
            "client reads: `delivered`",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "reset_after_eof",
        play: |stage| Box::pin(reset_after_eof(stage)),
        reset: Some(Toward::Client),
        linux: &[
            "server shuts: ok",
            "client reads: eof",
            "client reads: eof",
            "client writes `one`: BrokenPipe",
            "client writes `two`: BrokenPipe",
        ],
    },
    Exchange {
        name: "reset_after_own_shut",
        play: |stage| Box::pin(reset_after_shut(stage)),
        reset: Some(Toward::Client),
        linux: &["client shuts: ok", "client reads: ConnectionReset", "client reads: eof"],
    },
    Exchange {
        name: "reset_while_reading",
        play: |stage| Box::pin(reset_reader(stage)),
        reset: Some(Toward::Client),
        linux: &["client reads: ConnectionReset"],
    },
    Exchange {
        name: "reset_while_pouring",
        play: |stage| Box::pin(reset_writer(stage)),
        reset: Some(Toward::Client),
        linux: &[
            "client pours 16777216 bytes: ConnectionReset",
            "client writes `x`: BrokenPipe",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "reset_of_the_server",
        play: |stage| Box::pin(reset_server(stage)),
        reset: Some(Toward::Server),
        linux: &[
            "client writes `delivered`: ok",
            "server reads: `delivered`",
            "server reads: ConnectionReset",
            "server writes `x`: BrokenPipe",
        ],
    },
    Exchange {
        name: "reset_and_read_into_no_space",
        play: |stage| Box::pin(reset_no_space(stage)),
        reset: Some(Toward::Client),
        linux: &[
            "client reads into no space: ConnectionReset",
            "client reads: eof",
            "client reads into no space: 0 bytes",
        ],
    },
];

async fn reset_read(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    stage.reset(server).await;
    client.read().await;
    client.read().await;
    client.write("x").await;
}

async fn reset_write(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    stage.reset(server).await;
    client.write("one").await;
    client.write("two").await;
    client.read().await;
}

async fn reset_shut(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    stage.reset(server).await;
    client.shut().await;
    client.read().await;
    client.read().await;
}

async fn reset_unread(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    server.write("delivered").await;
    stage.tick().await;
    stage.reset(server).await;
    client.read().await;
    client.read().await;
    client.read().await;
}

async fn reset_unread_write(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    server.write("delivered").await;
    stage.tick().await;
    stage.reset(server).await;
    client.write("one").await;
    client.read().await;
    client.read().await;
}

async fn reset_after_eof(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    server.shut().await;
    stage.tick().await;
    client.read().await;
    stage.reset(server).await;
    client.read().await;
    client.write("one").await;
    client.write("two").await;
}

async fn reset_after_shut(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    client.shut().await;
    stage.tick().await;
    stage.reset(server).await;
    client.read().await;
    client.read().await;
}

async fn reset_reader(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    tokio::join!(client.read(), stage.reset(server));
}

async fn reset_writer(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    // More data than all buffers of a real connection hold, so the writer is waiting when the reset
    // occurs.
    tokio::join!(client.write_bytes(16 << 20), stage.reset(server));
    client.write("x").await;
    client.read().await;
}

async fn reset_server(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.write("delivered").await;
    stage.tick().await;
    stage.reset(client).await;
    server.read().await;
    server.read().await;
    server.write("x").await;
}

async fn reset_no_space(stage: Stage) {
    let (mut client, server, _door) = stage.pair().await;
    stage.reset(server).await;
    client.read_into_nothing().await;
    client.read().await;
    client.read_into_nothing().await;
}
