//! Ctrl-C during long work: the first one asks the command to finish early, the second one exits
//! the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status that shells use for a program ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Whether the user has pressed Ctrl-C since [`listen`](Self::listen).
#[derive(Clone, Debug, Default)]
pub struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    /// Listens on a separate thread that ends with the program. Without signal support in the
    /// operating system, the flag is never set.
    pub fn listen() -> Self {
        let interrupted = Self::default();
        #[cfg(unix)]
        {
            let flag = interrupted.clone();
            std::thread::spawn(move || flag.wait());
        }
        interrupted
    }

    /// Whether the user pressed Ctrl-C.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg(unix)]
    fn wait(&self) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
            return;
        };
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                self.0.store(true, Ordering::Relaxed);
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(INTERRUPTED.into());
            }
        });
    }
}
