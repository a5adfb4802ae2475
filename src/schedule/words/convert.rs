//! The way from a fault to its word and fields, and back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Need, Value, Word};
use crate::schedule::fault::{Count, Fault, HoldEnd, Learns, Orphans, Place, SlowBy};
use crate::schedule::names::{Conn, Host};

/// The fields of a fault, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub BTreeMap<&'static str, Value>);

/// Why fields do not make a fault of a word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// The field that is there and should not be, or has the wrong kind; `None` where something is missing.
    pub field: Option<&'static str>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl Word {
    /// Puts a fault together.
    ///
    /// # Errors
    /// If a field is missing, is not one of the word's, has the wrong kind, or does not go with another.
    pub fn build(&self, fields: &Fields) -> Result<Fault, Unfit> {
        self.check(fields)?;
        Ok((self.build)(fields))
    }

    fn check(&self, fields: &Fields) -> Result<(), Unfit> {
        let word = self.name;
        let missing = |message: String| Err(Unfit { field: None, message });
        for (&name, value) in &fields.0 {
            let wrong = |message: String| Err(Unfit { field: Some(name), message });
            match self.field(name) {
                None => return wrong(format!("`{word}` has no field `{name}`")),
                Some(field) if field.kind != value.kind() => return wrong(format!("`{name}` must be {}", field.kind.written())),
                Some(field) => match field.need {
                    Need::With(other) | Need::WithElse(other, _) if !fields.has(other) => {
                        return wrong(format!("`{name}` goes with `{other}` only; leave it out, or add `{other}`"));
                    }
                    _ => {}
                },
            }
        }
        for field in self.fields.iter().filter(|field| !fields.has(field.name)) {
            match field.need {
                Need::Always => return missing(format!("`{word}` needs `{}`, {}", field.name, field.kind.written())),
                Need::With(other) if fields.has(other) => {
                    return missing(format!("`{word}` with `{other}` needs `{}`, {}", field.name, field.kind.written()));
                }
                _ => {}
            }
        }
        self.check_group(fields, Need::OneOf)?;
        self.check_group(fields, Need::SomeOf)
    }

    /// The fields that share a need: exactly one, or at least one of them.
    fn check_group(&self, fields: &Fields, need: Need) -> Result<(), Unfit> {
        let group: Vec<_> = self.fields.iter().filter(|field| field.need == need).map(|field| field.name).collect();
        let there: Vec<_> = group.iter().filter(|name| fields.has(name)).collect();
        let names = || group.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        if group.is_empty() || there.len() == 1 || (need == Need::SomeOf && !there.is_empty()) {
            return Ok(());
        }
        let how_many = if need == Need::OneOf { "exactly one" } else { "at least one" };
        Err(Unfit { field: there.last().map(|name| **name), message: format!("`{}` needs {how_many} of {}", self.name, names()) })
    }
}

/// Getters for [`Word::build`]: what must be there was checked before.
impl Fields {
    /// The same fields, and one more.
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.0.insert(name, value);
        self
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn host(&self, name: &str) -> Host {
        let Some(Value::Host(host)) = self.0.get(name) else { panic!("{}", unchecked(name)) };
        host.clone()
    }

    pub(super) fn toward(&self) -> Option<Host> {
        self.has("toward").then(|| self.host("toward"))
    }

    pub(super) fn hosts(&self) -> (Host, Host) {
        let Some(Value::Hosts(one, other)) = self.0.get("hosts") else { panic!("{}", unchecked("hosts")) };
        (one.clone(), other.clone())
    }

    pub(super) fn conn(&self, name: &str) -> Conn {
        let Some(Value::Conn(conn)) = self.0.get(name) else { panic!("{}", unchecked(name)) };
        conn.clone()
    }

    pub(super) fn place(&self) -> Place {
        if self.has("conn") {
            return Place::Conn(self.conn("conn"));
        }
        let (one, other) = self.hosts();
        Place::Link(one, other)
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        self.maybe(name).unwrap_or_else(|| panic!("{}", unchecked(name)))
    }

    fn maybe(&self, name: &str) -> Option<Duration> {
        match self.0.get(name) {
            Some(Value::Duration(d)) => Some(*d),
            _ => None,
        }
    }

    pub(super) fn lasts(&self) -> Option<Duration> {
        self.maybe("lasts")
    }

    pub(super) fn jump(&self, name: &str) -> i64 {
        let Some(Value::Jump(ms)) = self.0.get(name) else { panic!("{}", unchecked(name)) };
        *ms
    }

    pub(super) fn learns(&self) -> BTreeMap<Host, Learns> {
        match self.0.get("learns") {
            Some(Value::Learns(learns)) => learns.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn orphans(&self) -> Orphans {
        match self.0.get("processes") {
            Some(Value::Orphans(orphans)) => *orphans,
            _ => Orphans::Die,
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(Value::Size(n) | Value::Count(n)) => Some(*n),
            _ => None,
        }
    }

    pub(super) fn count(&self) -> Count {
        match (self.number("bytes"), self.number("messages")) {
            (Some(bytes), _) => Count::Bytes(bytes),
            (None, Some(messages)) => Count::Messages(messages),
            (None, None) => panic!("{}", unchecked("bytes")),
        }
    }

    pub(super) fn slow(&self) -> SlowBy {
        SlowBy {
            latency: self.maybe("latency"),
            bandwidth: self.number("bandwidth"),
            segment: self.number("segment"),
            window: self.number("window"),
        }
    }

    pub(super) fn hold_end(&self) -> HoldEnd {
        let Some(Value::Trigger(until)) = self.0.get("until") else { return HoldEnd::After(self.duration("lasts")) };
        let trigger = until.clone().delay(self.maybe("then").unwrap_or_default());
        HoldEnd::Until { trigger: Box::new(trigger), at_most: self.duration("at-most") }
    }
}

fn unchecked(name: &str) -> String {
    format!("the field `{name}` was checked against the table before")
}

impl Fault {
    /// The fault's row of the table.
    pub fn word(&self) -> &'static Word {
        Word::find(self.name()).expect("every fault has its row")
    }

    fn name(&self) -> &'static str {
        match self {
            Fault::Cut { .. } => "cut",
            Fault::CutAfter { .. } => "cut-after",
            Fault::Partition { .. } => "partition",
            Fault::Stall { .. } => "stall",
            Fault::Blackhole { .. } => "blackhole",
            Fault::Delay { .. } => "delay",
            Fault::DelayClose { .. } => "delay-close",
            Fault::Reset { .. } => "reset",
            Fault::Slow { .. } => "slow",
            Fault::Refuse { .. } => "refuse",
            Fault::Hang { .. } => "hang",
            Fault::AcceptThenClose { .. } => "accept-then-close",
            Fault::Hold { .. } => "hold",
            Fault::Crash { .. } => "crash",
            Fault::PowerLoss { .. } => "power-loss",
            Fault::Restart { .. } => "restart",
            Fault::ClockJump { .. } => "clock-jump",
        }
    }

    /// Its fields, in the order of the table. Those that may be left out and say nothing are left out.
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = self.unordered();
        let order = |name: &str| self.word().fields.iter().position(|field| field.name == name);
        fields.sort_by_key(|(name, _)| order(name));
        fields
    }

    fn unordered(&self) -> Vec<(&'static str, Value)> {
        let mut parts = Parts::default();
        match self {
            Fault::Cut { conn, learns } => parts.conn(conn).learns(learns),
            Fault::CutAfter { conn, toward, count, learns } => parts.conn(conn).toward(Some(toward)).count(*count).learns(learns),
            Fault::Partition { hosts, toward, lasts } => parts.hosts(hosts).toward(toward.as_ref()).time("lasts", *lasts),
            Fault::Stall { conn, toward, lasts } => parts.conn(conn).toward(Some(toward)).time("lasts", *lasts),
            Fault::Blackhole { conn, lasts } => parts.conn(conn).time("lasts", *lasts),
            Fault::Delay { place, toward, by, lasts } => {
                parts.place(place).toward(toward.as_ref()).time("by", Some(*by)).time("lasts", *lasts)
            }
            Fault::DelayClose { conn, toward, by } => parts.conn(conn).toward(Some(toward)).time("by", Some(*by)),
            Fault::Reset { conn, toward } => parts.conn(conn).toward(toward.as_ref()),
            Fault::Slow { place, toward, by, lasts } => parts.place(place).toward(toward.as_ref()).slow(by).time("lasts", *lasts),
            Fault::Refuse { host, lasts }
            | Fault::Hang { host, lasts }
            | Fault::AcceptThenClose { host, lasts }
            | Fault::PowerLoss { host, lasts } => parts.host(host).time("lasts", *lasts),
            Fault::Crash { host, lasts, processes } => parts.host(host).time("lasts", *lasts).orphans(*processes),
            Fault::Hold { end } => parts.hold_end(end),
            Fault::Restart { host } => parts.host(host),
            Fault::ClockJump { host, by_ms } => parts.host(host).push("by", Value::Jump(*by_ms)),
        };
        parts.0
    }
}

/// The fields of a fault that is taken apart.
#[derive(Default)]
struct Parts(Vec<(&'static str, Value)>);

impl Parts {
    fn push(&mut self, name: &'static str, value: Value) -> &mut Self {
        self.0.push((name, value));
        self
    }

    fn conn(&mut self, conn: &Conn) -> &mut Self {
        self.push("conn", Value::Conn(conn.clone()))
    }

    fn host(&mut self, host: &Host) -> &mut Self {
        self.push("host", Value::Host(host.clone()))
    }

    fn hosts(&mut self, (one, other): &(Host, Host)) -> &mut Self {
        self.push("hosts", Value::Hosts(one.clone(), other.clone()))
    }

    fn place(&mut self, place: &Place) -> &mut Self {
        match place {
            Place::Conn(conn) => self.conn(conn),
            Place::Link(one, other) => self.push("hosts", Value::Hosts(one.clone(), other.clone())),
        }
    }

    fn toward(&mut self, toward: Option<&Host>) -> &mut Self {
        self.0.extend(toward.map(|host| ("toward", Value::Host(host.clone()))));
        self
    }

    fn time(&mut self, name: &'static str, time: Option<Duration>) -> &mut Self {
        self.0.extend(time.map(|time| (name, Value::Duration(time))));
        self
    }

    fn learns(&mut self, learns: &BTreeMap<Host, Learns>) -> &mut Self {
        if learns.is_empty() { self } else { self.push("learns", Value::Learns(learns.clone())) }
    }

    fn orphans(&mut self, orphans: Orphans) -> &mut Self {
        if orphans == Orphans::Die { self } else { self.push("processes", Value::Orphans(orphans)) }
    }

    fn count(&mut self, count: Count) -> &mut Self {
        match count {
            Count::Bytes(n) => self.push("bytes", Value::Count(n)),
            Count::Messages(n) => self.push("messages", Value::Count(n)),
        }
    }

    fn slow(&mut self, by: &SlowBy) -> &mut Self {
        self.time("latency", by.latency);
        let sizes = [("bandwidth", by.bandwidth), ("segment", by.segment), ("window", by.window)];
        self.0.extend(sizes.into_iter().filter_map(|(name, size)| Some((name, Value::Size(size?)))));
        self
    }

    fn hold_end(&mut self, end: &HoldEnd) -> &mut Self {
        match end {
            HoldEnd::After(time) => self.time("lasts", Some(*time)),
            HoldEnd::Until { trigger, at_most } => {
                let then = Some(trigger.delay).filter(|then| !then.is_zero());
                let until = trigger.as_ref().clone().delay(Duration::ZERO);
                self.push("until", Value::Trigger(until)).time("then", then).time("at-most", Some(*at_most))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, WORDS};
    use super::*;
    use crate::schedule::Trigger;

    fn rebuilt(fault: &Fault) -> Fault {
        fault.word().build(&Fields(fault.fields().into_iter().collect())).unwrap()
    }

    #[test]
    fn a_fault_survives_being_taken_apart_and_put_together() {
        let (conn, host) = (Conn::number("client", 2), Host::from("server"));
        let second = Some(Duration::from_secs(1));
        let learns = BTreeMap::from([(host.clone(), Learns::Never)]);
        let until = Trigger::milestone("t.connected").field("generation", 2).delay(Duration::from_millis(200));
        for fault in [
            Fault::Cut { conn: conn.clone(), learns: learns.clone() },
            Fault::CutAfter { conn: conn.clone(), toward: host.clone(), count: Count::Messages(3), learns },
            Fault::Delay { place: Place::Link("a".into(), "b".into()), toward: None, by: Duration::ZERO, lasts: second },
            Fault::Slow {
                place: Place::Conn(conn.clone()),
                toward: Some(host.clone()),
                by: SlowBy { window: Some(1), ..SlowBy::default() },
                lasts: None,
            },
            Fault::Hold { end: HoldEnd::Until { trigger: Box::new(until), at_most: Duration::from_secs(5) } },
            Fault::Crash { host: host.clone(), lasts: None, processes: Orphans::Live },
            Fault::ClockJump { host, by_ms: -3000 },
        ] {
            assert_eq!(rebuilt(&fault), fault);
        }
    }

    #[test]
    fn every_row_has_a_fault_of_its_name_and_its_own_name() {
        for (n, word) in WORDS.iter().enumerate() {
            let fault = (word.build)(&sample(word));
            assert_eq!((fault.word().name, rebuilt(&fault)), (word.name, fault.clone()));
            assert!(WORDS[..n].iter().all(|other| other.name != word.name), "{} twice", word.name);
        }
    }

    /// All fields of a word but the later ones of a group of which one is enough.
    fn sample(word: &Word) -> Fields {
        let value = |kind| match kind {
            Kind::Host => Value::Host("server".into()),
            Kind::Hosts => Value::Hosts("client".into(), "server".into()),
            Kind::Conn => Value::Conn(Conn::last("client")),
            Kind::Duration => Value::Duration(Duration::from_millis(1500)),
            Kind::Jump => Value::Jump(-1),
            Kind::Size => Value::Size(1024),
            Kind::Count => Value::Count(3),
            Kind::Learns => Value::Learns(BTreeMap::from([("server".into(), Learns::Never)])),
            Kind::Orphans => Value::Orphans(Orphans::Live),
            Kind::Trigger => Value::Trigger(Trigger::point("p")),
        };
        let mut one_of = 0;
        let wanted = word.fields.iter().filter(|field| match field.need {
            Need::OneOf => std::mem::replace(&mut one_of, 1) == 0,
            Need::With(_) | Need::WithElse(..) => false,
            _ => true,
        });
        Fields(wanted.map(|field| (field.name, value(field.kind))).collect())
    }

    #[test]
    fn what_is_wrong_with_fields_is_said_with_its_field() {
        let wrong = |word: &str, fields: Fields| {
            let unfit = Word::find(word).unwrap().build(&fields).unwrap_err();
            (unfit.field, unfit.message)
        };
        let second = Value::Duration(Duration::from_secs(1));
        let conn = Value::Conn(Conn::number("client", 1));
        assert_eq!(wrong("cut", Fields::default()), (None, "`cut` needs `conn`, a connection: `\"client#1\"`".into()));
        assert_eq!(
            wrong("cut", Fields::default().with("conn", second.clone())),
            (Some("conn"), "`conn` must be a connection: `\"client#1\"`".into())
        );
        assert_eq!(
            wrong("hold", Fields::default().with("lasts", second.clone()).with("then", second.clone())),
            (Some("then"), "`then` goes with `until` only; leave it out, or add `until`".into())
        );
        assert_eq!(
            wrong("delay", Fields::default().with("by", second.clone())),
            (None, "`delay` needs exactly one of `conn` or `hosts`".into())
        );
        assert_eq!(
            wrong("slow", Fields::default().with("conn", conn.clone())),
            (None, "`slow` needs at least one of `latency` or `bandwidth` or `segment` or `window`".into())
        );
        let hosts = Value::Hosts("client".into(), "server".into());
        assert_eq!(
            wrong("delay", Fields::default().with("by", second).with("conn", conn).with("hosts", hosts)),
            (Some("hosts"), "`delay` needs exactly one of `conn` or `hosts`".into())
        );
    }
}
