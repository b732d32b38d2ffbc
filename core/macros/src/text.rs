//! Texts of an attribute: names that are checked where they stand, and advice on what was meant.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Lit, LitStr};

use crate::faults::Faults;

/// The literal text that an expression is, if it is one.
pub(crate) fn literal(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text),
            _ => None,
        },
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

/// A name: a literal is checked here, as the store would check it; any other expression is shown as text when it is called.
pub(crate) fn name(
    option: &str,
    value: &Expr,
    max_bytes: usize,
    faults: &mut Faults,
) -> TokenStream {
    let Some(text) = literal(value) else {
        return shown(value);
    };
    let name = text.value();
    if name.trim().is_empty() {
        faults.at(text, format!("{option} is blank; name it"));
    } else if name.len() > max_bytes {
        let long = name.len();
        faults.at(
            text,
            format!("{option} is {long} bytes long; at most {max_bytes} are allowed"),
        );
    } else if name.contains(char::is_control) {
        faults.at(
            text,
            format!("{option} has a control character; leave it out"),
        );
    }
    quote!(#text)
}

/// What an expression shows, read by reference.
pub(crate) fn shown(value: &Expr) -> TokenStream {
    quote_spanned!(value.span()=> ::std::string::ToString::to_string(&(#value)))
}

/// What is said of a word that is none of those there are.
pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(meant) => format!("`{word}` is no {what}; did you mean `{meant}`?"),
        None => format!("`{word}` is no {what}; there are: {}", known.join(", ")),
    }
}

/// The known word that differs in few letters.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let allowed = 1 + word.len() / 4;
    let near = known.iter().map(|known| (distance(word, known), *known));
    near.filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// How many letters are to be put in, taken out or changed, or pairs of neighbours swapped.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = change.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(table[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_what_was_meant_and_nothing_else_is() {
        let known = ["lease", "retain", "renew", "renew_limit", "key"];
        let cases = [
            ("retian", Some("retain")),
            ("leese", Some("lease")),
            ("keys", Some("key")),
            ("renewlimit", Some("renew_limit")),
            ("ttl", None),
            ("timeout", None),
        ];
        for (word, meant) in cases {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
    }
}
