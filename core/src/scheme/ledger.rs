//! Ledger: postings to accounts in integer minor units, each under a business number, each once.
//!
//! Stops: the same posting twice, overdrawing below a floor, and overflow. Does not stop: the same money under two numbers.
//! Choose it for balances, stock, points, coupons: whatever is counted. It is idempotence: a repeat has no effect, and gets
//! the balance that its first time gave.
//!
//! ```
//! use semel::{Post, Store};
//!
//! let store = Store::open("memory:")?;
//! let accounts = store.ledger("wallet");
//! assert_eq!(accounts.post("anna", "topup-1", 100, Some(0))?, Post::Posted(100));
//! assert_eq!(accounts.post("anna", "order-1", -30, Some(0))?, Post::Posted(70));
//! assert_eq!(accounts.post("anna", "order-1", -30, Some(0))?, Post::AlreadyPosted(70));
//! assert_eq!(accounts.post("anna", "order-1", -31, Some(0))?, Post::Mismatch(-30));
//! assert_eq!(accounts.post("anna", "order-2", -71, Some(0))?, Post::Insufficient(70));
//! # Ok::<(), semel::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::key::{Key, Namespace};
use crate::request::Retain;
use crate::store::Store;
use crate::time::NEVER_US;
use crate::tx::{Tx, kept_until_us};

/// What a posting came to. Amounts are integers in the smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Post {
    /// Posted; the balance after it.
    Posted(i64),
    /// This very posting was made before; the balance after it then. Nothing was changed.
    AlreadyPosted(i64),
    /// The number was used for another amount, which is this. Nothing was changed.
    Mismatch(i64),
    /// The balance, which is this, would fall below the floor. Nothing was changed.
    Insufficient(i64),
}

impl Post {
    /// The answer's word, the same in every language.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Posted(_) => "posted",
            Self::AlreadyPosted(_) => "already_posted",
            Self::Mismatch(_) => "mismatch",
            Self::Insufficient(_) => "insufficient",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Account {
    balance: i64,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    delta: i64,
    balance: i64,
    at_us: u64,
}

/// A ledger of a store.
#[derive(Clone, Copy, Debug)]
pub struct Ledger<'a> {
    store: &'a Store,
    name: &'a str,
    retain: Retain,
}

impl Store {
    /// The ledger `name`. Balances are kept for ever, and entries too, unless [`Ledger::retain`] says otherwise.
    pub fn ledger<'a>(&'a self, name: &'a str) -> Ledger<'a> {
        Ledger {
            store: self,
            name,
            retain: Retain::Forever,
        }
    }
}

impl Ledger<'_> {
    /// How long entries that are posted from now on are kept: for ever by default. A repeat that comes later is posted
    /// again. Balances stay.
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// Posts `delta` to an account under a business number, once. With a floor, the balance never falls below it by a
    /// posting that takes away.
    ///
    /// # Errors
    /// `InvalidInput` for names that cannot be used and for a balance beyond 64 bits; store errors.
    pub fn post(
        &self,
        account: &str,
        biz_no: &str,
        delta: i64,
        floor: Option<i64>,
    ) -> Result<Post> {
        self.store.transaction(|tx| {
            tx.ledger(self.name)
                .retain(self.retain)
                .post(account, biz_no, delta, floor)
        })
    }

    /// The balance of an account; 0 when nothing was ever posted.
    ///
    /// # Errors
    /// Store errors.
    pub fn balance(&self, account: &str) -> Result<i64> {
        self.store
            .transaction(|tx| tx.ledger(self.name).balance(account))
    }
}

/// A ledger within a transaction.
#[derive(Debug)]
pub struct TxLedger<'t, 's> {
    tx: &'t mut Tx<'s>,
    name: &'t str,
    retain: Retain,
}

impl<'s> Tx<'s> {
    /// The ledger `name`.
    pub fn ledger<'t>(&'t mut self, name: &'t str) -> TxLedger<'t, 's> {
        TxLedger {
            tx: self,
            name,
            retain: Retain::Forever,
        }
    }
}

impl TxLedger<'_, '_> {
    /// As [`Ledger::retain`].
    pub fn retain(mut self, retain: impl Into<Retain>) -> Self {
        self.retain = retain.into();
        self
    }

    /// As [`Ledger::post`].
    ///
    /// # Errors
    /// As [`Ledger::post`].
    pub fn post(self, account: &str, biz_no: &str, delta: i64, floor: Option<i64>) -> Result<Post> {
        let account_key = account_key(self.name, account)?;
        let entry_key = Key::owned_row(
            Namespace::Entry,
            ("account", account),
            ("ledger", self.name),
            ("biz_no", biz_no),
        )?;
        if let Some(entry) = self.tx.get::<Entry>(&entry_key)? {
            return Ok(if entry.delta == delta {
                Post::AlreadyPosted(entry.balance)
            } else {
                Post::Mismatch(entry.delta)
            });
        }
        let before = self
            .tx
            .get::<Account>(&account_key)?
            .map_or(0, |account| account.balance);
        let balance = before.checked_add(delta).ok_or_else(|| {
            Error::invalid(format!("posting {delta} to account {account:?} takes its balance of {before} beyond 64 bits; check the amount"))
        })?;
        if delta < 0 && floor.is_some_and(|floor| balance < floor) {
            return Ok(Post::Insufficient(before));
        }
        let at_us = self.tx.now_us();
        let until_us = kept_until_us(at_us, self.retain)?;
        self.tx.set(&account_key, &Account { balance }, NEVER_US)?;
        self.tx.set(
            &entry_key,
            &Entry {
                delta,
                balance,
                at_us,
            },
            until_us,
        )?;
        Ok(Post::Posted(balance))
    }

    /// As [`Ledger::balance`].
    ///
    /// # Errors
    /// As [`Ledger::balance`].
    pub fn balance(self, account: &str) -> Result<i64> {
        let account = self.tx.get::<Account>(&account_key(self.name, account)?)?;
        Ok(account.map_or(0, |account| account.balance))
    }
}

fn account_key(name: &str, account: &str) -> Result<Key> {
    // As the owner of its entries, an account has the bound of a name.
    crate::key::check_name("account", account, crate::key::MAX_NAME_BYTES)?;
    Key::row(Namespace::Account, ("ledger", name), ("account", account))
}
