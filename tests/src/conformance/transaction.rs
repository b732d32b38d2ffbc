//! Steps within a transaction; alone, each is a transaction of its own.

use semel::{Error, ErrorKind, Result, Tx};
use serde_json::{Value as Json, json};

use super::player::check;
use super::schemes::retain;
use super::{Player, Step, answer};

/// Plays the inner steps in one transaction; `fail` rolls it back.
pub(super) fn play(player: &mut Player<'_>, step: &Step) -> Result<Json> {
    let inner = step.inner("steps");
    let fails = step.arguments.contains_key("fail");
    let store = player.store();
    let done = store.transaction(|tx| {
        steps(player, tx, &inner)?;
        match fails {
            true => Err(Error::new(ErrorKind::Unsupported, "rolled back as told")),
            false => Ok(()),
        }
    });
    match done {
        Err(error) if fails && error.kind() == ErrorKind::Unsupported => {
            Ok(json!({ "answer": "rolled_back" }))
        }
        done => done.map(|()| json!({ "answer": "committed" })),
    }
}

/// Plays steps, each of which may expect an answer. An error that was expected goes on all the same, to the end.
pub(super) fn steps(player: &Player<'_>, tx: &mut Tx<'_>, inner: &[Step]) -> Result<()> {
    for step in inner {
        let told = within(player, tx, &step.verb, step)
            .unwrap_or_else(|| panic!("{:?} has no place in a transaction", step.verb));
        let shown = told.as_ref().map_or_else(answer::error, Json::clone);
        check(step, &shown, "within a transaction");
        told?;
    }
    Ok(())
}

/// A step that is a transaction of its own; `None` when the verb has no place in one.
pub(super) fn single(player: &Player<'_>, verb: &str, step: &Step) -> Option<Result<Json>> {
    let known = std::cell::Cell::new(true);
    let told = player.store().transaction(|tx| {
        within(player, tx, verb, step).unwrap_or_else(|| {
            known.set(false);
            Ok(Json::Null)
        })
    });
    known.get().then_some(told)
}

fn within(player: &Player<'_>, tx: &mut Tx<'_>, verb: &str, step: &Step) -> Option<Result<Json>> {
    Some(match verb {
        "unique.insert" => {
            let index = tx.unique(step.text("index")).retain(retain(step));
            index
                .insert(step.text("id"), &step.json("row"))
                .map(|told| answer::insert(&told))
        }
        "machine.create" => {
            let edges = &player.machines[step.text("machine")];
            tx.machine(edges)
                .create(step.text("id"))
                .map(|state| json!({ "state": state }))
        }
        "machine.fire" => {
            let edges = &player.machines[step.text("machine")];
            let (from, to) = (step.text("from"), step.text("to"));
            tx.machine(edges)
                .fire(step.text("id"), from, to, step.text("event"))
                .map(|told| answer::fire(&told))
        }
        "machine.state" => {
            let edges = &player.machines[step.text("machine")];
            tx.machine(edges)
                .state(step.text("id"))
                .map(|state| json!({ "state": state }))
        }
        "table.put" => {
            let table = tx.table(step.text("table")).retain(retain(step));
            table
                .put(step.text("id"), &step.json("value"))
                .map(|_| json!({}))
        }
        "table.get" => {
            let row = tx.table(step.text("table")).get::<Json>(step.text("id"));
            row.map(|row| json!({ "value": answer::value(&row) }))
        }
        "table.delete" => {
            let there = tx.table(step.text("table")).delete(step.text("id"));
            there.map(|there| json!({ "there": there }))
        }
        "ledger.post" => {
            let ledger = tx.ledger(step.text("ledger")).retain(retain(step));
            let delta = step.maybe_number("delta").expect("post has a delta");
            ledger
                .post(
                    step.text("account"),
                    step.text("biz_no"),
                    delta,
                    step.maybe_number("floor"),
                )
                .map(answer::post)
        }
        "ledger.balance" => {
            let balance = tx.ledger(step.text("ledger")).balance(step.text("account"));
            balance.map(|balance| json!({ "balance": balance }))
        }
        "mark" => tx
            .mark(step.text("consumer"), step.text("message"))
            .map(|first| json!({ "first": first })),
        "emit" => tx
            .emit(step.text("topic"), step.text("id"), &step.json("message"))
            .map(|()| json!({})),
        "tx.complete" => {
            let ticket = &player.tickets[step.text("ticket")];
            tx.complete(ticket, &step.json("value")).map(|()| json!({}))
        }
        _ => return None,
    })
}
