//! Names the place of the value being written, as `$.items[3].price`, for errors.

use super::refusal::{head, quoted};
use super::write::{Open, Writer};

/// The longest path that an error tells, in bytes.
const MAX_PATH_BYTES: usize = 256;

impl Writer {
    /// The place of the value that is being written.
    pub(super) fn path(&self) -> String {
        let mut path = String::from("$");
        for (depth, open) in self.open.iter().enumerate() {
            match *open {
                Open::Array { elements: 0 } => {}
                Open::Array { elements } => path.push_str(&format!("[{}]", elements - 1)),
                Open::Object { members, .. } => {
                    let next = self.open[depth + 1..].iter().find_map(|open| match open {
                        Open::Object { members, .. } => Some(*members),
                        Open::Array { .. } => None,
                    });
                    let own = members..next.unwrap_or(self.members.len());
                    if let Some(member) = self.members[own].last() {
                        push_name(member.name(&self.names), &mut path);
                    }
                }
            }
            if path.len() > MAX_PATH_BYTES {
                path.truncate(head(&path, MAX_PATH_BYTES).len());
                path.push_str("...");
                break;
            }
        }
        path
    }
}

fn push_name(name: &str, path: &mut String) {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(word) {
        path.push('.');
        path.push_str(name);
    } else {
        path.push_str(&format!("[{}]", quoted(name)));
    }
}
