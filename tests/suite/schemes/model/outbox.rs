//! An outbox: messages in a queue, the first of which may hold up the others.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use semel::{Error, ErrorKind, Relayed, Store};

use super::Plain;

#[derive(Default)]
pub(super) struct Topic {
    waiting: VecDeque<Message>,
    dead: VecDeque<u8>,
}

#[derive(Clone)]
struct Message {
    id: u8,
    value: u8,
    failures: u32,
    not_before_us: u64,
}

#[derive(Clone, Debug)]
pub(super) enum OfTopic {
    /// Messages that are emitted in one transaction, which may be rolled back.
    Emit {
        messages: Vec<(u8, u8)>,
        abort: bool,
    },
    Relay {
        limit: usize,
        refused: BTreeSet<u8>,
        dead_after: Option<u32>,
    },
}

impl Topic {
    /// What relaying comes to, and what is sent.
    fn relay(
        &mut self,
        now_us: u64,
        limit: usize,
        refused: &BTreeSet<u8>,
        dead_after: Option<u32>,
    ) -> (Relayed, Vec<u8>) {
        let (mut relayed, mut sent) = (Relayed::default(), Vec::new());
        for _ in 0..limit.min(self.waiting.len()) {
            let message = &mut self.waiting[0];
            let name = format!("m{}", message.id);
            if now_us < message.not_before_us {
                relayed.blocked = Some((name, message.failures, "refused".to_owned()));
                break;
            }
            if !refused.contains(&message.id) {
                sent.push(message.id);
                relayed.sent += 1;
                self.waiting.pop_front();
                continue;
            }
            message.failures += 1;
            if dead_after.is_some_and(|most| message.failures >= most) {
                let id = message.id;
                self.dead.retain(|dead| *dead != id);
                self.dead.push_back(id);
                self.waiting.pop_front();
                relayed.dead += 1;
                continue;
            }
            // 100 ms, then twice as long each time, up to a minute.
            let pause_us = (100_000 << (message.failures - 1).min(20)).min(60_000_000_u64);
            message.not_before_us = now_us + pause_us;
            relayed.blocked = Some((name, message.failures, "refused".to_owned()));
            break;
        }
        (relayed, sent)
    }
}

impl Plain for Topic {
    type Op = OfTopic;

    fn op() -> BoxedStrategy<OfTopic> {
        let messages =
            prop::collection::vec((0..6_u8, prop_oneof![4 => Just(0_u8), 1 => Just(1)]), 1..4);
        let dead_after = prop_oneof![2 => Just(None), 1 => (1..4_u32).prop_map(Some)];
        prop_oneof![
            3 => (messages, prop::bool::weighted(0.2)).prop_map(|(messages, abort)| OfTopic::Emit { messages, abort }),
            3 => (1..5_usize, prop::collection::btree_set(0..6_u8, 0..4), dead_after).prop_map(|(limit, refused, dead_after)| OfTopic::Relay { limit, refused, dead_after }),
        ]
        .boxed()
    }

    fn play(&mut self, store: &Store, now_us: u64, op: &OfTopic) {
        match op {
            OfTopic::Emit { messages, abort } => {
                let emitted = store.transaction(|tx| {
                    for (id, value) in messages {
                        tx.emit("topic", &format!("m{id}"), value)?;
                    }
                    match abort {
                        true => Err(Error::new(ErrorKind::Unsupported, "rolled back")),
                        false => Ok(()),
                    }
                });
                let mut then = self.waiting.clone();
                let mut expected = Ok(());
                for (id, value) in messages {
                    match then.iter().find(|message| message.id == *id) {
                        Some(known) if known.value == *value => {}
                        Some(_) => {
                            expected = Err(ErrorKind::InvalidInput);
                            break;
                        }
                        None => then.push_back(Message {
                            id: *id,
                            value: *value,
                            failures: 0,
                            not_before_us: 0,
                        }),
                    }
                }
                if expected.is_ok() && *abort {
                    expected = Err(ErrorKind::Unsupported);
                }
                assert_eq!(emitted.map_err(|error| error.kind()), expected);
                if expected.is_ok() {
                    self.waiting = then;
                }
            }
            OfTopic::Relay {
                limit,
                refused,
                dead_after,
            } => {
                let mut sent = Vec::new();
                let outbox = store.outbox("topic").limit(*limit);
                let outbox = match dead_after {
                    Some(failures) => outbox.dead_after(*failures),
                    None => outbox,
                };
                let relayed = outbox.relay(|id, _| {
                    let id: u8 = id[1..].parse().expect("a number");
                    if refused.contains(&id) {
                        return Err("refused");
                    }
                    sent.push(id);
                    Ok(())
                });
                let expected = self.relay(now_us, *limit, refused, *dead_after);
                assert_eq!((relayed.expect("relays"), sent), expected);
            }
        }
        assert_eq!(
            store.outbox("topic").len().expect("counts"),
            self.waiting.len()
        );
        assert_eq!(
            store.outbox("topic.dead").len().expect("counts"),
            self.dead.len()
        );
        let blocked = store.stats().blocked_topics;
        let first = self.waiting.front().map_or(0, |message| message.failures);
        assert_eq!(blocked.get("topic").copied().unwrap_or(0), first);
        assert_eq!(blocked.get("topic.dead"), None);
    }
}
