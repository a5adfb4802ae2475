//! The files of unix sockets. The sockets know their listeners. The files do not.

use std::io;
use std::path::Path;

use super::{Access, Memory, Node, Resolved, error, lock};

impl Memory {
    /// Creates the file of a unix socket, and returns its identity. A link at the path is not
    /// followed.
    ///
    /// # Errors
    /// `AddrInUse` if anything is at the path, and the other errors of `bind(2)`.
    pub fn create_socket(&self, path: &Path) -> io::Result<u64> {
        let mut id = 0;
        let created = self.insert(path, |new, modified, _| {
            id = new;
            Node::Socket { id, modified }
        });
        match created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(io::ErrorKind::AddrInUse.into())
            }
            created => created.map(|()| id),
        }
    }

    /// Returns the identity of the unix socket at a path.
    ///
    /// # Errors
    /// `NotFound` without a file, `ConnectionRefused` if it is not a socket, and the other errors of
    /// `connect(2)`.
    pub fn socket(&self, path: &Path) -> io::Result<u64> {
        let tree = lock(&self.tree);
        let real = match tree.resolve(path, true, self.restrictions.links)? {
            Resolved::Found(real) => real,
            missing => self.existing(missing)?,
        };
        self.restrictions.permit(&real, Access::Write)?;
        match tree.node(&real)? {
            Node::Socket { id, .. } => Ok(*id),
            _ => Err(error(io::ErrorKind::ConnectionRefused)),
        }
    }

    /// Removes the file of this unix socket, if it is still at the path.
    pub fn remove_socket(&self, path: &Path, id: u64) {
        let (mut tree, now) = (lock(&self.tree), self.clock.now());
        let Ok((parent, name)) = self.place(&tree, path) else { return };
        let Ok(entries) = tree.entries(&parent, now) else { return };
        if matches!(entries.get(&name), Some(Node::Socket { id: there, .. }) if *there == id) {
            entries.remove(&name);
        }
    }
}
