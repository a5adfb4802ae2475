//! Conversion of a fault to its word and fields, and back.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{FaultWord, FieldValue, Need};
use crate::schedule::fault::{Fault, HoldEnd, Learns, LinkPlace, SlowBy, TrafficCount};
use crate::schedule::names::{Conn, Host, Named};

/// The fields of a fault, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultFields(pub BTreeMap<&'static str, FieldValue>);

/// The reason why fields do not form a fault of a word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// The field that is not allowed or has the wrong type; `None` if a field is missing.
    pub field: Option<&'static str>,
    /// The mistake, and the correct form.
    pub message: String,
}

impl FaultWord {
    /// Builds a fault from its fields.
    ///
    /// # Errors
    /// If a field is missing, is not one of the word's, has the wrong type, or does not fit with
    /// another field.
    pub fn build(&self, fields: &FaultFields) -> Result<Fault, Unfit> {
        self.check(fields)?;
        Ok((self.build)(fields))
    }

    fn check(&self, fields: &FaultFields) -> Result<(), Unfit> {
        let word = self.name;
        let missing = |message: String| Err(Unfit { field: None, message });
        for (&name, value) in &fields.0 {
            let wrong = |message: String| Err(Unfit { field: Some(name), message });
            match self.field(name) {
                None => return wrong(format!("`{word}` has no field `{name}`")),
                Some(field) if field.kind != value.kind() => {
                    return wrong(format!("`{name}` must be {}", field.kind.written()));
                }
                Some(field) => match field.need {
                    Need::With(other) | Need::WithElse(other, _) if !fields.has(other) => {
                        return wrong(format!(
                            "`{name}` needs `{other}`; leave it out, or add `{other}`"
                        ));
                    }
                    _ => {}
                },
            }
        }
        for field in self.fields.iter().filter(|field| !fields.has(field.name)) {
            match field.need {
                Need::Always => {
                    return missing(format!(
                        "`{word}` needs `{}`, {}",
                        field.name,
                        field.kind.written()
                    ));
                }
                Need::With(other) if fields.has(other) => {
                    return missing(format!(
                        "`{word}` with `{other}` needs `{}`, {}",
                        field.name,
                        field.kind.written()
                    ));
                }
                _ => {}
            }
        }
        self.check_group(fields, Need::OneOf)?;
        self.check_group(fields, Need::SomeOf)
    }

    /// Checks the fields that share a need: exactly one of them, or at least one, must be present.
    fn check_group(&self, fields: &FaultFields, need: Need) -> Result<(), Unfit> {
        let group: Vec<_> =
            self.fields.iter().filter(|field| field.need == need).map(|field| field.name).collect();
        let there: Vec<_> = group.iter().filter(|name| fields.has(name)).collect();
        let names =
            || group.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        if group.is_empty() || there.len() == 1 || (need == Need::SomeOf && !there.is_empty()) {
            return Ok(());
        }
        let how_many = if need == Need::OneOf { "exactly one" } else { "at least one" };
        Err(Unfit {
            field: there.last().map(|name| **name),
            message: format!("`{}` needs {how_many} of {}", self.name, names()),
        })
    }
}

/// Getters for [`FaultWord::build`]. They panic if a required field is missing, because the fields
/// were checked before.
impl FaultFields {
    /// Adds a field.
    pub fn with(mut self, name: &'static str, value: FieldValue) -> Self {
        self.0.insert(name, value);
        self
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn host(&self, name: &str) -> Host {
        let Some(FieldValue::Host(host)) = self.0.get(name) else { panic!("{}", unchecked(name)) };
        host.clone()
    }

    pub(super) fn toward(&self) -> Option<Host> {
        self.has("toward").then(|| self.host("toward"))
    }

    pub(super) fn hosts(&self) -> (Host, Host) {
        let Some(FieldValue::Hosts(one, other)) = self.0.get("hosts") else {
            panic!("{}", unchecked("hosts"))
        };
        (one.clone(), other.clone())
    }

    pub(super) fn conn(&self, name: &str) -> Conn {
        let Some(FieldValue::Conn(conn)) = self.0.get(name) else { panic!("{}", unchecked(name)) };
        conn.clone()
    }

    pub(super) fn place(&self) -> LinkPlace {
        if self.has("conn") {
            return LinkPlace::Conn(self.conn("conn"));
        }
        let (one, other) = self.hosts();
        LinkPlace::Link(one, other)
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        self.maybe(name).unwrap_or_else(|| panic!("{}", unchecked(name)))
    }

    fn maybe(&self, name: &str) -> Option<Duration> {
        match self.0.get(name) {
            Some(FieldValue::Duration(d)) => Some(*d),
            _ => None,
        }
    }

    pub(super) fn lasts(&self) -> Option<Duration> {
        self.maybe("lasts")
    }

    pub(super) fn jump(&self, name: &str) -> i64 {
        let Some(FieldValue::Jump(ms)) = self.0.get(name) else { panic!("{}", unchecked(name)) };
        *ms
    }

    pub(super) fn learns(&self) -> BTreeMap<Host, Learns> {
        match self.0.get("learns") {
            Some(FieldValue::Learns(learns)) => learns.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub(super) fn named<T: Named>(&self, name: &str) -> Option<T> {
        match self.0.get(name) {
            Some(FieldValue::Name(_, value)) => T::named(value),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name) {
            Some(FieldValue::Size(n) | FieldValue::Count(n)) => Some(*n),
            _ => None,
        }
    }

    pub(super) fn count(&self) -> TrafficCount {
        match (self.number("bytes"), self.number("messages")) {
            (Some(bytes), _) => TrafficCount::Bytes(bytes),
            (None, Some(messages)) => TrafficCount::Messages(messages),
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
        let Some(FieldValue::Trigger(until)) = self.0.get("until") else {
            return HoldEnd::After(self.duration("lasts"));
        };
        let trigger = until.clone().delay(self.maybe("then").unwrap_or_default());
        HoldEnd::Until { trigger: Box::new(trigger), at_most: self.duration("at-most") }
    }
}

fn unchecked(name: &str) -> String {
    format!("the field `{name}` was checked against the table before")
}

impl Fault {
    /// Returns the fault's row of the table.
    pub fn word(&self) -> &'static FaultWord {
        FaultWord::find(self.name()).expect("every fault has its row")
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
            Fault::KillChildren { .. } => "kill-children",
            Fault::StopChildren { .. } => "stop-children",
            Fault::SlowChildren { .. } => "slow-children",
            Fault::DelayOutput { .. } => "delay-output",
            Fault::ClosePipe { .. } => "close-pipe",
            Fault::ClockJump { .. } => "clock-jump",
        }
    }

    /// Returns the fields in the order of the table, without optional fields that have no effect.
    pub fn fields(&self) -> Vec<(&'static str, FieldValue)> {
        let mut fields = self.unordered();
        let order = |name: &str| self.word().fields.iter().position(|field| field.name == name);
        fields.sort_by_key(|(name, _)| order(name));
        fields
    }

    fn unordered(&self) -> Vec<(&'static str, FieldValue)> {
        let mut parts = Parts::default();
        match self {
            Fault::Cut { conn, learns } => parts.conn(conn).learns(learns),
            Fault::CutAfter { conn, toward, count, learns } => {
                parts.conn(conn).toward(Some(toward)).count(*count).learns(learns)
            }
            Fault::Partition { hosts, toward, lasts } => {
                parts.hosts(hosts).toward(toward.as_ref()).time("lasts", *lasts)
            }
            Fault::Stall { conn, toward, lasts } => {
                parts.conn(conn).toward(Some(toward)).time("lasts", *lasts)
            }
            Fault::Blackhole { conn, lasts } => parts.conn(conn).time("lasts", *lasts),
            Fault::Delay { place, toward, by, lasts } => parts
                .place(place)
                .toward(toward.as_ref())
                .time("by", Some(*by))
                .time("lasts", *lasts),
            Fault::DelayClose { conn, toward, by } => {
                parts.conn(conn).toward(Some(toward)).time("by", Some(*by))
            }
            Fault::Reset { conn, toward } => parts.conn(conn).toward(toward.as_ref()),
            Fault::Slow { place, toward, by, lasts } => {
                parts.place(place).toward(toward.as_ref()).slow(by).time("lasts", *lasts)
            }
            Fault::Refuse { host, lasts }
            | Fault::Hang { host, lasts }
            | Fault::AcceptThenClose { host, lasts }
            | Fault::StopChildren { host, lasts } => parts.host(host).time("lasts", *lasts),
            Fault::SlowChildren { host, by, lasts } | Fault::DelayOutput { host, by, lasts } => {
                parts.host(host).time("by", Some(*by)).time("lasts", *lasts)
            }
            Fault::PowerLoss { host, unsynced, lasts } => {
                parts.host(host).time("lasts", *lasts).unusual("unsynced", *unsynced)
            }
            Fault::ClosePipe { host, pipe } => parts.host(host).named("pipe", *pipe),
            Fault::Crash { host, lasts, processes } => {
                parts.host(host).time("lasts", *lasts).unusual("processes", *processes)
            }
            Fault::Hold { end } => parts.hold_end(end),
            Fault::Restart { host } | Fault::KillChildren { host } => parts.host(host),
            Fault::ClockJump { host, by_ms } => {
                parts.host(host).push("by", FieldValue::Jump(*by_ms))
            }
        };
        parts.0
    }
}

/// Collects the fields of a fault during its conversion.
#[derive(Default)]
struct Parts(Vec<(&'static str, FieldValue)>);

impl Parts {
    fn push(&mut self, name: &'static str, value: FieldValue) -> &mut Self {
        self.0.push((name, value));
        self
    }

    fn conn(&mut self, conn: &Conn) -> &mut Self {
        self.push("conn", FieldValue::Conn(conn.clone()))
    }

    fn host(&mut self, host: &Host) -> &mut Self {
        self.push("host", FieldValue::Host(host.clone()))
    }

    fn hosts(&mut self, (one, other): &(Host, Host)) -> &mut Self {
        self.push("hosts", FieldValue::Hosts(one.clone(), other.clone()))
    }

    fn place(&mut self, place: &LinkPlace) -> &mut Self {
        match place {
            LinkPlace::Conn(conn) => self.conn(conn),
            LinkPlace::Link(one, other) => {
                self.push("hosts", FieldValue::Hosts(one.clone(), other.clone()))
            }
        }
    }

    fn toward(&mut self, toward: Option<&Host>) -> &mut Self {
        self.0.extend(toward.map(|host| ("toward", FieldValue::Host(host.clone()))));
        self
    }

    fn time(&mut self, name: &'static str, time: Option<Duration>) -> &mut Self {
        self.0.extend(time.map(|time| (name, FieldValue::Duration(time))));
        self
    }

    fn learns(&mut self, learns: &BTreeMap<Host, Learns>) -> &mut Self {
        if learns.is_empty() {
            self
        } else {
            self.push("learns", FieldValue::Learns(learns.clone()))
        }
    }

    fn named<T: Named>(&mut self, name: &'static str, value: T) -> &mut Self {
        self.push(name, FieldValue::Name(T::LIST, value.name()))
    }

    /// Adds a field, unless its value is the default.
    fn unusual<T: Named + Default>(&mut self, name: &'static str, value: T) -> &mut Self {
        if value == T::default() { self } else { self.named(name, value) }
    }

    fn count(&mut self, count: TrafficCount) -> &mut Self {
        match count {
            TrafficCount::Bytes(n) => self.push("bytes", FieldValue::Count(n)),
            TrafficCount::Messages(n) => self.push("messages", FieldValue::Count(n)),
        }
    }

    fn slow(&mut self, by: &SlowBy) -> &mut Self {
        self.time("latency", by.latency);
        let sizes = [("bandwidth", by.bandwidth), ("segment", by.segment), ("window", by.window)];
        self.0.extend(
            sizes.into_iter().filter_map(|(name, size)| Some((name, FieldValue::Size(size?)))),
        );
        self
    }

    fn hold_end(&mut self, end: &HoldEnd) -> &mut Self {
        match end {
            HoldEnd::After(time) => self.time("lasts", Some(*time)),
            HoldEnd::Until { trigger, at_most } => {
                let then = Some(trigger.delay).filter(|then| !then.is_zero());
                let until = trigger.as_ref().clone().delay(Duration::ZERO);
                self.push("until", FieldValue::Trigger(until))
                    .time("then", then)
                    .time("at-most", Some(*at_most))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FieldType, WORDS};
    use super::*;
    use crate::schedule::{Orphans, Trigger};

    fn rebuilt(fault: &Fault) -> Fault {
        fault.word().build(&FaultFields(fault.fields().into_iter().collect())).unwrap()
    }

    #[test]
    fn a_fault_survives_conversion_to_fields_and_back() {
        let (conn, host) = (Conn::number("client", 2), Host::from("server"));
        let second = Some(Duration::from_secs(1));
        let learns = BTreeMap::from([(host.clone(), Learns::Never)]);
        let until = Trigger::milestone("t.connected")
            .field("generation", 2)
            .delay(Duration::from_millis(200));
        for fault in [
            Fault::Cut { conn: conn.clone(), learns: learns.clone() },
            Fault::CutAfter {
                conn: conn.clone(),
                toward: host.clone(),
                count: TrafficCount::Messages(3),
                learns,
            },
            Fault::Delay {
                place: LinkPlace::Link("a".into(), "b".into()),
                toward: None,
                by: Duration::ZERO,
                lasts: second,
            },
            Fault::Slow {
                place: LinkPlace::Conn(conn.clone()),
                toward: Some(host.clone()),
                by: SlowBy { window: Some(1), ..SlowBy::default() },
                lasts: None,
            },
            Fault::Hold {
                end: HoldEnd::Until { trigger: Box::new(until), at_most: Duration::from_secs(5) },
            },
            Fault::Crash { host: host.clone(), lasts: None, processes: Orphans::Live },
            Fault::ClockJump { host, by_ms: -3000 },
        ] {
            assert_eq!(rebuilt(&fault), fault);
        }
    }

    #[test]
    fn every_row_builds_a_fault_of_its_name_and_names_are_unique() {
        for (n, word) in WORDS.iter().enumerate() {
            let fault = (word.build)(&sample(word));
            assert_eq!((fault.word().name, rebuilt(&fault)), (word.name, fault.clone()));
            assert!(WORDS[..n].iter().all(|other| other.name != word.name), "{} twice", word.name);
        }
    }

    /// All fields of a word, except dependent fields and all but the first field of a group of
    /// which exactly one is required.
    fn sample(word: &FaultWord) -> FaultFields {
        let value = |kind| match kind {
            FieldType::Host => FieldValue::Host("server".into()),
            FieldType::Hosts => FieldValue::Hosts("client".into(), "server".into()),
            FieldType::Conn => FieldValue::Conn(Conn::last("client")),
            FieldType::Duration => FieldValue::Duration(Duration::from_millis(1500)),
            FieldType::Jump => FieldValue::Jump(-1),
            FieldType::Size => FieldValue::Size(1024),
            FieldType::Count => FieldValue::Count(3),
            FieldType::Learns => {
                FieldValue::Learns(BTreeMap::from([("server".into(), Learns::Never)]))
            }
            FieldType::Name(list) => FieldValue::Name(list, list.names[1]),
            FieldType::Trigger => FieldValue::Trigger(Trigger::point("p")),
        };
        let mut one_of = 0;
        let wanted = word.fields.iter().filter(|field| match field.need {
            Need::OneOf => std::mem::replace(&mut one_of, 1) == 0,
            Need::With(_) | Need::WithElse(..) => false,
            _ => true,
        });
        FaultFields(wanted.map(|field| (field.name, value(field.kind))).collect())
    }

    #[test]
    fn an_error_names_the_wrong_field() {
        let wrong = |word: &str, fields: FaultFields| {
            let unfit = FaultWord::find(word).unwrap().build(&fields).unwrap_err();
            (unfit.field, unfit.message)
        };
        let second = FieldValue::Duration(Duration::from_secs(1));
        let conn = FieldValue::Conn(Conn::number("client", 1));
        assert_eq!(
            wrong("cut", FaultFields::default()),
            (None, "`cut` needs `conn`, a connection: `\"client#1\"`".into())
        );
        assert_eq!(
            wrong("cut", FaultFields::default().with("conn", second.clone())),
            (Some("conn"), "`conn` must be a connection: `\"client#1\"`".into())
        );
        assert_eq!(
            wrong(
                "hold",
                FaultFields::default().with("lasts", second.clone()).with("then", second.clone())
            ),
            (Some("then"), "`then` needs `until`; leave it out, or add `until`".into())
        );
        assert_eq!(
            wrong("delay", FaultFields::default().with("by", second.clone())),
            (None, "`delay` needs exactly one of `conn` or `hosts`".into())
        );
        assert_eq!(
            wrong("slow", FaultFields::default().with("conn", conn.clone())),
            (
                None,
                "`slow` needs at least one of `latency` or `bandwidth` or `segment` or `window`"
                    .into()
            )
        );
        let hosts = FieldValue::Hosts("client".into(), "server".into());
        assert_eq!(
            wrong(
                "delay",
                FaultFields::default().with("by", second).with("conn", conn).with("hosts", hosts)
            ),
            (Some("hosts"), "`delay` needs exactly one of `conn` or `hosts`".into())
        );
    }
}
