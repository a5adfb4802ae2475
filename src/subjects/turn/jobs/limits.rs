//! The limits of jobs, and their conversion to those of the product code.

use crate::schedule::{Limit, LimitValue, Limits};
use crate::subject::tables::{limit, millis, secs};
use reknit_turn::limits::{CancelLimits, JobLimits};

use LimitValue::{Bytes, Count};

/// The sizes and deadlines of jobs.
#[rustfmt::skip]
pub const LIMITS: &[Limit] = &[
    limit("jobs.kept", Count(50), Count(0), "how many jobs that are over keep their records"),
    limit("jobs.log-bytes", Bytes(1 << 20), Bytes(64), "how many bytes the log of a job may have"),
    limit("jobs.record-bytes", Bytes(16 << 20), Bytes(8 << 10), "how many bytes the record of a job may have"),
    limit("jobs.title-bytes", Bytes(1 << 10), Bytes(64), "how many bytes of a title are kept"),
    limit("jobs.message-bytes", Bytes(64 << 10), Bytes(1), "how many bytes of the message of a failure are kept"),
    limit("jobs.order-bytes", Bytes(1 << 20), Bytes(600), "how many bytes the order of a job may have"),
    limit("jobs.report-bytes", Bytes(2 << 20), Bytes(60), "how many bytes of a report are kept"),
    limit("jobs.entries", Count(10_000), Count(1000), "how many entries the directory of the job records may have"),
    limit("jobs.lock", secs(5), millis(1), "how long a process waits for the lock of the job records"),
    limit("cancel.interrupt", secs(5), millis(10), "how long the interrupt of a cancelled job may take through the broker"),
    limit("cancel.grace", secs(15), millis(10), "how long the worker of a cancelled job may take to end"),
];

/// Returns the limits of the job records.
pub fn jobs(limits: &Limits) -> JobLimits {
    JobLimits {
        kept: limits.count("jobs.kept") as usize,
        lock: limits.duration("jobs.lock"),
        log_bytes: limits.count("jobs.log-bytes") as usize,
        record_bytes: limits.count("jobs.record-bytes") as usize,
        title_bytes: limits.count("jobs.title-bytes") as usize,
        message_bytes: limits.count("jobs.message-bytes") as usize,
        order_bytes: limits.count("jobs.order-bytes") as usize,
        report_bytes: limits.count("jobs.report-bytes") as usize,
        entries: limits.count("jobs.entries") as usize,
    }
}

/// Returns the limits of the end of a cancelled job.
pub fn cancel(limits: &Limits) -> CancelLimits {
    CancelLimits {
        interrupt: limits.duration("cancel.interrupt"),
        grace: limits.duration("cancel.grace"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults of the table are those of the product code.
    #[test]
    fn the_table_has_the_defaults_of_the_product() {
        let limits = Limits::default().over(LIMITS);
        assert_eq!(jobs(&limits), JobLimits::default());
        assert_eq!(cancel(&limits), CancelLimits::default());
    }
}
