//! The names that a file may use. Each name is looked up in a table; for an unknown name, the error
//! suggests the nearest known one.

use crate::property;
use crate::scenario::mistake::{MistakeAt, Parsed, unknown};
use crate::scenario::reader::Node;
use crate::schedule::{Conn, Host, TriggerMark};
use crate::subject::{DynSubject, MilestoneDoc, PointDoc};

/// The tables in which names are looked up.
pub struct Names<'s> {
    pub subject: &'s dyn DynSubject,
    /// The number of client hosts.
    pub clients: u32,
}

/// Properties that compare several runs. They are not in the table of properties of one run.
const OVER_RUNS: &[&str] = &["same_digest"];

impl<'s> Names<'s> {
    pub fn new(subject: &'s dyn DynSubject, clients: u32) -> Self {
        Self { subject, clients }
    }

    /// Returns a list of names, each looked up; empty if the key is left out.
    pub fn list(
        &self,
        node: Option<Node<'_>>,
        look_up: impl Fn(&Node<'_>) -> Parsed<String>,
    ) -> Parsed<Vec<String>> {
        node.map_or(Ok(Vec::new()), |node| node.texts()?.iter().map(look_up).collect())
    }

    fn clients(&self) -> impl Iterator<Item = Host> + use<> {
        (1..=self.clients).map(Host::client)
    }

    fn hosts(&self) -> impl Iterator<Item = Host> + '_ {
        self.subject.servers().iter().map(|name| Host::from(*name)).chain(self.clients())
    }

    /// Returns a client host.
    pub fn client(&self, node: &Node<'_>) -> Parsed<Host> {
        let name = node.text()?;
        let clients: Vec<_> = self.clients().collect();
        let known = clients.iter().map(Host::as_str);
        let found = clients.iter().find(|host| host.as_str() == name).cloned();
        found.map_or_else(|| node.wrong(unknown("a client host", name, known)), Ok)
    }

    /// Returns a host.
    pub fn host(&self, node: &Node<'_>) -> Parsed<Host> {
        self.host_called(node.at, node.text()?)
    }

    /// Returns the host with this name. `at` is the byte position of the name.
    pub fn host_called(&self, at: usize, name: &str) -> Parsed<Host> {
        let hosts: Vec<_> = self.hosts().collect();
        let known = hosts.iter().map(Host::as_str);
        let found = hosts.iter().find(|host| host.as_str() == name).cloned();
        found.ok_or_else(|| MistakeAt { at, message: unknown("a host", name, known) })
    }

    /// Returns a connection of an existing host.
    pub fn conn(&self, node: &Node<'_>) -> Parsed<Conn> {
        let conn: Conn = node.read("a connection like `\"client#1\"`", str::parse)?;
        self.host_called(node.at, conn.host.as_str())?;
        Ok(conn)
    }

    /// Returns a milestone.
    pub fn milestone(&self, node: &Node<'_>) -> Parsed<&'static MilestoneDoc> {
        let name = node.text()?;
        let (milestones, points) = (self.subject.milestones(), self.subject.points());
        if let Some(found) = milestones.iter().find(|milestone| milestone.name == name) {
            return Ok(found);
        }
        if points.iter().any(|point| point.name == name) {
            return node.wrong(format!("`{name}` is a point; write `{{ point = \"{name}\" }}`"));
        }
        node.wrong(unknown(
            &self.none("milestone"),
            name,
            milestones.iter().map(|milestone| milestone.name),
        ))
    }

    /// Returns a point.
    pub fn point(&self, node: &Node<'_>) -> Parsed<&'static PointDoc> {
        let name = node.text()?;
        let (milestones, points) = (self.subject.milestones(), self.subject.points());
        if let Some(found) = points.iter().find(|point| point.name == name) {
            return Ok(found);
        }
        if milestones.iter().any(|milestone| milestone.name == name) {
            return node.wrong(format!("`{name}` is a milestone; write `milestone = \"{name}\"`"));
        }
        node.wrong(unknown(&self.none("point"), name, points.iter().map(|point| point.name)))
    }

    /// Returns the milestone or point with this name. `at` is the byte position of the name.
    pub fn mark_called(&self, at: usize, name: &str) -> Parsed<TriggerMark> {
        let milestones = self.subject.milestones().iter().map(|milestone| milestone.name);
        let points = self.subject.points().iter().map(|point| point.name);
        if milestones.clone().any(|known| known == name) {
            return Ok(TriggerMark::Milestone(name.to_owned()));
        }
        if points.clone().any(|known| known == name) {
            return Ok(TriggerMark::Point(name.to_owned()));
        }
        Err(MistakeAt {
            at,
            message: unknown(&self.none("milestone or point"), name, milestones.chain(points)),
        })
    }

    /// Returns a defect, by its name in files.
    pub fn defect(&self, node: &Node<'_>) -> Parsed<String> {
        let name = node.text()?;
        let defects = self.subject.defects();
        if let Some(defect) = defects.iter().find(|defect| defect.rust == name) {
            return node.wrong(format!(
                "`{name}` is the Rust name of the defect; write `{}`",
                defect.name
            ));
        }
        self.look_up(node, "defect", defects.iter().map(|defect| defect.name))
    }

    /// Returns the id of a rule.
    pub fn rule(&self, node: &Node<'_>) -> Parsed<String> {
        self.look_up(node, "rule", self.subject.rules().iter().map(|rule| rule.id))
    }

    /// Returns a property, generic or specific to the subject.
    pub fn property(&self, node: &Node<'_>) -> Parsed<String> {
        let of_runs =
            property::GENERIC.iter().chain(self.subject.properties()).map(|property| property.name);
        let known: Vec<_> = of_runs
            .chain(OVER_RUNS.iter().copied())
            .chain([crate::scenario::expect::EXPECT])
            .collect();
        self.look_up(node, "property", known)
    }

    /// Looks up a name in a table.
    fn look_up(
        &self,
        node: &Node<'_>,
        what: &str,
        known: impl IntoIterator<Item = &'static str>,
    ) -> Parsed<String> {
        let name = node.text()?;
        let known: Vec<_> = known.into_iter().collect();
        if known.contains(&name) {
            Ok(name.to_owned())
        } else {
            node.wrong(unknown(&self.none(what), name, known))
        }
    }

    fn none(&self, what: &str) -> String {
        format!("a {what} of {}", self.subject.name())
    }
}
