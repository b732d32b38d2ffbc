//! The calls of a store that another process holds, and of one that this process has come to hold meanwhile.

use std::borrow::Cow;
use std::sync::Arc;

use super::calls;
use super::client::{Client, Told as Heard};
use super::frame::{Head, Kind, Question, Reply};
use super::hub::{Hub, Seat};
use super::remote::Asking;
use crate::backend::{
    Admission, Backend, Commit, Committed, Cursor, Decided, Durability, Facts, Op, Scanned, Seen,
    Turn,
};
use crate::error::Result;
use crate::key::Key;
use crate::lifecycle::{Event, Told, Verb};

impl Hub {
    async fn update_at(
        &self,
        client: &Arc<Client>,
        key: &Key,
        event: &Event,
        turn: Option<Turn>,
        durability: Durability,
    ) -> Result<Decided> {
        let question = Question::Update {
            key: Cow::Borrowed(key.as_bytes()),
            event: Cow::Borrowed(event),
            turn: turn.as_ref().map_or(0, Turn::id),
            durability,
        };
        let frame = Head::frame(Kind::Question, &question)?;
        let claim = match event.verb {
            Verb::Claim(_) | Verb::Confirm { .. } => event.nonce,
            _ => 0,
        };
        match Asking::new(client, frame).claiming(claim).await? {
            Heard::Reply(_, Reply::Decided(decided), reign) => {
                if let Some(turn) = turn {
                    turn.used();
                }
                if durability == Durability::Relaxed {
                    client.wrote_relaxed(reign);
                }
                Ok(decided)
            }
            Heard::Reply(_, reply, _) => Err(reply.unexpected()),
            Heard::Own { again } => {
                let local = self.own_now()?;
                calls::update(local, key, event, None, durability, again).await
            }
            Heard::NoTurn => Err(client
                .check_open()
                .err()
                .unwrap_or_else(|| client.silent(0))),
        }
    }

    async fn withdraw_at(
        &self,
        client: &Arc<Client>,
        key: &Key,
        withdrawal: &Event,
        noted: Option<&Key>,
    ) -> Result<()> {
        let Verb::Withdraw { claimed } = withdrawal.verb else {
            return Ok(());
        };
        let question = Question::Withdraw {
            key: Cow::Borrowed(key.as_bytes()),
            event: Cow::Borrowed(withdrawal),
            noted: noted.map(|noted| Cow::Borrowed(noted.as_bytes())),
        };
        let frame = Head::frame(Kind::Question, &question)?;
        if let Some(frame) = client.after_claim(claimed, frame)
            && let Heard::Own { .. } = Asking::new(client, frame).await?
        {
            self.own_now()?.withdraw(key, withdrawal, noted);
        }
        Ok(())
    }

    async fn commit_at(&self, client: &Arc<Client>, commit: &Commit<'_>) -> Result<Committed> {
        let asked_us = client.clock().now_us();
        let question = Question::Commit {
            asked_us,
            keys: calls::parts(commit),
            nonce: commit.nonce,
            durability: commit.durability,
            admission: commit.admission,
        };
        let frame = Head::frame(Kind::Question, &question)?;
        let claim = match commit.admission {
            Admission::Claim => commit.nonce,
            Admission::Finish => 0,
        };
        match Asking::new(client, frame).claiming(claim).await? {
            Heard::Reply(_, Reply::Committed(committed), reign) => {
                if commit.durability == Durability::Relaxed {
                    client.wrote_relaxed(reign);
                }
                Ok(committed)
            }
            Heard::Reply(_, reply, _) => Err(reply.unexpected()),
            Heard::Own { again } => {
                let local = self.own_now()?;
                let same = Commit {
                    keys: commit.keys.clone(),
                    ..*commit
                };
                calls::commit(local, same, asked_us, again).await
            }
            Heard::NoTurn => Err(client.silent(0)),
        }
    }

    async fn changed_at(
        &self,
        client: &Arc<Client>,
        key: &Key,
        seen: u64,
        until_us: u64,
    ) -> Result<Turn> {
        let question = Question::Changed {
            key: Cow::Borrowed(key.as_bytes()),
            seen,
            until_us,
        };
        let frame = Head::frame(Kind::Question, &question)?;
        match Asking::new(client, frame).waiting().await? {
            Heard::Reply(_, Reply::Turn(0), _) | Heard::NoTurn => Ok(Turn::none()),
            Heard::Reply(_, Reply::Turn(turn), _) => {
                let weak = Arc::downgrade(client);
                Ok(Turn::of(turn, move || {
                    if let Some(client) = weak.upgrade() {
                        client.send(&Question::Pass { turn });
                    }
                }))
            }
            Heard::Reply(_, reply, _) => Err(reply.unexpected()),
            Heard::Own { .. } => self.own_now()?.changed(key, seen, until_us).await,
        }
    }
}

impl Hub {
    async fn load_at(&self, client: &Arc<Client>, keys: &[&Key]) -> Result<Vec<Seen>> {
        let mut found: Vec<Seen> = Vec::with_capacity(keys.len());
        // What is long comes in several answers.
        while found.len() < keys.len() {
            let missing = &keys[found.len()..];
            let question = Question::Load {
                keys: missing
                    .iter()
                    .map(|key| Cow::Borrowed(key.as_bytes()))
                    .collect(),
            };
            let frame = Head::frame(Kind::Question, &question)?;
            match Asking::new(client, frame).await? {
                Heard::Reply(_, Reply::Seen(seen), _)
                    if !seen.is_empty() && seen.len() <= missing.len() =>
                {
                    found.extend(seen);
                }
                Heard::Reply(_, reply, _) => return Err(reply.unexpected()),
                _ => found.extend(self.own_now()?.load(missing).await?),
            }
        }
        Ok(found)
    }

    async fn barrier_at(&self, client: &Arc<Client>) -> Result<()> {
        let frame = Head::frame(Kind::Question, &Question::Barrier)?;
        match Asking::new(client, frame).await? {
            Heard::Reply(_, Reply::Number(reign), _) => client.settle_relaxed(reign),
            Heard::Reply(_, reply, _) => Err(reply.unexpected()),
            _ => {
                self.own_now()?.barrier().await?;
                client.settle_relaxed(0)
            }
        }
    }
}

impl Backend for Hub {
    fn update<'a>(
        &'a self,
        key: &'a Key,
        event: &'a Event,
        turn: Option<Turn>,
        durability: Durability,
    ) -> Op<'a, Result<Decided>> {
        match self.seat() {
            Seat::Own(local) => local.update(key, event, turn, durability),
            Seat::At(client) => Op::later(self.update_at(client, key, event, turn, durability)),
        }
    }

    fn glance(&self, key: &Key) -> Option<Told> {
        self.own()?.glance(key)
    }

    fn commit<'a>(&'a self, commit: &'a Commit<'a>) -> Op<'a, Result<Committed>> {
        match self.seat() {
            Seat::Own(local) => local.commit(commit),
            Seat::At(client) => Op::later(self.commit_at(client, commit)),
        }
    }

    fn load<'a>(&'a self, keys: &'a [&'a Key]) -> Op<'a, Result<Vec<Seen>>> {
        match self.seat() {
            Seat::Own(local) => local.load(keys),
            Seat::At(client) => Op::later(self.load_at(client, keys)),
        }
    }

    fn withdraw(&self, key: &Key, withdrawal: &Event, noted: Option<&Key>) {
        match self.seat() {
            Seat::Own(local) => local.withdraw(key, withdrawal, noted),
            Seat::At(client) => {
                let _ = Op::later(self.withdraw_at(client, key, withdrawal, noted)).now();
            }
        }
    }

    fn changed<'a>(&'a self, key: &'a Key, seen: u64, until_us: u64) -> Op<'a, Result<Turn>> {
        match self.seat() {
            Seat::Own(local) => local.changed(key, seen, until_us),
            Seat::At(client) => Op::later(self.changed_at(client, key, seen, until_us)),
        }
    }

    fn scan(&self, from: Cursor) -> Result<(Vec<Scanned>, Option<Cursor>)> {
        match self.records(&Question::Scan { from })? {
            Some(found) => Ok(found),
            None => self.own_now()?.scan(from),
        }
    }

    fn open_records(&self, until_us: u64, limit: usize) -> Result<Vec<Scanned>> {
        let question = Question::OpenRecords {
            until_us,
            limit: limit as u64,
        };
        match self.records(&question)? {
            Some((found, _)) => Ok(found),
            None => self.own_now()?.open_records(until_us, limit),
        }
    }

    fn ordered(&self, space: &str, limit: usize) -> Result<Vec<Scanned>> {
        let question = Question::Ordered {
            space: Cow::Borrowed(space),
            limit: limit as u64,
        };
        match self.records(&question)? {
            Some((found, _)) => Ok(found),
            None => self.own_now()?.ordered(space, limit),
        }
    }

    fn stamp(&self) -> Result<u64> {
        match self.ask(&Question::Stamp)? {
            Heard::Reply(_, Reply::Number(stamp), _) => Ok(stamp),
            Heard::Reply(_, reply, _) => Err(reply.unexpected()),
            _ => self.own_now()?.stamp(),
        }
    }

    fn sweep(&self) -> Result<u64> {
        match self.ask(&Question::Sweep)? {
            Heard::Reply(_, Reply::Number(swept), _) => Ok(swept),
            Heard::Reply(_, reply, _) => Err(reply.unexpected()),
            _ => self.own_now()?.sweep(),
        }
    }

    fn barrier<'a>(&'a self) -> Op<'a, Result<()>> {
        match self {
            // One that has become the owner may have written to an earlier one.
            Self::Attached(client) => Op::later(self.barrier_at(client)),
            Self::Owner(owner) => owner.local().barrier(),
        }
    }

    fn close(&self) -> Result<()> {
        self.leave()
    }

    fn facts(&self) -> Facts {
        self.accounts().facts
    }
}
