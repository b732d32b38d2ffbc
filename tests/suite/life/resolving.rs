//! What is in doubt stays, is listed and counted, and ends only by somebody who knows.

use semel::{
    Doubt, Failure, Forgotten, Identity, Policy, Renew, Request, Resolution, Resolved, Store, Value,
};

use super::fixture::{answer, answered, at, directory, execute, frozen, memory, replayed, seconds};

fn request(id: &str) -> Request<'_> {
    Request::new("pay", id).renew(Renew::Off)
}

fn of<'a>(id: &'a str) -> Identity<'a> {
    Identity::new("pay", id)
}

#[test]
fn a_doubt_is_resolved_to_a_value_an_error_a_bare_fact_or_a_rerun() {
    let store = memory();
    let value = || Resolution::Value(Value::of("paid").expect("a value"));
    for (id, resolution, then) in [
        ("value", value(), "replay"),
        ("executed", Resolution::Executed, "gone"),
        (
            "error",
            Resolution::Failure(Failure::new("declined", "no funds")),
            "failed",
        ),
        ("rerun", Resolution::Rerun, "execute"),
    ] {
        assert_eq!(
            store.resolve(&of(id), value()).expect("answers"),
            Resolved::Absent
        );
        drop(execute(&store, &request(id)));
        assert_eq!(
            store.resolve(&of(id), resolution).expect("resolves"),
            Resolved::Resolved,
            "{id}"
        );
        assert_eq!(answer(&store, &request(id)), then, "{id}");
        if id != "rerun" {
            assert_eq!(
                store.resolve(&of(id), value()).expect("answers"),
                Resolved::NotInDoubt,
                "{id}"
            );
            assert_eq!(
                answer(&store, &request(id)),
                then,
                "{id}: nothing was changed"
            );
        }
    }
}

#[test]
fn a_running_operation_is_not_resolved() {
    let store = memory();
    let ticket = execute(&store, &request("1"));
    assert_eq!(
        store.resolve(&of("1"), Resolution::Rerun).expect("answers"),
        Resolved::NotInDoubt
    );
    ticket.complete("done").expect("completes");
}

#[test]
fn a_resolution_that_names_the_attempt_does_not_end_another_ones_doubt() {
    let store = memory();
    drop(execute(&store, &request("1")));
    let seen = answered!(InDoubt, store.claim(&request("1")).expect("claims"));
    // Somebody else resolves it, and the next attempt ends in doubt as well.
    store
        .resolve(&of("1"), Resolution::Rerun)
        .expect("resolves");
    drop(execute(&store, &request("1")));
    let late = store
        .resolve_attempt(&of("1"), seen.fence, Resolution::Executed)
        .expect("answers");
    assert_eq!(late, Resolved::NotInDoubt);
    let now = answered!(InDoubt, store.claim(&request("1")).expect("claims"));
    assert!(now.fence > seen.fence);
    assert_eq!(store.unresolved(9).expect("lists")[0].fence, now.fence);
    let known = store
        .resolve_attempt(&of("1"), now.fence, Resolution::Executed)
        .expect("answers");
    assert_eq!(known, Resolved::Resolved);
    let absent = store
        .resolve_attempt(&of("2"), 1, Resolution::Executed)
        .expect("answers");
    assert_eq!(absent, Resolved::Absent);
}

#[test]
fn the_message_says_since_when_why_and_the_command_that_resolves_it() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    let request = Request::new("pay all", "P'1").scope("tenant 7");
    drop(execute(&store, &request));
    let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
    assert_eq!((doubt.attempt, doubt.doubt.clone()), (1, Doubt::Dropped));
    for part in [
        semel::rfc3339(doubt.since_us).as_str(),
        "dropped unfinished",
        "semel resolve --store ",
        path.as_str(),
        "--operation 'pay all' --key 'P'\\''1' --scope 'tenant 7'",
        format!(" --fence {} (", doubt.fence).as_str(),
        "--error CODE --message TEXT",
        "--rerun",
    ] {
        assert!(doubt.message.contains(part), "{part}: {}", doubt.message);
    }
    assert_eq!(doubt.to_string(), doubt.message);

    let dashes = Request::new("-op", "--id").scope("-t 7");
    drop(execute(&store, &dashes));
    let doubt = answered!(InDoubt, store.claim(&dashes).expect("claims"));
    let joined = " --operation=-op --key=--id --scope='-t 7' --fence ";
    assert!(doubt.message.contains(joined), "{}", doubt.message);

    let store = memory();
    drop(execute(&store, &request));
    let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
    assert!(
        !doubt.message.contains("--store"),
        "no command reaches it: {}",
        doubt.message
    );
    assert!(
        doubt.message.contains("Store::resolve"),
        "{}",
        doubt.message
    );
}

#[test]
fn unresolved_operations_are_counted_and_listed_longest_first_and_never_swept() {
    let (store, clock) = frozen();
    let lapsing = execute(&store, &request("lapsing").lease(seconds(30)));
    clock.advance(seconds(10));
    drop(execute(&store, &request("dropped")));
    let rerun = request("rerun").in_doubt(Policy::Rerun);
    drop(execute(&store, &rerun));
    let _endless = execute(&store, &request("endless").lease(semel::Lease::Never));
    execute(&store, &request("done"))
        .complete("x")
        .expect("completes");
    execute(&store, &request("released"))
        .release()
        .expect("releases");
    let ids = || -> Vec<String> {
        store
            .unresolved(9)
            .expect("lists")
            .into_iter()
            .map(|info| info.id)
            .collect()
    };
    assert_eq!(ids(), ["dropped"]);
    clock.advance(seconds(20));
    assert_eq!(ids(), ["dropped", "lapsing"]);
    let stats = store.stats();
    assert_eq!(
        (stats.unresolved, stats.oldest_unresolved_us),
        (2, Some(at(seconds(10))))
    );
    assert_eq!(stats.operations["pay"].unresolved, 2);
    assert_eq!(store.unresolved(1).expect("lists").len(), 1);
    clock.advance(seconds(400 * 24 * 3600));
    store.sweep().expect("sweeps");
    assert_eq!(ids(), ["dropped", "lapsing"]);
    assert_eq!(store.len(), 3, "what ended, or may run again, is forgotten");
    for id in ["dropped", "lapsing"] {
        store
            .resolve(&of(id), Resolution::Executed)
            .expect("resolves");
    }
    let stats = store.stats();
    assert_eq!((stats.unresolved, stats.oldest_unresolved_us), (0, None));
    assert!(lapsing.complete("late").is_err(), "somebody has ended it");
}

#[test]
fn forgetting_lets_it_run_again_but_not_while_it_runs() {
    let (store, clock) = frozen();
    assert_eq!(store.forget(&of("1")).expect("answers"), Forgotten::Absent);
    let ticket = execute(&store, &request("1").lease(seconds(30)));
    assert_eq!(store.forget(&of("1")).expect("answers"), Forgotten::Busy);
    clock.advance(seconds(30));
    assert_eq!(
        store.forget(&of("1")).expect("forgets"),
        Forgotten::Forgotten
    );
    let second = execute(&store, &request("1"));
    assert!(second.fence() > ticket.fence() && second.attempt() == 1);
    let lost = ticket.complete("late").expect_err("it is another's");
    assert_eq!(lost.kind(), semel::ErrorKind::Lost);
    second.complete("done").expect("completes");
    assert_eq!(
        replayed(store.claim(&request("1")).expect("claims")),
        "done"
    );
    assert_eq!(
        store.forget(&of("1")).expect("forgets"),
        Forgotten::Forgotten
    );
    assert!(store.is_empty());
}

#[test]
fn a_resolution_survives_the_process() {
    let (_dir, path) = directory();
    let store = Store::open(&path).expect("opens");
    drop(execute(&store, &request("1")));
    drop(store);
    let store = Store::open(&path).expect("reopens");
    assert_eq!(store.stats().unresolved, 1);
    let paid = Value::of("paid").expect("a value");
    store
        .resolve(&of("1"), Resolution::Value(paid))
        .expect("resolves");
    drop(store);
    let store = Store::open(&path).expect("reopens");
    assert_eq!(
        replayed(store.claim(&request("1")).expect("claims")),
        "paid"
    );
}

#[test]
fn a_lease_without_end_is_in_doubt_once_the_process_of_its_holder_is_gone() {
    let (_dir, path) = directory();
    let request = request("1").lease(semel::Lease::Never);
    let store = Store::open(&path).expect("opens");
    let ticket = execute(&store, &request);
    // The ticket leaks: its process says nothing when it ends.
    std::mem::forget(ticket);
    store.close().expect("closes");
    drop(store);
    let store = Store::open(&path).expect("reopens");
    let doubt = answered!(InDoubt, store.claim(&request).expect("claims"));
    assert_eq!(doubt.doubt, Doubt::HolderGone);
    assert_eq!(store.stats().unresolved, 1);
}
