//! A test subject that consists of two functions, and helpers that log and read what they see.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::history::{Event, EventKind, History, Side, Stream as Name};
use crate::net::{Endpoint, Stream};
use crate::property::{CheckContext, GENERIC, Guarantees, Judgements, WorkBounds};
use crate::schedule::{Action, Fault, Limits, Orphans, Plan, Trigger, When, faults};
use crate::subject::{
    Dissector, DynSubject, HostContext, LineMessages, Message, Nothing, OperationQueue, Program,
    Root, Subject,
};
use crate::world::{Options, process, run};

/// The function that creates a root.
pub type Play = Arc<dyn Fn(HostContext) -> Root + Send + Sync>;

/// A subject with two plain roots.
#[derive(Clone)]
pub struct Bare {
    serve: Play,
    drive: Play,
    programs: &'static [Program],
    accepts_late_requests: bool,
}

impl Subject for Bare {
    type Operation = Nothing;

    fn name(&self) -> &'static str {
        "bare"
    }

    fn description(&self) -> &'static str {
        "two roots"
    }

    fn setup(&self) -> Vec<(&'static str, schemars::Schema)> {
        vec![(process::TABLE, process::schema())]
    }

    fn dissector(&self, _: Side) -> Box<dyn Dissector> {
        crate::defect!(Anything);
        Box::new(Curious(LineMessages::default()))
    }

    fn generation_milestone(&self) -> Option<&'static str> {
        Some("bare.installed")
    }

    fn accepts_late_requests(&self) -> bool {
        self.accepts_late_requests
    }

    async fn serve(&self, host: HostContext) {
        (self.serve)(host).await;
    }

    async fn drive(&self, host: HostContext, _: OperationQueue<Nothing>) {
        (self.drive)(host).await;
    }

    fn programs(&self) -> &'static [Program] {
        self.programs
    }

    fn guarantees(&self, _: &Limits) -> Guarantees {
        let (attempts_a_minute, attempts_per_item) = (60, 0);
        let work =
            WorkBounds { attempts: 1, attempts_a_minute, attempts_per_item, frames: 1, polls: 1 };
        let (round_trips, settle) = (1, Duration::from_secs(1));
        Guarantees {
            round_trips,
            session: Duration::ZERO,
            closed_retention: Duration::ZERO,
            work,
            settle,
            ..Guarantees::default()
        }
    }
}

/// A dissector that reads lines and checks for a defect while it reads.
struct Curious(LineMessages);

impl Dissector for Curious {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        crate::defect!(Anything);
        self.0.feed(bytes)
    }
}

/// Creates a subject from two async functions.
pub fn bare<S, SF, C, CF>(serve: S, drive: C) -> Arc<dyn DynSubject>
where
    S: Fn(HostContext) -> SF + Send + Sync + 'static,
    SF: Future<Output = ()> + Send + 'static,
    C: Fn(HostContext) -> CF + Send + Sync + 'static,
    CF: Future<Output = ()> + Send + 'static,
{
    bare_with(&[], serve, drive)
}

/// Creates a subject from two async functions, whose hosts can launch these programs.
pub fn bare_with<S, SF, C, CF>(
    programs: &'static [Program],
    serve: S,
    drive: C,
) -> Arc<dyn DynSubject>
where
    S: Fn(HostContext) -> SF + Send + Sync + 'static,
    SF: Future<Output = ()> + Send + 'static,
    C: Fn(HostContext) -> CF + Send + Sync + 'static,
    CF: Future<Output = ()> + Send + 'static,
{
    Arc::new(subject(programs, serve, drive))
}

/// Creates a subject from two async functions, whose server accepts late requests.
pub fn bare_and_late<S, SF, C, CF>(serve: S, drive: C) -> Arc<dyn DynSubject>
where
    S: Fn(HostContext) -> SF + Send + Sync + 'static,
    SF: Future<Output = ()> + Send + 'static,
    C: Fn(HostContext) -> CF + Send + Sync + 'static,
    CF: Future<Output = ()> + Send + 'static,
{
    Arc::new(Bare { accepts_late_requests: true, ..subject(&[], serve, drive) })
}

fn subject<S, SF, C, CF>(programs: &'static [Program], serve: S, drive: C) -> Bare
where
    S: Fn(HostContext) -> SF + Send + Sync + 'static,
    SF: Future<Output = ()> + Send + 'static,
    C: Fn(HostContext) -> CF + Send + Sync + 'static,
    CF: Future<Output = ()> + Send + 'static,
{
    Bare {
        serve: Arc::new(move |host| Box::pin(serve(host))),
        drive: Arc::new(move |host| Box::pin(drive(host))),
        programs,
        accepts_late_requests: false,
    }
}

/// Creates a plan with faults at these times in milliseconds.
pub fn plan(faults: impl IntoIterator<Item = (u64, Fault)>) -> Plan {
    let at = |(ms, fault)| crate::schedule::Step {
        when: When::At(Duration::from_millis(ms)),
        action: Action::Fault(fault),
    };
    let mut plan = Plan::new("bare");
    plan.steps = faults.into_iter().map(at).collect();
    plan
}

/// Creates a crash that also kills the processes of the host.
pub fn crash(host: &str, lasts: Option<Duration>) -> Fault {
    Fault::Crash(faults::Crash { host: host.into(), lasts, processes: Orphans::Die })
}

/// Creates a plan with one fault after a trigger.
pub fn plan_after(trigger: Trigger, fault: Fault) -> Plan {
    Plan::new("bare").step(When::After(trigger), Action::Fault(fault))
}

/// Runs a plan, and returns its history.
pub fn history(subject: &Arc<dyn DynSubject>, plan: &Plan) -> History {
    run(subject, plan, &Options::default()).unwrap().history
}

/// Returns the violations of a generic property, as sentences.
pub fn broken(
    subject: &Arc<dyn DynSubject>,
    plan: &Plan,
    history: &History,
    property: &str,
) -> Vec<String> {
    let guarantees = subject.guarantees(&plan.limits);
    let cx = CheckContext {
        plan,
        limits: &plan.limits,
        history,
        guarantees: &guarantees,
        milestones: &[],
        servers: &["server"],
        control: None,
        judgements: &Judgements::default(),
    };
    let property = GENERIC.iter().find(|known| known.name == property).unwrap();
    (property.check)(&cx).iter().map(crate::report::sentence).collect()
}

/// Returns the log lines of the hosts as `client 12: text`, without times if `timed` is false.
pub fn log_lines(history: &History, timed: bool) -> Vec<String> {
    let line = |event: &Event| match &event.what {
        EventKind::Delivered { bytes, .. } => {
            let (host, text) = (
                event.host.as_ref().unwrap(),
                String::from_utf8_lossy(&bytes.whole()).into_owned(),
            );
            Some(if timed {
                format!("{host} {}: {text}", event.at.0)
            } else {
                format!("{host}: {text}")
            })
        }
        _ => None,
    };
    history.events.iter().filter_map(line).collect()
}

/// Logs a line, which the test reads later.
pub fn log(host: &HostContext, text: impl Into<String>) {
    host.record.delivered(&Name::from("said"), text.into().into_bytes(), None);
}

/// Returns the address of the server.
pub fn server() -> Endpoint {
    Endpoint::tcp("server", 80)
}

/// Connects, and retries until it succeeds.
pub async fn connect(host: &HostContext) -> Stream {
    host.env.net.connect(&server()).await.unwrap()
}

/// Reads from a connection: returns text, `eof`, or the kind of an error.
pub async fn receive(stream: &mut Stream) -> String {
    let mut buffer = vec![0; 1 << 16];
    match stream.read(&mut buffer).await {
        Ok(0) => "eof".into(),
        Ok(n) => String::from_utf8_lossy(&buffer[..n]).into_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Runs a server that echoes every byte, and logs how each connection ended.
pub async fn echo(host: HostContext) {
    let mut listener = host.env.net.listen(&server()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let mut stream = listener.accept().await.unwrap();
        let host = host.clone();
        tasks.spawn(async move {
            let mut buffer = [0; 4096];
            let end = loop {
                match stream.read(&mut buffer).await {
                    Ok(0) => break "eof".to_owned(),
                    Ok(n) => {
                        if let Err(error) = stream.write_all(&buffer[..n]).await {
                            break format!("write: {:?}", error.kind());
                        }
                    }
                    Err(error) => break format!("{:?}", error.kind()),
                }
            };
            log(&host, format!("{} {end}", stream.id()));
        });
    }
}

/// Sends `hello` every second and logs the reply, until the connection ends.
pub async fn ask_every_second(host: HostContext) {
    let mut stream = connect(&host).await;
    let start = Instant::now();
    loop {
        if let Err(error) = stream.write_all(b"hello").await {
            return log(&host, format!("write: {:?}", error.kind()));
        }
        let received = receive(&mut stream).await;
        log(&host, received.clone());
        if received != "hello" || start.elapsed() > Duration::from_secs(50) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
