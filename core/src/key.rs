//! The identity of an operation: whose, what and which one, encoded so that two keys never meet.

use std::borrow::Cow;
use std::fmt;

use crate::error::{Error, Result};

/// The longest scope and operation, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 128;
/// The longest id, in bytes of UTF-8.
pub const MAX_ID_BYTES: usize = 255;
/// Keys of this length and less, as most are, take no memory of their own. With its length and kind, a key is 96 bytes.
const SHORT_KEY_BYTES: usize = 94;

/// Whose operation it is: a tenant, a principal, or everybody.
///
/// The text `"GLOBAL"` is a scope like any other and is not [`GLOBAL`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scope<'a> {
    /// One scope for all callers: what a key has when no scope is given.
    #[default]
    Global,
    /// The scope of this tenant or principal.
    Of(Cow<'a, str>),
}

/// The scope that all callers share.
pub const GLOBAL: Scope<'static> = Scope::Global;

impl<'a> Scope<'a> {
    /// The scope's text; `None` for [`GLOBAL`].
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Global => None,
            Self::Of(text) => Some(text),
        }
    }
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().unwrap_or("(global)"))
    }
}

impl<'a> From<&'a str> for Scope<'a> {
    fn from(text: &'a str) -> Self {
        Self::Of(Cow::Borrowed(text))
    }
}

impl From<String> for Scope<'_> {
    fn from(text: String) -> Self {
        Self::Of(Cow::Owned(text))
    }
}

impl<'a> From<&'a String> for Scope<'a> {
    fn from(text: &'a String) -> Self {
        Self::Of(Cow::Borrowed(text))
    }
}

/// What a key names; the first byte of its encoding, so that a claim, a twin and a row never share a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Namespace {
    /// The record of an operation.
    Claim = 1,
    /// The small record that finds the first id of a fingerprint.
    Twin = 2,
    /// A row of a table.
    Table = 3,
    /// A row of a unique index.
    Unique = 4,
    /// A token, by its hash.
    Token = 5,
    /// An instance of a state machine.
    Machine = 6,
    /// The balance of an account.
    Account = 7,
    /// An entry of a ledger.
    Entry = 8,
    /// A leased lock.
    Lock = 9,
    /// The lock of a row of a table.
    RowLock = 10,
    /// The handling of a message by a consumer.
    Inbox = 11,
    /// The mark of a message that a consumer has handled.
    Mark = 12,
    /// A message of an outbox.
    Message = 13,
    /// The last period of periodic work.
    Tick = 14,
    /// The next number of a sequence.
    Sequence = 15,
    /// How far a worker's numbers are given out.
    Worker = 16,
    /// That a commit of another process was made.
    Made = 17,
}

const NAMESPACES: [Namespace; 17] = [
    Namespace::Claim,
    Namespace::Twin,
    Namespace::Table,
    Namespace::Unique,
    Namespace::Token,
    Namespace::Machine,
    Namespace::Account,
    Namespace::Entry,
    Namespace::Lock,
    Namespace::RowLock,
    Namespace::Inbox,
    Namespace::Mark,
    Namespace::Message,
    Namespace::Tick,
    Namespace::Sequence,
    Namespace::Worker,
    Namespace::Made,
];

impl Namespace {
    fn from_byte(byte: u8) -> Option<Self> {
        NAMESPACES.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// An encoded key: injective, since every part carries its length.
#[derive(Clone)]
pub(crate) struct Key(Encoded);

#[derive(Clone)]
enum Encoded {
    Short {
        len: u8,
        bytes: [u8; SHORT_KEY_BYTES],
    },
    Long(Box<[u8]>),
}

impl Key {
    /// The key of an operation, refused before anything is touched when a part cannot be a name.
    pub(crate) fn claim(scope: &Scope<'_>, operation: &str, id: &str) -> Result<Self> {
        check_name("operation", operation, MAX_NAME_BYTES)?;
        check_name("id", id, MAX_ID_BYTES)?;
        if let Scope::Of(text) = scope {
            check_name("scope", text, MAX_NAME_BYTES)?;
        }
        Ok(Self::encode(
            Namespace::Claim,
            scope.text().unwrap_or(""),
            operation.as_bytes(),
            id.as_bytes(),
        ))
    }

    /// The key of the twin record of a fingerprint; `of` is the key of the claim.
    pub(crate) fn twin(of: &Key, fingerprint: &[u8; 32]) -> Self {
        let parts = of.parts();
        Self::encode(
            Namespace::Twin,
            parts.scope,
            parts.operation.as_bytes(),
            fingerprint,
        )
    }

    /// The key of a row of a scheme: `space` is the table, topic or consumer, `id` which row of it.
    pub(crate) fn row(namespace: Namespace, space: (&str, &str), id: (&str, &str)) -> Result<Self> {
        check_name(space.0, space.1, MAX_NAME_BYTES)?;
        check_name(id.0, id.1, MAX_ID_BYTES)?;
        Ok(Self::encode(
            namespace,
            "",
            space.1.as_bytes(),
            id.1.as_bytes(),
        ))
    }

    /// The key of a row within an owner: an entry of an account, say.
    pub(crate) fn owned_row(
        namespace: Namespace,
        owner: (&str, &str),
        space: (&str, &str),
        id: (&str, &str),
    ) -> Result<Self> {
        check_name(owner.0, owner.1, MAX_NAME_BYTES)?;
        check_name(space.0, space.1, MAX_NAME_BYTES)?;
        check_name(id.0, id.1, MAX_ID_BYTES)?;
        Ok(Self::encode(
            namespace,
            owner.1,
            space.1.as_bytes(),
            id.1.as_bytes(),
        ))
    }

    /// The key of the lock of a row of a table; `None` for what cannot be locked.
    pub(crate) fn row_lock(&self) -> Option<Self> {
        let parts = self.parts();
        (parts.namespace == Namespace::Table).then(|| {
            Self::encode(
                Namespace::RowLock,
                parts.scope,
                parts.operation.as_bytes(),
                parts.id,
            )
        })
    }

    /// The key in words, for errors.
    pub(crate) fn describe(&self) -> String {
        let parts = self.parts();
        let (space, id) = (parts.operation, String::from_utf8_lossy(parts.id));
        match parts.namespace {
            Namespace::Claim => format!("the operation {space} {id:?}"),
            Namespace::Twin => format!("the twin record of {space}"),
            Namespace::Table | Namespace::RowLock => format!("row {id:?} of table {space:?}"),
            Namespace::Unique => format!("row {id:?} of unique index {space:?}"),
            Namespace::Token => "a token".to_owned(),
            Namespace::Machine => format!("{id:?} of machine {space:?}"),
            Namespace::Account => format!("account {id:?} of ledger {space:?}"),
            Namespace::Entry => format!("entry {id:?} of ledger {space:?}"),
            Namespace::Lock => format!("lock {id:?}"),
            Namespace::Inbox | Namespace::Mark => format!("message {id:?} of consumer {space:?}"),
            Namespace::Message => format!("message {id:?} of topic {space:?}"),
            Namespace::Tick => format!("periodic work {id:?}"),
            Namespace::Sequence => format!("sequence {id:?}"),
            Namespace::Worker => format!("worker {id:?}"),
            Namespace::Made => "a commit that was sent again".to_owned(),
        }
    }

    fn encode(namespace: Namespace, scope: &str, operation: &[u8], id: &[u8]) -> Self {
        let parts = [scope.as_bytes(), operation, id];
        let len = 4 + scope.len() + operation.len() + id.len();
        if len > SHORT_KEY_BYTES {
            let mut bytes = Vec::with_capacity(len);
            bytes.push(namespace as u8);
            for part in parts {
                bytes.push(part.len() as u8);
                bytes.extend_from_slice(part);
            }
            return Self(Encoded::Long(bytes.into()));
        }
        let mut bytes = [0; SHORT_KEY_BYTES];
        bytes[0] = namespace as u8;
        let mut at = 1;
        for part in parts {
            bytes[at] = part.len() as u8;
            bytes[at + 1..at + 1 + part.len()].copy_from_slice(part);
            at += 1 + part.len();
        }
        Self(Encoded::Short {
            len: len as u8,
            bytes,
        })
    }

    /// A key as it was encoded before; none, when there are no bytes.
    pub(crate) fn encoded(bytes: &[u8]) -> Self {
        if bytes.len() > SHORT_KEY_BYTES {
            return Self(Encoded::Long(bytes.into()));
        }
        let mut short = [0; SHORT_KEY_BYTES];
        short[..bytes.len()].copy_from_slice(bytes);
        Self(Encoded::Short {
            len: bytes.len() as u8,
            bytes: short,
        })
    }

    /// What it takes beyond itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.0 {
            Encoded::Short { .. } => 0,
            Encoded::Long(bytes) => bytes.len(),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Encoded::Short { len, bytes } => &bytes[..usize::from(*len)],
            Encoded::Long(bytes) => bytes,
        }
    }

    /// The parts of this key.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts::decode(self.as_bytes()).unwrap_or(Parts {
            namespace: Namespace::Claim,
            scope: "",
            operation: "",
            id: &[],
        })
    }
}

impl fmt::Debug for Key {
    /// Keys do not appear in logs: what kind of key, and a short hash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = blake3::hash(self.as_bytes()).to_hex();
        write!(f, "{:?} key {}", self.parts().namespace, &hash[..8])
    }
}

/// An encoded key taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'k> {
    pub(crate) namespace: Namespace,
    /// Empty for the global scope.
    pub(crate) scope: &'k str,
    pub(crate) operation: &'k str,
    pub(crate) id: &'k [u8],
}

impl<'k> Parts<'k> {
    /// `None` when the bytes are no key, which only a damaged store can hold.
    pub(crate) fn decode(bytes: &'k [u8]) -> Option<Self> {
        let (&first, mut rest) = bytes.split_first()?;
        let namespace = Namespace::from_byte(first)?;
        let mut part = || {
            let (&len, tail) = rest.split_first()?;
            let (text, tail) = tail.split_at_checked(len as usize)?;
            rest = tail;
            Some(text)
        };
        let (scope, operation, id) = (part()?, part()?, part()?);
        if !rest.is_empty() {
            return None;
        }
        let text = |bytes| std::str::from_utf8(bytes).ok();
        Some(Self {
            namespace,
            scope: text(scope)?,
            operation: text(operation)?,
            id,
        })
    }

    pub(crate) fn id_text(&self) -> &'k str {
        std::str::from_utf8(self.id).unwrap_or("")
    }
}

/// Refuses a blank, over-long or control-character text, naming the part, the fault and the way out.
pub(crate) fn check_name(part: &str, text: &str, max_bytes: usize) -> Result<()> {
    if text.len() > max_bytes {
        return Err(Error::invalid(format!(
            "{part} is {} bytes long; at most {max_bytes} are allowed: use the number or hash that identifies it",
            text.len()
        )));
    }
    // One pass over the bytes, without a branch, decides the common case: printable ASCII with a character that is no space.
    let (mut odd, mut seen) = (false, false);
    for byte in text.bytes() {
        odd |= !(0x20..0x7f).contains(&byte);
        seen |= byte != b' ';
    }
    if seen && !odd {
        return Ok(());
    }
    if text.trim().is_empty() {
        return Err(Error::invalid(match part {
            "scope" => {
                "scope is blank; leave it out or pass GLOBAL to share one scope among all callers"
                    .to_owned()
            }
            _ => format!(
                "{part} is blank; a missing {part} would merge unrelated operations: pass what identifies this one"
            ),
        }));
    }
    if let Some((at, found)) = text.char_indices().find(|(_, c)| c.is_control()) {
        return Err(Error::invalid(format!(
            "{part} has the control character U+{:04X} at byte {at}; strip it before it becomes a key",
            found as u32
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_join_to_the_same_text_are_different_keys() {
        let pairs = [
            (("a", "b:c", "d"), ("a:b", "c", "d")),
            (("ab", "c", "d"), ("a", "bc", "d")),
            (("a", "b", "cd"), ("a", "bc", "d")),
        ];
        for ((s1, o1, i1), (s2, o2, i2)) in pairs {
            let one = Key::claim(&s1.into(), o1, i1).expect("valid");
            let two = Key::claim(&s2.into(), o2, i2).expect("valid");
            assert_ne!(one.as_bytes(), two.as_bytes());
        }
        let global = Key::claim(&GLOBAL, "op", "id").expect("valid");
        let named = Key::claim(&"GLOBAL".into(), "op", "id").expect("valid");
        assert_ne!(global.as_bytes(), named.as_bytes());
    }

    #[test]
    fn parts_come_back_as_they_went_in() {
        let key = Key::claim(&"租户".into(), "order.create", "ORDER_1").expect("valid");
        let parts = Parts::decode(key.as_bytes()).expect("decodes");
        assert_eq!(
            (parts.scope, parts.operation, parts.id_text()),
            ("租户", "order.create", "ORDER_1")
        );
    }

    #[test]
    fn unusable_parts_are_refused_with_their_name() {
        let long = "x".repeat(256);
        let cases: &[(Scope<'_>, &str, &str, &str)] = &[
            (GLOBAL, "", "id", "operation is blank"),
            (GLOBAL, "op", "", "id is blank"),
            (GLOBAL, "op", " \t ", "id is blank"),
            ("".into(), "op", "id", "scope is blank"),
            ("  ".into(), "op", "id", "scope is blank"),
            (GLOBAL, "op", "a\nb", "U+000A at byte 1"),
            (GLOBAL, "op", "a\u{85}b", "U+0085"),
            (GLOBAL, "op", "a\u{7f}", "U+007F"),
            (GLOBAL, "op", &long, "256 bytes long; at most 255"),
            (GLOBAL, &long, "id", "at most 128"),
            (long.as_str().into(), "op", "id", "scope is 256 bytes long"),
        ];
        for (scope, operation, id, expect) in cases {
            let error = Key::claim(scope, operation, id)
                .map(|_| ())
                .expect_err("must be refused");
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
            assert!(error.message().contains(expect), "{error}");
        }
        assert!(Key::claim(&GLOBAL, &long[..128], &long[..255]).is_ok());
    }
}
