//! Runs the ticker in a turmoil simulation, without reknit.
use tokio::sync::watch;
use turmoil_ticker::{Count, follow, serve};

#[test]
fn a_client_follows_the_count_in_a_turmoil_simulation() -> turmoil::Result {
    let mut sim = turmoil::Builder::new().build();
    sim.host("server", || async {
        let (_counted, count) = watch::channel(Count { name: 7, reached: 3 });
        serve(count).await?;
        Ok(())
    });
    sim.client("client", async {
        let (mut received, followed) = (Vec::new(), std::time::Duration::from_secs(5));
        let _ = tokio::time::timeout(
            followed,
            follow("server", false, |_, _, number| received.push(number)),
        )
        .await;
        assert_eq!(received, [1, 2, 3]);
        Ok(())
    });
    sim.run()
}
