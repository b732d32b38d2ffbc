//! The verbs of the other schemes, each by the name of its scheme.

use std::time::Duration;

use semel::{Edges, Error, ErrorKind, Lock, Result, Retain};
use serde_json::{Value as Json, json};

use super::{Player, Step, answer, claims, transaction};

/// A machine as a scenario declares it.
pub(super) type Declared = Edges;

/// The answer to a step; `None` when the verb is not one of these.
pub(super) fn step(player: &mut Player<'_>, verb: &str, step: &Step) -> Option<Result<Json>> {
    let store = player.store();
    Some(match verb {
        "unique.get" => store
            .unique(step.text("index"))
            .get::<Json>(step.text("id"))
            .map(|row| json!({ "row": row })),
        "token.issue" => {
            let tokens = store.tokens();
            let tokens = step
                .maybe_text("scope")
                .map_or(tokens.clone(), |scope| tokens.scope(scope));
            tokens
                .issue(
                    step.text("purpose"),
                    step.maybe_ms("ttl").unwrap_or_default(),
                )
                .map(|token| {
                    player.tokens.insert(step.text("token").to_owned(), token);
                    json!({})
                })
        }
        "token.redeem" | "token.claim" => token(player, verb, step),
        "machine.declare" => declare(step).map(|edges| {
            player
                .machines
                .insert(step.text("machine").to_owned(), edges);
            json!({})
        }),
        "machine.history" => {
            let edges = player.machines[step.text("machine")].clone();
            store.transaction(|tx| tx.machine(&edges).history(step.text("id"))).map(|steps| {
                json!({ "events": steps.into_iter().map(|step| step.event).collect::<Vec<_>>() })
            })
        }
        "table.read" => {
            // Keeps the row under a name, for updates that are made from it.
            store
                .table(step.text("table"))
                .get::<Json>(step.text("id"))
                .map(|row| {
                    let told = json!({ "value": answer::value(&row) });
                    player
                        .rows
                        .extend(row.map(|row| (step.text("row").to_owned(), row)));
                    told
                })
        }
        "table.update" => {
            let row = player
                .rows
                .get(step.text("row"))
                .expect("a row that was read");
            let table = store.table(step.text("table"));
            table
                .update(row, &step.json("value"), step.maybe_text("event"))
                .map(|told| answer::update(&told))
        }
        "rows.lock" => rows(player, step),
        "rows.set" => player
            .locked
            .as_mut()
            .expect("rows are locked")
            .set(step.text("id"), step.json("value"))
            .map(|()| json!({})),
        "rows.get" => player
            .locked
            .as_ref()
            .expect("rows are locked")
            .get(step.text("id"))
            .map(|value| json!({ "value": value })),
        "rows.commit" => player
            .locked
            .take()
            .expect("rows are locked")
            .commit()
            .map(|()| json!({})),
        "rows.drop" => {
            player.locked = None;
            Ok(json!({}))
        }
        "elsewhere" => elsewhere(player, step),
        "lock.acquire" => lock(player, step),
        "lock.release" => player
            .locks
            .remove(step.text("lock"))
            .expect("a lock that is held")
            .release()
            .map(|()| json!({})),
        "lock.renew" => player.locks[step.text("lock")].renew().map(|()| json!({})),
        "consume" => consume(player, step),
        "relay" => relay(player, step),
        "tick" => store
            .tick(
                step.text("name"),
                step.maybe_ms("every").unwrap_or_default(),
            )
            .map(|due| json!({ "due": due })),
        "segment" => store
            .ids()
            .segment(step.text("sequence"))
            .map(|number| json!({ "number": number })),
        _ => return transaction::single(player, verb, step),
    })
}

fn token(player: &mut Player<'_>, verb: &str, step: &Step) -> Result<Json> {
    let store = player.store();
    let tokens = store.tokens();
    let tokens = step
        .maybe_text("scope_of_token")
        .map_or(tokens.clone(), |scope| tokens.scope(scope));
    let name = step.text("token");
    let token = player
        .tokens
        .get(name)
        .cloned()
        .unwrap_or_else(|| name.to_owned());
    if verb == "token.redeem" {
        return tokens
            .redeem(&token, step.text("purpose"))
            .map(answer::redeem);
    }
    let told = tokens.claim(&token, step.text("purpose"), &claims::request(step)?)?;
    let shown = answer::token_claim(&told);
    if let semel::TokenClaim::Claim(claim) = told {
        claims::keep(player, step, claim);
    }
    Ok(shown)
}

fn declare(step: &Step) -> Result<Edges> {
    let edges: Vec<(String, Vec<String>)> =
        serde_json::from_value(step.json("edges")).expect("edges");
    let targets: Vec<Vec<&str>> = edges
        .iter()
        .map(|(_, to)| to.iter().map(String::as_str).collect())
        .collect();
    let edges: Vec<(&str, &[&str])> = edges
        .iter()
        .zip(&targets)
        .map(|((from, _), to)| (from.as_str(), to.as_slice()))
        .collect();
    Edges::new(step.text("machine"), &edges, step.text("initial"))
}

fn rows(player: &mut Player<'_>, step: &Step) -> Result<Json> {
    let ids: Vec<String> = serde_json::from_value(step.json("ids")).expect("ids");
    let store = player.store();
    let request = store
        .lock_rows(step.text("table"), &ids)
        .timeout(step.maybe_ms("timeout").unwrap_or_default());
    player.locked = Some(request.lock::<Json>()?);
    Ok(json!({ "answer": "locked" }))
}

/// Steps of somebody else, on a thread of his own.
fn elsewhere(player: &Player<'_>, step: &Step) -> Result<Json> {
    let store = player.store();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| match step.text("verb") {
            "table.put" => {
                let table = store
                    .table(step.text("table"))
                    .timeout(step.maybe_ms("timeout").unwrap_or_default());
                table
                    .put(step.text("id"), &step.json("value"))
                    .map(|_| json!({}))
            }
            "rows.lock" => {
                let request = store.lock_rows(step.text("table"), &[step.text("id")]);
                let request = request.timeout(step.maybe_ms("timeout").unwrap_or_default());
                request
                    .lock::<Json>()
                    .map(|_| json!({ "answer": "locked" }))
            }
            verb => panic!("{verb:?} is not played elsewhere"),
        });
        other.join().expect("no panic")
    })
}

fn lock(player: &mut Player<'_>, step: &Step) -> Result<Json> {
    let store = player.store();
    let mut request = store.lock(step.text("name"));
    if let Some(lease) = step.maybe_ms("lease") {
        request = request.lease(lease);
    }
    if let Some(holder) = step.maybe_text("holder") {
        request = request.holder(holder);
    }
    if step.maybe_text("renew") == Some("off") {
        request = request.renew(semel::Renew::Off);
    }
    let told = request.acquire()?;
    let shown = answer::lock(&told);
    if let Lock::Held(guard) = told {
        player.locks.insert(step.text("lock").to_owned(), guard);
    }
    Ok(shown)
}

/// `work` is what the handling does; `error` is how it ends, if not well.
fn consume(player: &mut Player<'_>, step: &Step) -> Result<Json> {
    let store = player.store();
    let mut message = store.message(step.text("consumer"), step.text("message"));
    if let Some(attempts) = step.maybe_number("max_attempts") {
        message = message.max_attempts(u32::try_from(attempts).expect("a count"));
    }
    if let Some(retain) = step.maybe_ms("retain") {
        message = message.retain(Retain::For(retain));
    }
    let work = if step.arguments.contains_key("work") {
        step.inner("work")
    } else {
        Vec::new()
    };
    let told = message.consume(|tx| {
        transaction::steps(player, tx, &work)?;
        match step.maybe_text("error") {
            Some(error) => Err(Error::new(ErrorKind::Unsupported, error)),
            None => Ok(()),
        }
    })?;
    Ok(answer::consumed(&told))
}

/// `refuse` names the messages that cannot be sent.
fn relay(player: &Player<'_>, step: &Step) -> Result<Json> {
    let refuse: Vec<String> = match step.arguments.get("refuse") {
        Some(refuse) => serde_json::from_value(refuse.clone()).expect("ids"),
        None => Vec::new(),
    };
    let store = player.store();
    let mut outbox = store.outbox(step.text("topic"));
    if let Some(limit) = step.maybe_number("limit") {
        outbox = outbox.limit(usize::try_from(limit).expect("a count"));
    }
    if let Some(failures) = step.maybe_number("dead_after") {
        outbox = outbox.dead_after(u32::try_from(failures).expect("a count"));
    }
    let mut sent = Vec::new();
    let relayed = outbox.relay(|id, _| {
        if refuse.iter().any(|refused| refused == id) {
            return Err("refused");
        }
        sent.push(id.to_owned());
        Ok(())
    })?;
    let blocked = relayed
        .blocked
        .map(|(id, failures, _)| json!({ "id": id, "failures": failures }));
    Ok(json!({ "sent": sent, "dead": relayed.dead, "blocked": blocked }))
}

/// How long something is kept, of a step that says so.
pub(super) fn retain(step: &Step) -> Retain {
    step.maybe_ms("retain")
        .map_or(Retain::Forever, |time: Duration| Retain::For(time))
}
