//! Ctrl-C on long work: the first one asks it to come to its end, the second one ends the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody pressed Ctrl-C, from now on.
#[derive(Clone, Debug, Default)]
pub struct Interrupted(Arc<AtomicBool>);

impl Interrupted {
    /// Listens, on a thread of its own that ends with the program. Nothing is heard where the operating system does not tell.
    pub fn listen() -> Self {
        let interrupted = Self::default();
        #[cfg(unix)]
        {
            let heard = interrupted.clone();
            std::thread::spawn(move || heard.wait());
        }
        interrupted
    }

    /// Whether it was pressed.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    #[cfg(unix)]
    fn wait(&self) {
        /// What shells call a program that was ended by Ctrl-C.
        const INTERRUPTED: i32 = 130;
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
            return;
        };
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                self.0.store(true, Ordering::Relaxed);
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(INTERRUPTED);
            }
        });
    }
}
