//! The same value in another spelling, and another value in the same place.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The value with the members of every object turned round, its numbers spelled otherwise, and space and escapes where
/// there were none.
pub(super) fn respelled(value: &Value) -> String {
    let mut text = String::new();
    respell(value, &mut text, &mut 0);
    text
}

fn respell(value: &Value, to: &mut String, turn: &mut usize) {
    *turn += 1;
    match value {
        Value::Null | Value::Bool(_) => to.push_str(&value.to_string()),
        Value::Number(number) => respell_number(number, to, *turn),
        Value::String(text) => respell_string(text, to, *turn),
        Value::Array(items) => {
            to.push('[');
            for (at, item) in items.iter().enumerate() {
                to.push_str(if at == 0 { " " } else { "\t, " });
                respell(item, to, turn);
            }
            to.push(']');
        }
        Value::Object(members) => {
            to.push('{');
            for (at, (name, member)) in members.iter().rev().enumerate() {
                to.push_str(if at == 0 { "" } else { " ," });
                respell_string(name, to, *turn + at);
                to.push_str(" : ");
                respell(member, to, turn);
            }
            to.push('}');
        }
    }
}

fn respell_number(number: &Number, to: &mut String, turn: usize) {
    let text = number.to_string();
    let whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let has_exponent = text.contains(['e', 'E']);
    let _ = match (whole, has_exponent, turn % 5) {
        (true, _, 0) => write!(to, "{text}.0"),
        (true, _, 1) => write!(to, "{text}e0"),
        (true, _, 2) => write!(to, "{text}.00E-0"),
        (true, _, 3) => write!(to, "{text}.000e+00"),
        // A whole number has at least one digit to move behind the point: 123 is 12.3e1, and 7 is 0.7e1.
        (true, _, _) => {
            let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
            let (front, last) = digits.split_at(digits.len() - 1);
            let front = if front.is_empty() { "0" } else { front };
            write!(to, "{sign}{front}.{last}e1")
        }
        (false, false, n) => write!(to, "{text}{}", ["0", "e0", "00", "E+0", "0e-0"][n]),
        (false, true, _) => write!(to, "{text}"),
    };
}

fn respell_string(text: &str, to: &mut String, turn: usize) {
    let plain = Value::from(text).to_string();
    let first = text.chars().next().filter(char::is_ascii_alphanumeric);
    match first.filter(|_| turn.is_multiple_of(3)) {
        Some(first) => {
            let _ = write!(to, "\"\\u{:04x}{}", first as u32, &plain[2..]);
        }
        None => to.push_str(&plain),
    }
}

/// The object with another value in the member `name`: somewhere in it, one thing is changed.
pub(super) fn with_another(object: &Value, name: &str, turn: usize) -> Value {
    let mut changed = object.clone();
    change(&mut changed[name], turn);
    assert_ne!(changed, *object);
    changed
}

fn change(value: &mut Value, turn: usize) {
    match value {
        Value::Null => *value = Value::from(["null", "", "0"][turn % 3]),
        Value::Bool(was) => {
            *value = match turn % 2 {
                0 => Value::from(!*was),
                _ => Value::from(was.to_string()),
            }
        }
        Value::Number(number) => {
            // As text: one digit more behind the last one that counts.
            let text = number.to_string();
            let point = if text.contains('.') { "" } else { "." };
            *value = match turn % 2 {
                0 if !text.contains(['e', 'E']) => {
                    serde_json::from_str(&format!("{text}{point}0000000000000000000001"))
                        .expect("a number")
                }
                _ => Value::from(text),
            };
        }
        Value::String(text) => match turn % 3 {
            0 => text.push('\u{301}'),
            1 => text.insert(0, ' '),
            _ => *value = Value::Null,
        },
        Value::Array(items) if items.is_empty() => *value = Value::Object(Default::default()),
        Value::Array(items) => match turn % 3 {
            0 => drop(items.pop()),
            1 => items.push(Value::Null),
            _ => {
                let at = turn % items.len();
                change(&mut items[at], turn / 3);
            }
        },
        Value::Object(members) => {
            let names: Vec<String> = members.keys().cloned().collect();
            match (turn % 4, names.len()) {
                (0, _) | (_, 0) => drop(members.insert("one more".to_owned(), Value::Null)),
                (1, count) => drop(members.remove(&names[turn % count])),
                (_, count) => change(&mut members[&names[turn % count]], turn / 4),
            }
        }
    }
}
