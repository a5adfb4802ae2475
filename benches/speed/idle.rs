//! Measures an idle session for a virtual day, with heartbeats and without.

use std::time::Duration;

use reknit::schedule::{LimitValue, Plan};

use super::plans::{carry_out, nothing, subject};
use super::turns::{Meter, Side, print_figure};

pub fn measure(meter: &mut Meter) {
    let exec = subject("exec");
    let day = Duration::from_secs(meter.size(86_400, 3_600));
    let beating = nothing("exec", day);
    let silent = without_heartbeats(beating.clone());
    let connects = |plan: &Plan| {
        let outcome = carry_out(&exec, plan);
        assert_eq!(
            outcome.history.milestones.get("exec.client.connected"),
            Some(&1),
            "one session from beginning to end"
        );
        outcome
    };
    let sides = [Side::new(|| connects(&beating)), Side::new(|| connects(&silent)).times(50)];
    let Some([beating, silent]) = meter.turns("idle/a day", sides) else { return };
    let times = |seconds: f64| format!("{:.0} × real time", day.as_secs_f64() / seconds);
    print_figure("an idle session, with heartbeats", times(beating), "100,000 × real time");
    print_figure("an idle session, without heartbeats", times(silent), "10,000,000 × real time");
}

/// The same plan with a ping interval longer than the run, so that neither end sends a ping.
fn without_heartbeats(mut plan: Plan) -> Plan {
    for limit in ["client.ping-interval", "server.ping-interval"] {
        plan.limits.0.insert(limit.into(), LimitValue::Duration(plan.horizon * 2));
    }
    plan
}
