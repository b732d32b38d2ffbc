//! What happens once: tokens, messages, periodic work.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use proptest::prelude::*;
use semel::{
    Claim, Consumed, Error, ErrorKind, Redeem, Refusal, Request, Scope, Store, TokenClaim,
};

use super::Plain;

/// For how long a claim on a token, and the mark of a message, are kept.
const RETAIN: Duration = Duration::from_secs(5);
const RETAIN_US: u64 = 5_000_000;

#[derive(Default)]
pub(super) struct Tokens {
    issued: Vec<Issued>,
    /// When the claim of an order was completed.
    claims: BTreeMap<u8, u64>,
}

struct Issued {
    token: String,
    purpose: u8,
    scoped: bool,
    expires_us: u64,
    kept_until_us: u64,
    spent: Option<Spent>,
}

#[derive(Clone, Copy, PartialEq)]
enum Spent {
    OnNothing,
    OnOrder(u8),
}

#[derive(Clone, Debug)]
pub(super) enum OfTokens {
    Issue {
        purpose: u8,
        scoped: bool,
        ttl_s: u64,
    },
    Redeem {
        token: usize,
        purpose: u8,
        scoped: bool,
        abort: bool,
    },
    Claim {
        token: usize,
        purpose: u8,
        scoped: bool,
        order: u8,
    },
}

fn scope(scoped: bool) -> Scope<'static> {
    match scoped {
        true => "anna".into(),
        false => Scope::Global,
    }
}

impl Tokens {
    /// What spending a token comes to, and whether it is spent by that.
    fn spend(
        &mut self,
        token: usize,
        purpose: u8,
        scoped: bool,
        on: Spent,
        now_us: u64,
    ) -> Result<&mut Issued, Refusal> {
        let count = self.issued.len();
        let known = &mut self.issued[count - 1 - token % count];
        match known.spent {
            _ if now_us >= known.kept_until_us => Err(Refusal::Unknown),
            _ if known.scoped != scoped => Err(Refusal::OtherScope),
            _ if known.purpose != purpose => Err(Refusal::OtherPurpose),
            Some(spent) if spent == on && on != Spent::OnNothing => Ok(known),
            Some(_) => Err(Refusal::Used),
            None if now_us >= known.expires_us => Err(Refusal::Expired),
            None => Ok(known),
        }
    }
}

impl Plain for Tokens {
    type Op = OfTokens;

    fn op() -> BoxedStrategy<OfTokens> {
        let purpose = prop_oneof![6 => Just(0_u8), 1 => Just(1)];
        let scoped = prop::bool::weighted(0.2);
        let token = prop_oneof![3 => Just(0_usize), 1 => 0..4_usize];
        prop_oneof![
            2 => (purpose.clone(), scoped, 1..4_u64).prop_map(|(purpose, scoped, ttl_s)| OfTokens::Issue { purpose, scoped, ttl_s }),
            3 => (token.clone(), purpose.clone(), scoped, prop::bool::weighted(0.3)).prop_map(|(token, purpose, scoped, abort)| OfTokens::Redeem { token, purpose, scoped, abort }),
            3 => (token, purpose, scoped, 0..3_u8).prop_map(|(token, purpose, scoped, order)| OfTokens::Claim { token, purpose, scoped, order }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfTokens) {
        let text = |known: &Self, token: usize| {
            let count = known.issued.len();
            (count > 0).then(|| known.issued[count - 1 - token % count].token.clone())
        };
        match *op {
            OfTokens::Issue {
                purpose,
                scoped,
                ttl_s,
            } => {
                let ttl = Duration::from_secs(ttl_s);
                let tokens = store.tokens().scope(scope(scoped));
                let token = tokens.issue(&purpose.to_string(), ttl).expect("issues");
                assert!(self.issued.iter().all(|known| known.token != token));
                self.issued.push(Issued {
                    token,
                    purpose,
                    scoped,
                    expires_us: now_us + ttl_s * 1_000_000,
                    kept_until_us: now_us + 2 * ttl_s * 1_000_000,
                    spent: None,
                });
            }
            OfTokens::Redeem {
                token,
                purpose,
                scoped,
                abort,
            } => {
                let Some(text) = text(self, token) else {
                    return;
                };
                let mut given = None;
                let ended = store.transaction(|tx| {
                    let redeemed = tx
                        .tokens(&scope(scoped))
                        .redeem(&text, &purpose.to_string());
                    given = Some(redeemed?);
                    match abort {
                        true => Err(Error::new(ErrorKind::Unsupported, "rolled back")),
                        false => Ok(()),
                    }
                });
                assert_eq!(ended.is_err(), abort);
                let expected = match self.spend(token, purpose, scoped, Spent::OnNothing, now_us) {
                    Err(refusal) => Redeem::Refused(refusal),
                    Ok(known) => {
                        if !abort {
                            known.spent = Some(Spent::OnNothing);
                        }
                        Redeem::Redeemed
                    }
                };
                assert_eq!(given, Some(expected));
            }
            OfTokens::Claim {
                token,
                purpose,
                scoped,
                order,
            } => {
                let Some(text) = text(self, token) else {
                    return;
                };
                let id = order.to_string();
                let request = Request::new("order", id.as_str()).retain(RETAIN);
                let tokens = store.tokens().scope(scope(scoped));
                let given = tokens.claim(&text, &purpose.to_string(), &request);
                let on = Spent::OnOrder(order);
                match (
                    self.spend(token, purpose, scoped, on, now_us),
                    given.expect("answers"),
                ) {
                    (Err(refusal), TokenClaim::Refused(told)) => assert_eq!(told, refusal),
                    (Ok(known), TokenClaim::Claim(claim)) => {
                        // Kept for a day of work beside its own time, which no test lasts for.
                        (known.spent, known.kept_until_us) = (Some(on), u64::MAX);
                        let done = self.claims.get(&order).copied();
                        match (done.filter(|done_us| now_us < done_us + RETAIN_US), claim) {
                            (Some(done_us), Claim::Replay(replay)) => {
                                assert_eq!(replay.decode::<u64>().expect("a number"), done_us);
                            }
                            (None, Claim::Execute(ticket)) => {
                                ticket.complete(&now_us).expect("completes");
                                self.claims.insert(order, now_us);
                            }
                            (done, claim) => panic!("{done:?}: {claim:?}"),
                        }
                    }
                    (_, given) => panic!("{given:?}"),
                }
            }
        }
    }
}

const ATTEMPTS: u32 = 3;

#[derive(Default)]
pub(super) struct Inbox {
    messages: BTreeMap<u8, Message>,
    marks: BTreeMap<u8, u64>,
    handled: i64,
}

/// How far a message is, and since when.
#[derive(Clone, Copy)]
enum Message {
    Tried {
        attempts: u32,
        at_us: u64,
    },
    /// Its last worker has said nothing, and no attempt is left.
    Exhausted,
    Done {
        at_us: u64,
    },
    Rejected {
        at_us: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OfInbox {
    Consume { message: u8, end: End },
    Mark { message: u8, abort: bool },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Good,
    Error,
    Panic,
}

impl Inbox {
    fn consume(&mut self, store: &Store, now_us: u64, message: u8, end: End) {
        let known = self
            .messages
            .get(&message)
            .copied()
            .filter(|known| match known {
                Message::Exhausted => true,
                Message::Tried { at_us, .. }
                | Message::Done { at_us }
                | Message::Rejected { at_us } => now_us < at_us + RETAIN_US,
            });
        let id = message.to_string();
        let mut runs = 0;
        let given = catch_unwind(AssertUnwindSafe(|| {
            let consumed = store
                .message("billing", &id)
                .max_attempts(ATTEMPTS)
                .retain(RETAIN);
            consumed.consume(|tx| {
                runs += 1;
                let number = format!("{id}-{now_us}-{}", tx.ledger("effects").balance("all")?);
                tx.ledger("effects").post("all", &number, 1, None)?;
                match end {
                    End::Good => Ok(()),
                    End::Error => Err(Error::new(ErrorKind::Unsupported, "the work's")),
                    End::Panic => resume_unwind(Box::new("in the work")),
                }
            })
        }));
        let attempts = match known {
            Some(Message::Done { .. }) => {
                assert!(matches!(given, Ok(Ok(Consumed::Duplicate))) && runs == 0);
                return;
            }
            Some(Message::Rejected { .. } | Message::Exhausted) => {
                assert!(matches!(given, Ok(Ok(Consumed::Rejected(_)))) && runs == 0);
                if let Some(Message::Exhausted) = known {
                    self.messages
                        .insert(message, Message::Rejected { at_us: now_us });
                }
                return;
            }
            Some(Message::Tried { attempts, .. }) => attempts + 1,
            None => 1,
        };
        assert_eq!(runs, 1, "attempt {attempts}");
        let at_us = now_us;
        let now = match (end, given) {
            (End::Good, Ok(Ok(Consumed::Done(())))) => {
                self.handled += 1;
                Message::Done { at_us }
            }
            (End::Error, Ok(Err(error))) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                match attempts == ATTEMPTS {
                    true => Message::Rejected { at_us },
                    false => Message::Tried { attempts, at_us },
                }
            }
            (End::Panic, Err(_)) if attempts == ATTEMPTS => Message::Exhausted,
            (End::Panic, Err(_)) => Message::Tried { attempts, at_us },
            (end, given) => panic!("{end:?}: {given:?}"),
        };
        self.messages.insert(message, now);
    }
}

impl Plain for Inbox {
    type Op = OfInbox;

    fn op() -> BoxedStrategy<OfInbox> {
        let end = prop_oneof![2 => Just(End::Good), 3 => Just(End::Error), 2 => Just(End::Panic)];
        prop_oneof![
            4 => (0..2_u8, end).prop_map(|(message, end)| OfInbox::Consume { message, end }),
            1 => (0..2_u8, prop::bool::weighted(0.3)).prop_map(|(message, abort)| OfInbox::Mark { message, abort }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfInbox) {
        match *op {
            OfInbox::Consume { message, end } => self.consume(store, now_us, message, end),
            OfInbox::Mark { message, abort } => {
                self.marks.retain(|_, at_us| now_us < *at_us + RETAIN_US);
                let mut first = None;
                let ended = store.transaction(|tx| {
                    first = Some(tx.mark_for("billing", &message.to_string(), RETAIN)?);
                    match abort {
                        true => Err(Error::new(ErrorKind::Unsupported, "rolled back")),
                        false => Ok(()),
                    }
                });
                assert_eq!(ended.is_err(), abort);
                assert_eq!(first, Some(!self.marks.contains_key(&message)));
                if !abort {
                    self.marks.entry(message).or_insert(now_us);
                }
            }
        }
        let told = store.ledger("effects").balance("all");
        assert_eq!(
            told.expect("reads"),
            self.handled,
            "each message that is done, once"
        );
    }
}

#[derive(Default)]
pub(super) struct Ticks(Option<u64>);

impl Plain for Ticks {
    type Op = u64;

    fn op() -> BoxedStrategy<u64> {
        prop_oneof![Just(1_000), Just(700), Just(3_000), Just(60_000), Just(10)].boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, every_ms: &u64) {
        let every_us = every_ms * 1_000;
        let begin_us = |us: u64| us / every_us * every_us;
        let due = self.0.is_none_or(|fired_us| {
            begin_us(now_us) > fired_us && (now_us - fired_us) * 10 >= every_us
        });
        let tick = store.tick_period("report", Duration::from_millis(*every_ms));
        let tick = tick.expect("answers");
        assert_eq!(tick.due, due);
        if due {
            self.0 = Some(now_us);
        }
        assert_eq!(Some(tick.period_us), self.0.map(begin_us));
    }
}
