//! The flow of bytes: boundaries, empty reads and writes, silence, and readers that are late and
//! slow.

use crate::stage::{Exchange, Stage};

pub const ALL: &[Exchange] = &[
    Exchange {
        name: "bytes_have_no_borders",
        play: |stage| Box::pin(no_borders(stage)),
        reset: None,
        linux: &["client writes `one `: ok", "client writes `two`: ok", "server reads: `one two`"],
    },
    Exchange {
        name: "silence_is_nothing",
        play: |stage| Box::pin(silence(stage)),
        reset: None,
        linux: &["client reads: nothing", "server writes `late`: ok", "client reads: `late`"],
    },
    Exchange {
        name: "write_of_no_bytes",
        play: |stage| Box::pin(write_nothing(stage)),
        reset: None,
        linux: &[
            "client writes ``: ok",
            "server reads: nothing",
            "client writes `x`: ok",
            "server reads: `x`",
        ],
    },
    Exchange {
        name: "read_into_no_space",
        play: |stage| Box::pin(read_nothing(stage)),
        reset: None,
        linux: &[
            "client reads into no space: nothing",
            "server writes `hello`: ok",
            "client reads into no space: 0 bytes",
            "client reads: `hello`",
            "server closes",
            "client reads into no space: 0 bytes",
            "client reads: eof",
        ],
    },
    Exchange {
        name: "late_reader_1_byte_at_a_time",
        play: |stage| Box::pin(late_reader(stage, 1 << 17, 1)),
        reset: None,
        linux: &[
            "client pours 131072 bytes: ok",
            "server sips 1 at a time: 131072 bytes, the poured ones, then eof",
        ],
    },
    Exchange {
        name: "late_reader_8_kib_at_a_time",
        play: |stage| Box::pin(late_reader(stage, 1 << 20, 8 << 10)),
        reset: None,
        linux: &[
            "client pours 1048576 bytes: ok",
            "server sips 8192 at a time: 1048576 bytes, the poured ones, then eof",
        ],
    },
    Exchange {
        name: "late_reader_64_kib_at_a_time",
        play: |stage| Box::pin(late_reader(stage, 1 << 20, 64 << 10)),
        reset: None,
        linux: &[
            "client pours 1048576 bytes: ok",
            "server sips 65536 at a time: 1048576 bytes, the poured ones, then eof",
        ],
    },
    Exchange {
        name: "both_pour_at_once",
        play: |stage| Box::pin(both_write(stage)),
        reset: None,
        linux: &[
            "client pours 20000 bytes: ok",
            "server pours 20000 bytes: ok",
            "client sips 1000 at a time: 20000 bytes, the poured ones, then eof",
            "server sips 1000 at a time: 20000 bytes, the poured ones, then eof",
        ],
    },
];

async fn no_borders(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.write("one ").await;
    client.write("two").await;
    stage.tick().await;
    server.read().await;
}

async fn silence(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.read().await;
    server.write("late").await;
    stage.tick().await;
    client.read().await;
}

async fn write_nothing(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.write("").await;
    stage.tick().await;
    server.read().await;
    client.write("x").await;
    stage.tick().await;
    server.read().await;
}

async fn read_nothing(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    client.read_into_nothing().await;
    server.write("hello").await;
    stage.tick().await;
    client.read_into_nothing().await;
    client.read().await;
    server.close();
    stage.tick().await;
    client.read_into_nothing().await;
    client.read().await;
}

async fn late_reader(stage: Stage, total: usize, size: usize) {
    let (mut client, mut server, _door) = stage.pair().await;
    tokio::join!(client.write_bytes(total), async {
        for _ in 0..10 {
            stage.tick().await;
        }
        server.read_bytes(size).await;
    });
}

async fn both_write(stage: Stage) {
    let (mut client, mut server, _door) = stage.pair().await;
    // The data fits into the buffers of both ends, because each end first writes and then reads.
    client.write_bytes(20_000).await;
    server.write_bytes(20_000).await;
    stage.tick().await;
    client.read_bytes(1000).await;
    server.read_bytes(1000).await;
}
