//! The log of a job.

use super::*;

#[test]
fn lines_are_appended_and_the_last_ones_can_be_read() {
    run(async {
        let machine = TestMachine::new();
        let (store, id) = (machine.store().await, JobId::new("task-a").unwrap());
        assert_eq!(store.log(&id).tail(3).await.unwrap(), [""; 0]);
        for line in ["one", "two\nlines", "three"] {
            store.log(&id).append(line).await.unwrap();
        }
        assert_eq!(store.log(&id).tail(2).await.unwrap(), ["two lines", "three"]);
        assert_eq!(store.log(&id).tail(9).await.unwrap().len(), 3);
    });
}

#[test]
fn a_full_log_says_so_once() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store_with(JobLimits { log_bytes: 40, ..JobLimits::default() }).await;
        let id = JobId::new("task-a").unwrap();
        for _ in 0..20 {
            store.log(&id).append("0123456789").await.unwrap();
        }
        let text = machine.get("task-a.log").await;
        assert_eq!(text, "0123456789\n0123456789\n(the log is full)\n");
        store.log(&id).append("").await.unwrap();
        assert_eq!(machine.get("task-a.log").await, text);
    });
}

#[test]
fn no_line_is_so_short_that_it_follows_the_last_one() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store_with(JobLimits { log_bytes: 60, ..JobLimits::default() }).await;
        let id = JobId::new("task-a").unwrap();
        for line in ["0123456789", &"long ".repeat(9), "short", ""] {
            store.log(&id).append(line).await.unwrap();
        }
        let text = machine.get("task-a.log").await;
        assert_eq!(text, "0123456789\n(the log is full)\n");
    });
}
