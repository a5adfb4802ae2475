//! Measures the cost of a run, and the shares of the world, the subject and the judgement.

use std::time::Duration;

use serde_json::json;

use super::plans::{ask, carry_out, judged, lines, nothing, subject};
use super::turns::{Meter, Side};

pub fn measure(meter: &mut Meter) {
    let (counter, exec) = (subject("counter"), subject("exec"));
    let empty = nothing("counter", Duration::from_millis(1));
    let mut numbers = nothing("counter", Duration::from_secs(60));
    numbers.setup.insert("stream".to_owned(), json!({ "s1": { "numbers": 60, "every": "1s" } }));
    numbers.steps.push(ask(1, Duration::from_millis(100), "watch", "stream", "s1"));
    let (printed, _) = lines(1, 1, 60);
    let rows = [
        ("a world in which nothing happens", Side::new(|| carry_out(&counter, &empty))),
        ("counter, a number a second for a minute", Side::new(|| carry_out(&counter, &numbers))),
        ("the same, judged", Side::new(|| judged(&counter, &numbers))),
        ("exec, a line a second for a minute", Side::new(|| carry_out(&exec, &printed))),
        ("the same, judged", Side::new(|| judged(&exec, &printed))),
    ];
    let (names, sides): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let Ok(sides) = <[Side<'_>; 5]>::try_from(sides) else {
        unreachable!("there are as many sides as rows")
    };
    let Some(costs) = meter.turns("worlds/a minute", sides) else { return };
    for (name, cost) in names.into_iter().zip(costs) {
        println!("{name}: {:.0} µs a run", cost * 1e6);
    }
}
