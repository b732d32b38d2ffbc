//! One list of scenes, played on a store in memory, on one in a directory, and on one that is reopened between the scenes.

use semel::{
    Claim, Clock, Doubt, Failure, Forgotten, Policy, Renew, Request, Resolution, Resolved, Store,
    Value,
};

use super::fixture::{START, directory, execute, seconds};

/// Stamps rise by a microsecond where time stands still, and a store that is reopened starts at the last: so times are
/// compared by the second.
const SECOND_US: u64 = 1_000_000;

/// A store that a scene plays on; it may be another handle of the same store every time it is asked for.
struct Stage {
    place: String,
    clock: Clock,
    store: Option<Store>,
    reopens: bool,
    script: Vec<String>,
}

impl Stage {
    fn new(place: &str, reopens: bool) -> Self {
        Self {
            place: place.to_owned(),
            clock: Clock::manual(START),
            store: None,
            reopens,
            script: Vec::new(),
        }
    }

    fn store(&mut self) -> Store {
        if self.reopens
            && let Some(store) = self.store.take()
        {
            store.close().expect("closes");
        }
        let (place, clock) = (&self.place, &self.clock);
        let open = || {
            Store::builder(place)
                .clock(clock.clone())
                .sweep_by_hand()
                .open()
                .expect("opens")
        };
        self.store.get_or_insert_with(open).clone()
    }

    fn claim(&mut self, request: &Request<'_>) -> Option<semel::Ticket> {
        let claim = self.store().claim(request).expect("claims");
        let words = match &claim {
            Claim::Execute(ticket) => format!("takeover {}", ticket.is_takeover()),
            Claim::Replay(replay) => format!("{:?} {:?}", replay.value.as_bytes(), replay.twin),
            Claim::Failed(failed) => failed.to_string(),
            Claim::Busy(busy) => format!(
                "{:?} {:?}",
                busy.lease_remaining.map(|left| left.as_secs_f64().round()),
                busy.holder
            ),
            Claim::Mismatch(mismatch) => format!("{:?}", mismatch.fields),
            Claim::InDoubt(doubt) => format!("{:?} {}", doubt.doubt, doubt.since_us / SECOND_US),
            Claim::Gone(_) => String::new(),
            Claim::Twin(twin) => twin.first_id.clone(),
        };
        let (name, attempt, first) = (
            claim.name(),
            claim.attempt(),
            claim.first_executed_us() / SECOND_US,
        );
        self.script
            .push(format!("{name} {attempt} {first} {words}"));
        match claim {
            Claim::Execute(ticket) => Some(ticket),
            _ => None,
        }
    }

    fn note(&mut self, what: impl std::fmt::Debug) {
        self.script.push(format!("{what:?}"));
    }
}

fn request(id: &'static str) -> Request<'static> {
    Request::new("pay", id)
        .lease(seconds(30))
        .retain(seconds(100))
        .remember(seconds(50))
        .renew(Renew::Off)
}

fn paid() -> Resolution {
    Resolution::Value(Value::of("paid").expect("a value"))
}

type Scene = fn(&mut Stage);

const SCENES: &[Scene] = &[
    |stage| {
        let with = |n: u32| request("done").payload(&n).expect("a payload").holder("me");
        let store = stage.store();
        execute(&store, &with(1))
            .complete(&("paid", 1))
            .expect("completes");
        drop(store);
        for wait in [0, 99, 1, 49, 1] {
            stage.clock.advance(seconds(wait));
            std::mem::forget(stage.claim(&with(1)));
            std::mem::forget(stage.claim(&with(2)));
        }
    },
    |stage| {
        let ticket = stage.claim(&request("failed")).expect("first");
        ticket
            .fail(Failure::new("declined", "no funds").kind("Declined"))
            .expect("fails");
        drop(ticket);
        stage.claim(&request("failed"));
    },
    |stage| {
        for _ in 0..3 {
            if let Some(ticket) = stage.claim(&request("attempts").max_attempts(2)) {
                ticket.release().expect("releases");
            }
        }
    },
    |stage| {
        let rerun = request("rerun").in_doubt(Policy::Rerun);
        for _ in 0..3 {
            drop(stage.claim(&rerun));
        }
        stage.clock.advance(seconds(100));
        drop(stage.claim(&rerun));
    },
    |stage| {
        drop(stage.claim(&request("hold")));
        stage.claim(&request("hold"));
        stage.claim(&request("hold").in_doubt(Policy::Rerun));
        let store = stage.store();
        stage.note(
            store
                .unresolved(9)
                .expect("lists")
                .iter()
                .map(|info| (info.id.clone(), info.doubt.clone()))
                .collect::<Vec<_>>(),
        );
        stage.note(
            store
                .resolve(&(&request("hold")).into(), paid())
                .expect("resolves")
                == Resolved::Resolved,
        );
        drop(store);
        stage.claim(&request("hold"));
        let store = stage.store();
        stage.note(
            store.forget(&(&request("hold")).into()).expect("forgets") == Forgotten::Forgotten,
        );
        drop(store);
        drop(stage.claim(&request("hold")));
    },
    |stage| {
        std::mem::forget(stage.claim(&request("lapse")));
        stage.clock.advance(seconds(29));
        stage.claim(&request("lapse"));
        stage.clock.advance(seconds(1));
        stage.claim(&request("lapse"));
        let lapsed = Doubt::LeaseEnded;
        stage.note(lapsed);
    },
    |stage| {
        let request = request("steps").in_doubt(Policy::Rerun);
        let ticket = stage.claim(&request).expect("first");
        ticket
            .step("a", || Ok::<_, std::io::Error>(1))
            .expect("a step");
        drop(ticket);
        let ticket = stage.claim(&request).expect("second");
        let kept = ticket
            .step("a", || Ok::<_, std::io::Error>(2))
            .expect("known");
        stage.note(kept);
        ticket.complete(&kept).expect("completes");
        drop(ticket);
        stage.claim(&request);
    },
    |stage| {
        let twin = |id| {
            request(id)
                .payload(&7)
                .expect("a payload")
                .twin_window(seconds(60))
                .on_twin(semel::OnTwin::Refuse)
        };
        let first = stage.claim(&twin("t1")).expect("first");
        first.complete("first").expect("completes");
        drop(first);
        stage.claim(&twin("t2"));
        stage.clock.advance(seconds(60));
        drop(stage.claim(&twin("t3")));
    },
    |stage| {
        let value = semel::Confirmation::Done(Value::of("asked").expect("a value"));
        drop(stage.claim(&request("ask").in_doubt(Policy::Ask)));
        stage.claim(
            &request("ask")
                .in_doubt(Policy::Ask)
                .confirm(|_| semel::Confirmation::Still),
        );
        stage.claim(
            &request("ask")
                .in_doubt(Policy::Ask)
                .confirm(move |_| value.clone()),
        );
    },
    |stage| {
        stage.clock.advance(seconds(1_000));
        let store = stage.store();
        let swept = store.sweep().expect("sweeps");
        let mut left: Vec<_> = store
            .list()
            .map(|info| info.expect("reads"))
            .map(|info| (info.id, info.state))
            .collect();
        left.sort();
        stage.note((swept > 0, left));
    },
];

#[test]
fn every_scene_plays_the_same_in_memory_on_disk_and_over_restarts() {
    let (_one, kept) = directory();
    let (_two, reopened) = directory();
    let mut scripts = Vec::new();
    for mut stage in [
        Stage::new("memory:", false),
        Stage::new(&kept, false),
        Stage::new(&reopened, true),
    ] {
        for scene in SCENES {
            scene(&mut stage);
        }
        scripts.push(stage.script);
    }
    assert!(scripts[0].len() > 30, "{:?}", scripts[0]);
    for other in &scripts[1..] {
        for (at, (memory, disk)) in scripts[0].iter().zip(other).enumerate() {
            assert_eq!(memory, disk, "line {at}");
        }
        assert_eq!(scripts[0].len(), other.len());
    }
}
