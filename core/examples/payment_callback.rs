//! The payment callback of a shop: all of it in one step, or none of it.
//!
//! ```text
//! payment_callback DIR ORDER PAY_NO AMOUNT [--stop-at STEP]
//! ```
//!
//! The provider calls back until it hears "ok", often more than once, sometimes twice at the same time. One callback makes
//! the payment number unique, moves the order from WAIT_PAY to PAID, books the money, puts a message into the outbox, and
//! keeps the answer for the next callback. `--stop-at` waits at a step until the process is killed: whatever the step, the
//! next callback finds all or nothing.

use std::io::Write;

use semel::{Claim, Edges, Fire, Insert, Policy, Post, Request, Store};

/// The steps at which a crash can be tried.
const STEPS: [&str; 8] = [
    "opened",
    "claimed",
    "unique",
    "fired",
    "posted",
    "emitted",
    "completed",
    "committed",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (dir, order, pay_no, amount, stop_at) = match &args[..] {
        [dir, order, pay_no, amount] => (dir, order, pay_no, amount, None),
        [dir, order, pay_no, amount, flag, step] if flag == "--stop-at" => {
            (dir, order, pay_no, amount, Some(step.as_str()))
        }
        _ => return Err("usage: payment_callback DIR ORDER PAY_NO AMOUNT [--stop-at STEP]".into()),
    };
    if stop_at.is_some_and(|step| !STEPS.contains(&step)) {
        return Err(format!("--stop-at takes one of {STEPS:?}").into());
    }
    let amount: i64 = amount.parse()?;
    let at = |step: &str| stop_here(step, stop_at);

    let store = Store::open(dir)?;
    let machine = Edges::new(
        "order",
        &[
            ("WAIT_PAY", &["PAID", "CANCELLED"]),
            ("PAID", &["REFUNDED"]),
        ],
        "WAIT_PAY",
    )?;
    store.transaction(|tx| tx.machine(&machine).create(order))?;
    at("opened");

    // All effects are in the store, so that an attempt that died may safely run again.
    let request = Request::new("payment.callback", pay_no.as_str())
        .payload(&(order, amount))?
        .in_doubt(Policy::Rerun)
        .lease(std::time::Duration::from_millis(200));
    let answer: String = match store.claim(&request)? {
        Claim::Execute(ticket) => {
            at("claimed");
            let answer = store.transaction(|tx| {
                if let Insert::Conflict(other) = tx.unique("payments").insert(pay_no, order)? {
                    return refuse(
                        tx,
                        &ticket,
                        format!("payment {pay_no} belongs to order {other}"),
                    );
                }
                at("unique");
                match tx
                    .machine(&machine)
                    .fire(order, "WAIT_PAY", "PAID", pay_no)?
                {
                    Fire::Applied | Fire::Already => {}
                    Fire::Taken(first) => {
                        return refuse(
                            tx,
                            &ticket,
                            format!("order {order} was paid by {first}; refund {pay_no}"),
                        );
                    }
                    Fire::Illegal(state) => {
                        return refuse(
                            tx,
                            &ticket,
                            format!("order {order} is {state:?}; refund {pay_no}"),
                        );
                    }
                }
                at("fired");
                if let Post::Mismatch(_) | Post::Insufficient(_) =
                    tx.ledger("shop").post("revenue", pay_no, amount, None)?
                {
                    return refuse(
                        tx,
                        &ticket,
                        format!("payment {pay_no} was booked with another amount"),
                    );
                }
                at("posted");
                tx.emit("orders.paid", order, order)?;
                at("emitted");
                let answer = format!("ok: order {order} is paid by {pay_no}");
                tx.complete(&ticket, &answer)?;
                at("completed");
                Ok::<_, semel::Error>(answer)
            })?;
            at("committed");
            answer
        }
        Claim::Replay(replay) => replay.decode()?,
        other => return Err(format!("not now: {}", other.name()).into()),
    };
    println!("{answer}");
    Ok(())
}

/// An answer that is final, too: the provider must not be let to call for ever.
fn refuse(
    tx: &mut semel::Tx<'_>,
    ticket: &semel::Ticket,
    answer: String,
) -> Result<String, semel::Error> {
    tx.complete(ticket, &answer)?;
    Ok(answer)
}

/// Says where it is, and waits there to be killed when it was told to.
fn stop_here(step: &str, stop_at: Option<&str>) {
    if stop_at == Some(step) {
        println!("at {step}");
        let _ = std::io::stdout().flush();
        loop {
            std::thread::park();
        }
    }
}
