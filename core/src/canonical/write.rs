//! Writes canonical bytes: puts the members of an object in order, refuses repeated names, and holds the limits.

use super::number::{self, Decimal};
use super::refusal::{Refusal, quoted};
use super::{MAX_BYTES, MAX_DEPTH};

/// Canonical bytes in the making.
///
/// Members are written as they come. When their object closes, their bytes are moved into the order of the names.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) out: Vec<u8>,
    /// The decoded names of `members`, one after the other.
    pub(super) names: String,
    /// The members of all open objects, innermost last. Those of the outermost object stay when it closes.
    pub(super) members: Vec<Member>,
    pub(super) open: Vec<Open>,
    spare: Vec<u8>,
}

/// Where a member is: its decoded name in `names`, the rest in the canonical bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) name_start: u32,
    pub(super) name_end: u32,
    start: u32,
    pub(super) value: u32,
    pub(super) end: u32,
    /// Where it was read, for errors.
    offset: u32,
}

/// An array or object that is not closed yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Open {
    Array {
        elements: usize,
    },
    Object {
        body: u32,
        members: usize,
        names: usize,
    },
}

impl Member {
    pub(super) fn name(self, names: &str) -> &str {
        &names[self.name_start as usize..self.name_end as usize]
    }
}

impl Writer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self {
            out: Vec::with_capacity(bytes),
            names: String::with_capacity(64),
            members: Vec::with_capacity(16),
            open: Vec::with_capacity(8),
            spare: Vec::new(),
        }
    }

    pub(super) fn literal(&mut self, word: &str) {
        self.out.extend_from_slice(word.as_bytes());
    }

    pub(super) fn number(&mut self, number: &Decimal<'_>) -> Result<(), Refusal> {
        number.write(&mut self.out)
    }

    pub(super) fn integer(&mut self, negative: bool, magnitude: u128) -> Result<(), Refusal> {
        number::integer(negative, magnitude, &mut self.out)
    }

    /// Writes a string of which it is known that no character needs an escape.
    pub(super) fn plain_string(&mut self, text: &str) {
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'"');
    }

    /// Writes a string with the escapes of RFC 8785: those that JSON demands, each in its shortest form.
    pub(super) fn string(&mut self, text: &str) -> Result<(), Refusal> {
        if text.len() > MAX_BYTES {
            return Err(too_long());
        }
        let bytes = text.as_bytes();
        self.out.push(b'"');
        let mut done = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if needs_escape(*byte) {
                self.out.extend_from_slice(&bytes[done..at]);
                self.escape(*byte);
                done = at + 1;
            }
        }
        self.out.extend_from_slice(&bytes[done..]);
        self.out.push(b'"');
        Ok(())
    }

    fn escape(&mut self, byte: u8) {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            _ => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
                self.out
                    .extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
                return;
            }
        };
        self.out.extend_from_slice(&[b'\\', short]);
    }

    pub(super) fn open_array(&mut self) -> Result<(), Refusal> {
        self.enter(b'[', Open::Array { elements: 0 })
    }

    pub(super) fn open_object(&mut self) -> Result<(), Refusal> {
        let object = Open::Object {
            body: position(self.out.len() + 1),
            members: self.members.len(),
            names: self.names.len(),
        };
        self.enter(b'{', object)
    }

    fn enter(&mut self, bracket: u8, open: Open) -> Result<(), Refusal> {
        if self.open.len() == MAX_DEPTH {
            return Err(Refusal::new(
                format!("arrays and objects are nested more than {MAX_DEPTH} deep"),
                "send a flatter payload",
            ));
        }
        self.out.push(bracket);
        self.open.push(open);
        Ok(())
    }

    /// Makes ready for the next element of the array.
    pub(super) fn element(&mut self) -> Result<(), Refusal> {
        let Some(Open::Array { elements }) = self.open.last_mut() else {
            return Err(misused());
        };
        *elements += 1;
        if *elements > 1 {
            self.out.push(b',');
        }
        self.room()
    }

    pub(super) fn close_array(&mut self) -> Result<(), Refusal> {
        let Some(Open::Array { .. }) = self.open.pop() else {
            return Err(misused());
        };
        self.out.push(b']');
        Ok(())
    }

    /// Begins the next member of the object: its value comes next. `offset` is where its name was read.
    pub(super) fn member(&mut self, name: &str, offset: usize) -> Result<(), Refusal> {
        let Some(Open::Object { members, .. }) = self.open.last().copied() else {
            return Err(misused());
        };
        self.end_member(members);
        if self.members.len() > members {
            self.out.push(b',');
        }
        let (start, name_start) = (self.out.len(), self.names.len());
        self.string(name)?;
        self.out.push(b':');
        self.names.push_str(name);
        self.members.push(Member {
            name_start: position(name_start),
            name_end: position(self.names.len()),
            start: position(start),
            value: position(self.out.len()),
            end: 0,
            offset: position(offset),
        });
        self.room()
    }

    pub(super) fn close_object(&mut self) -> Result<(), Refusal> {
        let Some(Open::Object {
            body,
            members,
            names,
        }) = self.open.last().copied()
        else {
            return Err(misused());
        };
        self.end_member(members);
        if let Err(refusal) = self.order_members(members, body) {
            self.leave_members();
            return Err(refusal);
        }
        self.out.push(b'}');
        self.open.pop();
        if !self.open.is_empty() {
            self.members.truncate(members);
            self.names.truncate(names);
        }
        Ok(())
    }

    /// Makes the innermost object itself the place of an error, not its last member.
    pub(super) fn leave_members(&mut self) {
        if let Some(Open::Object { members, .. }) = self.open.last() {
            self.members.truncate(*members);
        }
    }

    fn end_member(&mut self, first: usize) {
        if let Some(last) = self.members[first..].last_mut() {
            last.end = position(self.out.len());
        }
    }

    fn order_members(&mut self, first: usize, body: u32) -> Result<(), Refusal> {
        let (members, names) = (&mut self.members[first..], self.names.as_str());
        // A str compares by its bytes.
        if members.is_sorted_by(|a, b| a.name(names) < b.name(names)) {
            return Ok(());
        }
        members
            .sort_unstable_by(|a, b| a.name(names).cmp(b.name(names)).then(a.start.cmp(&b.start)));
        let same = |pair: &&[Member]| pair[0].name(names) == pair[1].name(names);
        if let Some(pair) = members.windows(2).find(same) {
            return Err(repeated(pair[1].name(names)).at(pair[1].offset as usize));
        }
        self.spare.clear();
        self.spare.reserve(self.out.len() - body as usize);
        for member in members {
            if !self.spare.is_empty() {
                self.spare.push(b',');
            }
            let start = body + position(self.spare.len());
            let Member {
                start: from,
                end: to,
                ..
            } = *member;
            self.spare
                .extend_from_slice(&self.out[from as usize..to as usize]);
            member.value = start + (member.value - from);
            member.end = start + (to - from);
            member.start = start;
        }
        self.out[body as usize..].copy_from_slice(&self.spare);
        Ok(())
    }

    /// Refuses to go on when the canonical form is longer than it may be.
    pub(super) fn room(&self) -> Result<(), Refusal> {
        if self.out.len() > MAX_BYTES {
            Err(too_long())
        } else {
            Ok(())
        }
    }
}

const fn needs_escape(byte: u8) -> bool {
    matches!(byte, 0..0x20 | b'"' | b'\\')
}

/// Positions fit in 32 bits: texts end at [`MAX_BYTES`], and what is written is at most a few times as long.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

pub(super) fn too_long() -> Refusal {
    Refusal::new(
        format!("it is longer than {MAX_BYTES} bytes"),
        "send a smaller payload, or a digest of it",
    )
}

fn repeated(name: &str) -> Refusal {
    Refusal::new(
        format!("the member name {} is repeated in one object", quoted(name)),
        "send each name once",
    )
}

pub(super) fn misused() -> Refusal {
    Refusal::new(
        "its Serialize implementation gives names and values out of turn, or goes on after an error",
        "correct the Serialize implementation",
    )
}
