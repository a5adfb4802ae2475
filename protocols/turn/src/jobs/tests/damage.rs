//! Records that are not usable.

use super::*;

const WHOLE: &str = r#"{"version": 1, "id": "task-a", "kind": "task", "title": "", "workspace": "/",
    "state": "queued", "process": {"pid": 1, "started": "1"}, "created": 1, "color": "red"}"#;

async fn damage(content: &str) -> Damage {
    let machine = TestMachine::new();
    let store = machine.store().await;
    let whole = store.create(task("")).await.unwrap().id;
    machine.put("task-a.json", content).await;
    let id = JobId::new("task-a").unwrap();
    let Err(JobError::Broken(broken)) = store.read(&id).await else { panic!("{content}") };
    for error in [store.claim(&id).await.map(drop), store.cancel(&id).await.map(drop)] {
        assert!(matches!(error, Err(JobError::Broken(_))));
    }
    store.prune().await.unwrap();
    let listing = store.list(None).await.unwrap();
    assert_eq!(listing.jobs.iter().map(|job| &job.id).collect::<Vec<_>>(), [&whole]);
    assert_eq!(listing.broken, std::slice::from_ref(&broken));
    assert_eq!(machine.get("task-a.json").await, content);
    broken.damage
}

#[test]
fn a_damaged_record_is_an_error_for_its_job_only_and_is_kept() {
    run(async {
        assert_eq!(damage("").await, Damage::Empty);
        assert_eq!(damage(&WHOLE.replace("1,", "2,")).await, Damage::Version(2));
        for content in [
            &WHOLE[..40],
            "{}",
            "[]",
            "\u{0}",
            &WHOLE.replace("task-a", "task-b"),
            &WHOLE.replace("queued", "asleep"),
            &WHOLE.replace("process", "nothing"),
        ] {
            let damage = damage(content).await;
            assert!(matches!(damage, Damage::Malformed(_)), "{content}: {damage}");
        }
    });
}

#[test]
fn a_record_that_is_too_large_is_not_read() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store_with(JobLimits { record_bytes: 600, ..Default::default() }).await;
        machine.put("task-a.json", &WHOLE.replace("red", &"r".repeat(600))).await;
        let error = store.find("task-a").await.unwrap_err();
        let JobError::Broken(broken) = error else { panic!("{error}") };
        assert_eq!(broken.damage, Damage::TooLarge(600));
        assert!(broken.to_string().contains("remove /state/jobs/task-a.json"), "{broken}");
    });
}

#[test]
fn unknown_members_survive_each_change() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        machine.put("task-a.json", WHOLE).await;
        let id = JobId::new("task-a").unwrap();
        let claim = store.claim(&id).await.unwrap();
        store.finish(&claim, Ending::Completed, None).await.unwrap();
        let record: serde_json::Value =
            serde_json::from_str(&machine.get("task-a.json").await).unwrap();
        assert_eq!((&record["color"], &record["state"]), (&"red".into(), &"completed".into()));
    });
}

/// Each value is in the record once.
#[test]
fn a_record_has_no_member_twice() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        let id = store.create(task("")).await.unwrap().id;
        let claim = store.claim(&id).await.unwrap();
        store.finish(&claim, failed("no"), Some("text")).await.unwrap();
        let text = machine.get(&format!("{id}.json")).await;
        for member in ["version", "state", "process", "error", "report", "id"] {
            assert_eq!(text.matches(&format!("\"{member}\":")).count(), 1, "{text}");
        }
        assert_eq!(store.read(&id).await.unwrap().other.len(), 0);
    });
}

#[test]
fn files_that_are_no_records_are_ignored() {
    run(async {
        let machine = TestMachine::new();
        let store = machine.store().await;
        for name in ["README", "UPPER.json", ".json", "task-a.json.bak", "a b.json"] {
            machine.put(name, "x").await;
        }
        assert_eq!(store.list(None).await.unwrap(), Listing::default());
        assert_eq!(store.prune().await.unwrap(), Pruned::default());
        assert_eq!(machine.names().await.len(), 5);
    });
}
