//! Answers as JSON: `answer` is the word of the contract, and what goes with it has a name of its own.

use semel::{
    Claim, Consumed, Error, Failure, Fire, Insert, Lock, Post, Redeem, Row, TokenClaim, Update,
    Value,
};
use serde_json::{Value as Json, json};

/// An error: its kind alone, since the words may get better.
pub(super) fn error(error: &Error) -> Json {
    json!({ "error": error.kind().name() })
}

fn failure(failure: &Failure) -> Json {
    json!({ "code": failure.code, "message": failure.message })
}

fn decoded(value: &Value) -> Json {
    value.decode().unwrap_or(Json::Null)
}

pub(super) fn claim(claim: &Claim) -> Json {
    let mut told = json!({ "answer": claim.name(), "replayed": claim.replayed() });
    match claim {
        Claim::Execute(ticket) => {
            told["attempt"] = json!(ticket.attempt());
            told["takeover"] = json!(ticket.is_takeover());
        }
        Claim::Replay(replay) => {
            told["attempt"] = json!(replay.attempt);
            told["value"] = decoded(&replay.value);
        }
        Claim::Failed(failed) => {
            told["attempt"] = json!(failed.attempt);
            told["failure"] = failure(&failed.failure);
        }
        Claim::Busy(busy) => {
            told["attempt"] = json!(busy.attempt);
            told["holder"] = json!(busy.holder);
        }
        Claim::Mismatch(mismatch) => told["fields"] = json!(mismatch.fields),
        Claim::InDoubt(doubt) => told["attempt"] = json!(doubt.attempt),
        Claim::Gone(gone) => told["attempt"] = json!(gone.attempt),
        Claim::Twin(twin) => told["first_id"] = json!(twin.first_id),
    }
    told
}

pub(super) fn insert(insert: &Insert<Json>) -> Json {
    match insert {
        Insert::Inserted => json!({ "answer": insert.name() }),
        Insert::Exists(row) | Insert::Conflict(row) => {
            json!({ "answer": insert.name(), "row": row })
        }
    }
}

pub(super) fn redeem(redeem: Redeem) -> Json {
    match redeem {
        Redeem::Redeemed => json!({ "answer": "redeemed" }),
        Redeem::Refused(refusal) => json!({ "answer": "refused", "reason": refusal.name() }),
    }
}

pub(super) fn token_claim(told: &TokenClaim) -> Json {
    match told {
        TokenClaim::Claim(told) => claim(told),
        TokenClaim::Refused(refusal) => redeem(Redeem::Refused(*refusal)),
    }
}

pub(super) fn fire(fire: &Fire) -> Json {
    match fire {
        Fire::Applied | Fire::Already => json!({ "answer": fire.name() }),
        Fire::Taken(event) => json!({ "answer": fire.name(), "event": event }),
        Fire::Illegal(state) => json!({ "answer": fire.name(), "state": state }),
    }
}

pub(super) fn update(update: &Update<Json>) -> Json {
    match update {
        Update::Updated(row) => json!({ "answer": update.name(), "value": row.value }),
        Update::Already(event) => json!({ "answer": update.name(), "event": event }),
        Update::Stale(row) => json!({ "answer": update.name(), "value": value(row) }),
    }
}

/// What a row holds; null when there is none.
pub(super) fn value(row: &Option<Row<Json>>) -> Json {
    row.as_ref().map_or(Json::Null, |row| row.value.clone())
}

pub(super) fn post(post: Post) -> Json {
    match post {
        Post::Posted(balance) | Post::AlreadyPosted(balance) | Post::Insufficient(balance) => {
            json!({ "answer": post.name(), "balance": balance })
        }
        Post::Mismatch(delta) => json!({ "answer": post.name(), "delta": delta }),
    }
}

pub(super) fn lock(lock: &Lock) -> Json {
    match lock {
        Lock::Held(_) => json!({ "answer": "held" }),
        Lock::Busy(busy) => json!({ "answer": "busy", "holder": busy.holder }),
    }
}

pub(super) fn consumed(consumed: &Consumed<()>) -> Json {
    let mut told = json!({ "answer": consumed.name() });
    if let Consumed::Rejected(why) = consumed {
        told["failure"] = failure(why);
    }
    told
}
