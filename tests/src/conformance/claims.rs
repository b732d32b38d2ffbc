//! The verbs of a claim.

use semel::{
    Claim, Failure, Forgotten, Identity, Lease, OnTwin, Policy, Request, Resolution, Resolved,
    Result, Retain, Value,
};
use serde_json::{Value as Json, json};

use super::{Player, Step, answer};

/// The answer to a step; `None` when the verb is not one of these.
pub(super) fn step(player: &mut Player<'_>, verb: &str, step: &Step) -> Option<Result<Json>> {
    Some(match verb {
        "claim" => claim(player, step),
        "complete" => ticket(player, step, |ticket| ticket.complete(&step.json("value"))),
        "complete_without_result" => ticket(player, step, semel::Ticket::complete_without_result),
        "fail" => ticket(player, step, |ticket| {
            ticket.fail(Failure::new(
                step.text("code"),
                step.maybe_text("message").unwrap_or(""),
            ))
        }),
        "release" => ticket(player, step, semel::Ticket::release),
        "doubt" => ticket(player, step, |ticket| ticket.doubt(step.text("why"))),
        "renew" => ticket(player, step, semel::Ticket::renew),
        "drop" => {
            player.tickets.remove(step.text("ticket"));
            Ok(json!({}))
        }
        "resolve" => resolve(player, step),
        "forget" => player.store().forget(&identity(step)).map(|told| {
            json!({ "answer": match told {
                Forgotten::Forgotten => "forgotten",
                Forgotten::Absent => "absent",
                Forgotten::Busy => "busy",
            } })
        }),
        "lookup" => player
            .store()
            .lookup(&identity(step))
            .map(|info| match info {
                Some(info) => json!({ "state": info.state, "attempt": info.attempt }),
                None => json!({ "state": "absent" }),
            }),
        _ => return None,
    })
}

fn claim(player: &mut Player<'_>, step: &Step) -> Result<Json> {
    let told = player.store().claim(&request(step)?)?;
    let shown = answer::claim(&told);
    keep(player, step, told);
    Ok(shown)
}

/// Keeps the ticket of an execution under the name that the step gives.
pub(super) fn keep(player: &mut Player<'_>, step: &Step, told: Claim) {
    if let Claim::Execute(ticket) = told {
        player
            .tickets
            .insert(step.text("ticket").to_owned(), ticket);
    }
}

fn ticket(
    player: &Player<'_>,
    step: &Step,
    end: impl FnOnce(&semel::Ticket) -> Result<()>,
) -> Result<Json> {
    let ticket = player
        .tickets
        .get(step.text("ticket"))
        .expect("a ticket that was given");
    end(ticket).map(|()| json!({}))
}

fn identity(step: &Step) -> Identity<'_> {
    let identity = Identity::new(step.text("operation"), step.text("id"));
    match step.maybe_text("scope") {
        Some(scope) => identity.scope(scope),
        None => identity,
    }
}

/// The request of a step. Times are milliseconds; `never` and `forever` are words.
pub(super) fn request(step: &Step) -> Result<Request<'_>> {
    let mut request = Request::new(step.text("operation"), step.text("id"));
    if let Some(scope) = step.maybe_text("scope") {
        request = request.scope(scope);
    }
    if let Some(payload) = step.arguments.get("payload") {
        request = request.payload_json(payload.to_string().as_bytes())?;
    }
    if let Some(lease) = step.arguments.get("lease") {
        request = match lease.as_str() {
            Some("never") => request.lease(Lease::Never),
            _ => request.lease(step.maybe_ms("lease").expect("a time")),
        };
    }
    if let Some(retain) = step.arguments.get("retain") {
        request = match retain.as_str() {
            Some("forever") => request.retain(Retain::Forever),
            _ => request.retain(step.maybe_ms("retain").expect("a time")),
        };
    }
    if let Some(remember) = step.maybe_ms("remember") {
        request = request.remember(remember);
    }
    if let Some(window) = step.maybe_ms("retry_window") {
        request = request.retry_window(window);
    }
    if let Some(window) = step.maybe_ms("twin_window") {
        request = request.twin_window(window);
    }
    if step.maybe_text("on_twin") == Some("refuse") {
        request = request.on_twin(OnTwin::Refuse);
    }
    if let Some(attempts) = step.maybe_number("max_attempts") {
        request = request.max_attempts(u32::try_from(attempts).expect("a count"));
    }
    if let Some(holder) = step.maybe_text("holder") {
        request = request.holder(holder);
    }
    if step.maybe_text("renew") == Some("off") {
        request = request.renew(semel::Renew::Off);
    }
    Ok(match step.maybe_text("in_doubt") {
        Some("rerun") => request.in_doubt(Policy::Rerun),
        Some("hold") => request.in_doubt(Policy::Hold),
        Some(other) => panic!("in_doubt is {other:?}"),
        None => request,
    })
}

fn resolve(player: &Player<'_>, step: &Step) -> Result<Json> {
    let resolution = match step.maybe_text("to") {
        Some("rerun") => Resolution::Rerun,
        Some("executed") => Resolution::Executed,
        Some("error") => Resolution::Failure(Failure::new(step.text("code"), "")),
        _ => Resolution::Value(Value::of(&step.json("value"))?),
    };
    player
        .store()
        .resolve(&identity(step), resolution)
        .map(|told| {
            json!({ "answer": match told {
            Resolved::Resolved => "resolved",
            Resolved::NotInDoubt => "not_in_doubt",
            Resolved::Absent => "absent",
        } })
        })
}
