//! Reading the notes of a turn: what tasks recorded and reached becomes entries of the history.

use std::sync::Arc;

use crate::history::EventKind;
use crate::net::ConnId;
use crate::schedule::MilestoneValue;

use crate::world::state::{Phase, World};
use crate::world::thread::{self, HostIx, Noted, UNUSED};
use crate::world::waiting::Reached;

/// The field in which milestones and points name their connection.
pub(in crate::world) const CONN: &str = "conn";

/// The field in which a client that installs a generation may name itself.
const CLIENT: &str = "client";

impl World {
    /// Writes the notes of this turn to the history, and then runs the steps that they trigger.
    /// Returns whether a step was triggered.
    ///
    /// All notes come before the triggered steps. So a note that a task makes after the milestone
    /// that kills its host still belongs to the living host.
    pub(in crate::world) fn read_notes(&mut self) -> bool {
        let mut notes = std::mem::take(&mut self.notes);
        thread::drain(&mut notes);
        let mut reached = std::mem::take(&mut self.reached);
        reached.extend(notes.drain(..).filter_map(|note| self.read_note(note.host, note.what)));
        self.notes = notes;
        let mut acted = false;
        for reached in reached.drain(..) {
            acted |= self.reached(&reached);
        }
        self.reached = reached;
        acted
    }

    /// Writes a note of the turn to the history. Returns the milestone or point that it contains,
    /// if a step or a held task waits for one.
    pub(in crate::world) fn read_note(&mut self, host: HostIx, what: Noted) -> Option<Reached> {
        let of = (host != UNUSED).then_some(host);
        match what {
            Noted::Entry(entry) => {
                // After the clients are closed, neither ground truth nor what users get counts.
                let counts = self.phase < Phase::Closing;
                if counts || !(entry.is_ground_truth() || entry.is_of_user()) {
                    self.net.record(of, entry);
                }
            }
            Noted::Milestone { name, fields } => {
                *self.net.history.milestones.entry(name).or_default() += 1;
                self.install_generation(host, name, &fields);
                let fields: Arc<[_]> = fields.into();
                self.net.record(of, EventKind::Milestone { name, fields: fields.clone() });
                return self.steps.is_waiting().then_some(Reached {
                    is_point: false,
                    host,
                    name,
                    fields,
                });
            }
            Noted::Point { name, fields, hold } => {
                *self.net.history.points.entry(name).or_default() += 1;
                self.net.record(
                    of,
                    EventKind::Point { name, fields: fields.clone(), held: hold.is_some() },
                );
                return self.steps.is_waiting().then_some(Reached {
                    is_point: true,
                    host,
                    name,
                    fields,
                });
            }
            Noted::Unowned(what) => {
                if self.unowned_resources.insert(what.clone()) {
                    self.net.record(None, EventKind::Unowned { what });
                }
            }
            Noted::Log(line) => {
                let (at, name) =
                    (self.net.now(), of.map_or("-", |host| self.net.directory.name(host).as_str()));
                self.log.push(format!("{at:>9}  {name:<8}  {line}"));
            }
        }
        None
    }

    /// Handles a milestone in which a client installs a generation on a connection. The client may
    /// also name itself. Then only its own older connections on the same host are stale, and not
    /// those of a client with another name, such as the same window before a reload.
    fn install_generation(
        &mut self,
        host: HostIx,
        name: &str,
        fields: &[(&'static str, MilestoneValue)],
    ) {
        if self.subject.generation_milestone() != Some(name) {
            return;
        }
        let number = |wanted: &str| MilestoneValue::number(fields, wanted);
        let (Some(generation), Some(conn)) =
            (number("generation"), number(CONN).and_then(|n| self.net.index_of(ConnId(n))))
        else {
            return;
        };
        self.net.conns.get_mut(conn).generation = Some(generation);
        self.net.history.conns[conn.0].generation = Some(generation);
        let label = self.net.conns.get(conn).label;
        let named = MilestoneValue::text(fields, CLIENT).map(str::to_owned);
        self.net.conns.get_mut(conn).of.clone_from(&named);
        self.net.history.conns[conn.0].of.clone_from(&named);
        for older in self.net.conns.indices().filter(|index| *index < conn) {
            let state = self.net.conns.get_mut(older);
            state.stale |= state.client == host && state.label == label && state.of == named;
        }
    }
}
