//! The pages about jobs that a user reads.

use crate::history::Call;
use crate::subject::HostContext;
use crate::subjects::turn::notes::Shown;
use reknit_turn::jobs::{Job, JobError, JobStore};
use reknit_turn::runner::view;

/// The number of lines of a log on a page.
const LINES: usize = 8;

/// Shows the table of all jobs, each job in full, the jobs of each session, and what is found by the
/// beginning of an id.
pub async fn show(host: &HostContext, store: &JobStore, call: Call) -> Result<(), JobError> {
    let show = |text: String| host.record.observed(&Shown::stream(call), Shown(text));
    let listing = store.list(None).await?;
    show(view::table(&listing));
    show(view::table_json(&listing).to_string());
    for job in &listing.jobs {
        job_page(host, store, call, job).await?;
        if let Some(session) = &job.session {
            show(view::table(&store.list(Some(session)).await?));
        }
    }
    let ids = listing.jobs.iter().map(|job| job.id.as_str());
    let ids: Vec<_> = ids.chain(listing.broken.iter().map(|broken| broken.id.as_str())).collect();
    let begins =
        ids.iter().map(|id| &id[..id.len().saturating_sub(4)]).chain(["", "task-", "review-", "x"]);
    for begin in begins {
        show(match store.find(begin).await {
            Ok(job) => format!("{begin:?} is {}", job.id),
            Err(error) => format!("{begin:?}: {error}"),
        });
    }
    Ok(())
}

/// Shows one job in full.
pub async fn job_page(
    host: &HostContext,
    store: &JobStore,
    call: Call,
    job: &Job,
) -> Result<(), JobError> {
    let log = store.log(&job.id).tail(LINES).await?;
    let (text, result) = (view::details(job, &log), view::result(job));
    let (json, output) = (view::job_json(job, &log), store.output_path(&job.id));
    let page = format!("{text}{result}{json} {}", output.display());
    host.record.observed(&Shown::stream(call), Shown(page));
    Ok(())
}
