//! Opening connections, and connections that the server never accepts.

use crate::stage::{Exchange, Stage, Toward};

pub const ALL: &[Exchange] = &[
    Exchange {
        name: "connect_to_a_closed_port",
        play: |stage| Box::pin(closed_port(stage)),
        reset: None,
        linux: &["listener closes", "client connects: ConnectionRefused"],
    },
    Exchange {
        name: "connect_before_anybody_accepts",
        play: |stage| Box::pin(not_yet_accepted(stage)),
        reset: None,
        linux: &[
            "client connects: ok",
            "client writes `hello`: ok",
            "server accepts: ok",
            "server reads: `hello`",
            "server writes `hi`: ok",
            "client reads: `hi`",
        ],
    },
    Exchange {
        name: "connections_are_accepted_in_order",
        play: |stage| Box::pin(backlog(stage)),
        reset: None,
        linux: &[
            "client connects: ok",
            "client writes `one`: ok",
            "client2 connects: ok",
            "client2 writes `two`: ok",
            "client3 connects: ok",
            "client3 writes `three`: ok",
            "server accepts: ok",
            "server reads: `one`",
            "server2 accepts: ok",
            "server2 reads: `two`",
            "server3 accepts: ok",
            "server3 reads: `three`",
        ],
    },
    Exchange {
        name: "listener_dropped_before_it_accepted",
        play: |stage| Box::pin(listener_dropped(stage)),
        reset: None,
        linux: &[
            "client connects: ok",
            "listener closes",
            "client reads: ConnectionReset",
            "client writes `x`: BrokenPipe",
            "client2 connects: ConnectionRefused",
        ],
    },
    Exchange {
        name: "listener_dropped_after_it_accepted",
        play: |stage| Box::pin(connection_stays(stage)),
        reset: None,
        linux: &["listener closes", "client writes `hello`: ok", "server reads: `hello`"],
    },
    Exchange {
        name: "closed_before_it_was_accepted",
        play: |stage| Box::pin(closed_before_accepted(stage)),
        reset: None,
        linux: &[
            "client connects: ok",
            "client writes `hello`: ok",
            "client closes",
            "server accepts: ok",
            "server reads: `hello`",
            "server reads: eof",
        ],
    },
    Exchange {
        name: "reset_before_it_was_accepted",
        play: |stage| Box::pin(reset_before_accepted(stage)),
        reset: Some(Toward::Server),
        linux: &[
            "client connects: ok",
            "client writes `hello`: ok",
            "server accepts: ok",
            "server reads: `hello`",
            "server reads: ConnectionReset",
        ],
    },
    Exchange {
        name: "two_connections_of_one_host",
        play: |stage| Box::pin(two_connections(stage)),
        reset: None,
        linux: &[
            "client2 connects: ok",
            "server2 accepts: ok",
            "client writes `one`: ok",
            "client2 writes `two`: ok",
            "server2 reads: `two`",
            "server reads: `one`",
            "server closes",
            "client reads: eof",
            "server2 writes `still here`: ok",
            "client2 reads: `still here`",
        ],
    },
    Exchange {
        name: "listen_where_somebody_listens",
        play: |stage| Box::pin(listen_twice(stage)),
        reset: None,
        linux: &["second listener listens: AddrInUse"],
    },
    Exchange {
        name: "listen_again_while_a_connection_lives",
        play: |stage| Box::pin(listen_again(stage)),
        reset: None,
        linux: &[
            "listener closes",
            "client2 connects: ok",
            "server2 accepts: ok",
            "client writes `hello`: ok",
            "server reads: `hello`",
        ],
    },
];

async fn closed_port(stage: Stage) {
    let door = stage.listen("listener").await.expect("the endpoint is free");
    let at = door.endpoint();
    door.close();
    stage.tick().await;
    stage.connect("client", at).await;
}

async fn not_yet_accepted(stage: Stage) {
    let mut door = stage.listen("listener").await.expect("the endpoint is free");
    let Some(mut client) = stage.connect("client", door.endpoint()).await else { return };
    client.write("hello").await;
    stage.tick().await;
    let Some(mut server) = door.accept("server").await else { return };
    server.read().await;
    server.write("hi").await;
    stage.tick().await;
    client.read().await;
}

async fn backlog(stage: Stage) {
    let mut door = stage.listen("listener").await.expect("the endpoint is free");
    let mut clients = Vec::new();
    for (who, text) in [("client", "one"), ("client2", "two"), ("client3", "three")] {
        let Some(mut client) = stage.connect(who, door.endpoint()).await else { return };
        client.write(text).await;
        stage.tick().await;
        clients.push(client);
    }
    for who in ["server", "server2", "server3"] {
        let Some(mut server) = door.accept(who).await else { return };
        server.read().await;
    }
}

async fn listener_dropped(stage: Stage) {
    let door = stage.listen("listener").await.expect("the endpoint is free");
    let at = door.endpoint();
    let Some(mut client) = stage.connect("client", at.clone()).await else { return };
    stage.tick().await;
    door.close();
    stage.tick().await;
    client.read().await;
    client.write("x").await;
    stage.connect("client2", at).await;
}

async fn connection_stays(stage: Stage) {
    let (mut client, mut server, door) = stage.pair().await;
    door.close();
    stage.tick().await;
    client.write("hello").await;
    stage.tick().await;
    server.read().await;
}

async fn closed_before_accepted(stage: Stage) {
    let mut door = stage.listen("listener").await.expect("the endpoint is free");
    let Some(mut client) = stage.connect("client", door.endpoint()).await else { return };
    client.write("hello").await;
    client.close();
    stage.tick().await;
    let Some(mut server) = door.accept("server").await else { return };
    server.read().await;
    server.read().await;
}

async fn reset_before_accepted(stage: Stage) {
    let mut door = stage.listen("listener").await.expect("the endpoint is free");
    let Some(mut client) = stage.connect("client", door.endpoint()).await else { return };
    client.write("hello").await;
    stage.tick().await;
    stage.reset(client).await;
    let Some(mut server) = door.accept("server").await else { return };
    server.read().await;
    server.read().await;
}

async fn two_connections(stage: Stage) {
    let (mut client, mut server, mut door) = stage.pair().await;
    let Some(mut client2) = stage.connect("client2", door.endpoint()).await else { return };
    let Some(mut server2) = door.accept("server2").await else { return };
    client.write("one").await;
    client2.write("two").await;
    stage.tick().await;
    server2.read().await;
    server.read().await;
    server.close();
    stage.tick().await;
    client.read().await;
    server2.write("still here").await;
    stage.tick().await;
    client2.read().await;
}

async fn listen_twice(stage: Stage) {
    let door = stage.listen("listener").await.expect("the endpoint is free");
    stage.listen_at("second listener", door.endpoint()).await;
}

async fn listen_again(stage: Stage) {
    let (mut client, mut server, door) = stage.pair().await;
    let at = door.endpoint();
    door.close();
    stage.tick().await;
    let Some(mut door) = stage.listen_at("second listener", at.clone()).await else { return };
    let Some(_client2) = stage.connect("client2", at).await else { return };
    let Some(_server2) = door.accept("server2").await else { return };
    client.write("hello").await;
    stage.tick().await;
    server.read().await;
}
