//! Measures the cost of an event that is delivered to one of many clients, or by one of many
//! processes.

use reknit::history::EventKind;

use super::plans::{carry_out, judged, lines, subject};
use super::turns::{Meter, Side, print_figure};

pub fn measure(meter: &mut Meter) {
    let (hosts, processes) = (meter.size(100, 10), meter.size(1_000, 50));
    compare(meter, "hosts", "client hosts", [(1, 1), (hosts, 1)]);
    compare(meter, "processes", "processes", [(1, 1), (1, processes)]);
}

/// Prints how many times more an event costs among many than alone. Each pair is (clients,
/// processes per client).
fn compare(meter: &mut Meter, row: &str, of_what: &str, [few, many]: [(u32, u32); 2]) {
    let exec = subject("exec");
    let seconds = meter.size(50, 5);
    let [(few, few_lines), (many, many_lines)] =
        [few, many].map(|(clients, processes)| lines(clients, processes, seconds));
    let balance = many_lines / few_lines;
    for (suffix, judges) in [("", false), (", judged", true)] {
        let side = |plan, lines| {
            let exec = &exec;
            Side::new(move || {
                let history =
                    if judges { judged(exec, plan).history } else { carry_out(exec, plan).history };
                let events = history
                    .events
                    .iter()
                    .filter(|event| matches!(event.what, EventKind::Delivered { .. }))
                    .count();
                assert_eq!(events, lines as usize, "every line is an event of its own");
                history
            })
        };
        let sides = [side(&few, few_lines).times(balance), side(&many, many_lines)];
        let Some([few, many]) = meter.turns(&format!("scale/{row}{suffix}"), sides) else {
            continue;
        };
        let (few, many) = (few / f64::from(few_lines), many / f64::from(many_lines));
        let figure = format!(
            "{:.1} times as much, {:.1} µs and {:.1} µs",
            many / few,
            few * 1e6,
            many * 1e6
        );
        print_figure(
            &format!("an event among {balance} {of_what}{suffix}"),
            figure,
            "3 times as much",
        );
    }
}
