//! Bugs of an end whose peer is silent.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::peer::{Peer, resume};
use super::{Seen, compare};

#[tokio::test]
#[ignore = "takes four minutes"]
async fn bug_02_a_dead_client_stays_attached() {
    compare(2, &[], async |server| {
        let mut peer = Peer::new(server).await;
        peer.call("environment/status", json!({})).await;
        let mut attempts = Vec::new();
        for wait in [25, 20, 75] {
            sleep(Duration::from_secs(wait)).await; // the client reads nothing, and sends no pong
            attempts.push(resume(server, &peer.session).await);
        }
        let refused = attempts.iter().take_while(|code| **code == Some(-32010)).count();
        let after = ["25 s", "45 s", "120 s"];
        let what = match after.get(refused) {
            Some(after) => format!("a resume is possible {after} after the last sign of life"),
            None => {
                "a resume gets the error -32010 25 s, 45 s and 120 s after the last sign of life"
                    .into()
            }
        };
        Seen { bug: refused == attempts.len(), what }
    })
    .await;
}
