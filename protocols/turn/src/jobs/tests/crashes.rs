//! A process that dies between two steps at the file system, and a machine that loses power.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use reknit_seams::files::{Entry, File, Links, Metadata, PathPolicy};
use reknit_seams::net::BoxFuture;

use super::*;

/// Files that fail after so many steps: the process is dead then.
#[derive(Clone)]
struct Mortal {
    files: Memory,
    left: Arc<AtomicUsize>,
}

fn step(left: &AtomicUsize) -> io::Result<()> {
    let before =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    before.map(drop).map_err(|_| io::Error::other("the process is dead"))
}

macro_rules! mortal {
    ($self:ident, $call:expr) => {
        Box::pin(async move {
            step(&$self.left)?;
            $call.await
        })
    };
}

impl Files for Mortal {
    fn restricted(&self, _: Links, _: Option<Arc<dyn PathPolicy>>) -> Arc<dyn Files> {
        unreachable!("a store restricts nothing")
    }
    fn open<'a>(&'a self, path: &'a Path, how: Open) -> BoxFuture<'a, io::Result<Box<dyn File>>> {
        Box::pin(async move {
            step(&self.left)?;
            let file = self.files.open(path, how).await?;
            Ok(Box::new(MortalFile { file, left: self.left.clone() }) as Box<dyn File>)
        })
    }
    fn metadata<'a>(&'a self, path: &'a Path, follow: bool) -> BoxFuture<'a, io::Result<Metadata>> {
        mortal!(self, self.files.metadata(path, follow))
    }
    fn canonicalize<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        mortal!(self, self.files.canonicalize(path))
    }
    fn entries<'a>(&'a self, path: &'a Path, most: usize) -> BoxFuture<'a, io::Result<Vec<Entry>>> {
        mortal!(self, self.files.entries(path, most))
    }
    fn create_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        mortal!(self, self.files.create_directory(path))
    }
    fn remove_file<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        mortal!(self, self.files.remove_file(path))
    }
    fn remove_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        mortal!(self, self.files.remove_directory(path))
    }
    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        mortal!(self, self.files.rename(from, to))
    }
    fn create_link<'a>(
        &'a self,
        target: &'a Path,
        path: &'a Path,
    ) -> BoxFuture<'a, io::Result<()>> {
        mortal!(self, self.files.create_link(target, path))
    }
    fn read_link<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<PathBuf>> {
        mortal!(self, self.files.read_link(path))
    }
    fn sync_directory<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<()>> {
        mortal!(self, self.files.sync_directory(path))
    }
}

struct MortalFile {
    file: Box<dyn File>,
    left: Arc<AtomicUsize>,
}

impl File for MortalFile {
    fn metadata(&self) -> BoxFuture<'_, io::Result<Metadata>> {
        mortal!(self, self.file.metadata())
    }
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        mortal!(self, self.file.read_at(offset, len))
    }
    /// A dying process may have written the first half.
    fn write_at(&self, offset: u64, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            match step(&self.left) {
                Ok(()) => self.file.write_at(offset, bytes).await,
                Err(dead) => {
                    let half = bytes[..bytes.len() / 2].to_vec();
                    self.file.write_at(offset, half).await?;
                    Err(dead)
                }
            }
        })
    }
    fn set_mode(&self, mode: u32) -> BoxFuture<'_, io::Result<()>> {
        mortal!(self, self.file.set_mode(mode))
    }
    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        mortal!(self, self.file.sync())
    }
    fn try_lock(&self) -> BoxFuture<'_, io::Result<bool>> {
        mortal!(self, self.file.try_lock())
    }
}

const FINISHED: usize = 4;

/// Does a step of a job's life. `mortal` is the store of the process that may die.
async fn live(
    nth: usize,
    mortal: &JobStore,
    id: &JobId,
    claim: &mut Option<Claim>,
) -> Result<(), JobError> {
    match nth {
        0 => mortal.create_as(id.clone(), task("")).await.map(drop),
        1 => mortal.claim(id).await.map(|claimed| *claim = Some(claimed)),
        2 => mortal.update(claim.as_ref().unwrap(), turn("t1", Some("turn1"))).await.map(drop),
        3 => {
            let ending = mortal.finish(claim.as_ref().unwrap(), Ending::Completed, Some("done"));
            ending.await.map(drop)
        }
        _ => mortal.prune().await.map(drop),
    }
}

/// Lets a process die after each number of file operations, and returns the records that were then
/// on the disk and neither the old nor the new one.
async fn records_after_deaths(files: fn() -> Memory, power_loss: Option<u64>) -> Vec<String> {
    let (mut wrong, mut snapshots) = (Vec::new(), Vec::new());
    for operations in (0..).map(|n| if n == 0 { usize::MAX } else { n - 1 }) {
        let machine = TestMachine { files: files(), ..TestMachine::new() };
        let process = machine.processes.start();
        let left = Arc::new(AtomicUsize::new(operations));
        let mortal = Mortal { files: machine.files.clone(), left };
        let env = Env { files: Arc::new(mortal), ..machine.env(&process) };
        let id = JobId::new("task-a").unwrap();
        let limits = JobLimits::default();
        let (mut done, mut claim) = (0, None);
        if let Ok(store) = JobStore::open(&env, DIRECTORY, limits).await {
            while done <= FINISHED && live(done, &store, &id, &mut claim).await.is_ok() {
                done += 1;
                if operations == usize::MAX {
                    snapshots.push(machine.store().await.read(&id).await.unwrap());
                }
            }
        }
        if operations == usize::MAX {
            continue;
        }
        if let Some(seed) = power_loss {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ operations as u64;
            machine.files.lose_unsynced(|bound| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % bound
            });
        }
        let reader = machine.store().await;
        let found = match reader.read(&id).await {
            Ok(job) => Some(job),
            Err(JobError::Missing(_)) => None,
            Err(error) => {
                wrong.push(format!("after {operations} operations: {error}"));
                continue;
            }
        };
        let old = done.checked_sub(1).map(|old| snapshots[old].clone());
        if found != old && found.as_ref() != snapshots.get(done) {
            wrong.push(format!("after {operations} operations: {found:?}"));
        }
        // The next process is not disturbed, and cleans up.
        reader.create(task("")).await.unwrap();
        reader.prune().await.unwrap();
        assert!(!machine.names().await.iter().any(|name| name.ends_with(".new")));
        if done > FINISHED {
            return wrong;
        }
    }
    unreachable!("a life has an end")
}

#[test]
fn a_death_after_any_operation_leaves_the_old_or_the_new_record() {
    run(async {
        assert_eq!(records_after_deaths(Memory::default, None).await, [""; 0]);
    });
}

#[test]
fn a_loss_of_power_after_any_operation_leaves_the_old_or_the_new_record() {
    run(async {
        for seed in 0..10 {
            let wrong = records_after_deaths(Memory::tracking_syncs, Some(seed)).await;
            assert_eq!(wrong, [""; 0], "seed {seed}");
        }
    });
}

#[test]
fn a_record_that_is_written_in_two_steps_is_found_half_done() {
    let wrong = crate::testing::with_defect("WritesInTwoSteps", || {
        run(records_after_deaths(Memory::default, None))
    });
    assert!(!wrong.is_empty());
}
