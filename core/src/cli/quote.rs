//! Words as a shell takes them, so that a command in a message can be pasted.

/// The word as it is when no shell would change it, otherwise between single quotes.
pub(crate) fn word(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+,=".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The words of a command line.
pub(crate) fn line<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        let cases = [
            ("ORDER_1", "ORDER_1"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$HOME;rm", "'$HOME;rm'"),
            ("订单", "'订单'"),
        ];
        for (text, quoted) in cases {
            assert_eq!(word(text), quoted);
        }
        assert_eq!(
            line(["semel", "list", "--store", "my data"]),
            "semel list --store 'my data'"
        );
    }
}
