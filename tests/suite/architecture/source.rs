//! The engine's source as text: its files, the code in them without tests and comments, and what they use.

use std::fs;
use std::path::Path;

/// The files below a folder of the project.
pub(super) struct Source {
    pub(super) files: Vec<File>,
}

/// One file, by its path below the folder.
pub(super) struct File {
    pub(super) path: String,
    text: String,
}

impl Source {
    pub(super) fn of(folder: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join(folder);
        let mut files = Vec::new();
        gather(&root, &root, &mut files);
        files.sort_by(|one: &File, two| one.path.cmp(&two.path));
        assert!(files.len() > 1, "{folder} has no sources");
        Self { files }
    }

    pub(super) fn file(&self, path: &str) -> &File {
        let found = self.files.iter().find(|file| file.path == path);
        found.unwrap_or_else(|| panic!("there is no {path}"))
    }

    /// Whether there is a module of this name at the root.
    pub(super) fn has(&self, name: &str) -> bool {
        self.files
            .iter()
            .any(|file| file.module().first() == Some(&name))
    }
}

fn gather(root: &Path, folder: &Path, to: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            gather(root, &path, to);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let below = path.strip_prefix(root).expect("below the root");
            to.push(File {
                path: below.to_string_lossy().replace('\\', "/"),
                text: fs::read_to_string(&path).expect("readable"),
            });
        }
    }
}

impl File {
    pub(super) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    pub(super) fn begins_with_purpose(&self) -> bool {
        self.text.starts_with("//! ")
    }

    /// The module it is, as names from the root; nothing for lib.rs.
    pub(super) fn module(&self) -> Vec<&str> {
        let path = self.path.trim_end_matches(".rs");
        path.split('/')
            .filter(|name| !matches!(*name, "mod" | "lib"))
            .collect()
    }

    /// Lines of code with their numbers: without tests, comments and documentation.
    pub(super) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.path.contains("/tests/") || self.path.ends_with("/tests.rs");
        let end = match is_test {
            true => 0,
            false => self
                .text
                .find("#[cfg(test)]\nmod tests")
                .unwrap_or(self.text.len()),
        };
        self.text[..end]
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("").trim()))
            .filter(|(_, line)| !line.is_empty())
    }

    /// Every path that begins at the crate's root, as names, with the line it stands in. A group of imports gives one path
    /// for each of its names.
    pub(super) fn uses(&self) -> Vec<(usize, Vec<&str>)> {
        let mut found = Vec::new();
        for (line, text) in self.code() {
            for (_, rest) in text.split("crate::").enumerate().skip(1) {
                match rest.strip_prefix('{') {
                    // Imports of the root, as rustfmt writes them: the names follow.
                    Some("") => found.extend(self.group_after(line)),
                    Some(names) => found.extend(
                        names
                            .trim_end_matches(['}', ';'])
                            .split(", ")
                            .map(|name| (line, path(name))),
                    ),
                    None => found.push((line, path(rest))),
                }
            }
        }
        found
    }

    fn group_after(&self, line: usize) -> Vec<(usize, Vec<&str>)> {
        self.code()
            .skip_while(|(at, _)| *at <= line)
            .take_while(|(_, text)| !text.starts_with('}'))
            .flat_map(|(at, text)| text.split([',', ' ']).map(move |name| (at, path(name))))
            .filter(|(_, path)| !path.is_empty())
            .collect()
    }

    /// The re-exports of a file: from which module, and which names.
    pub(super) fn exports(&self) -> Vec<(String, Vec<String>)> {
        let text: Vec<&str> = self.code().map(|(_, text)| text).collect();
        let text = text.join(" ");
        text.split("pub use ")
            .skip(1)
            .filter_map(|rest| {
                let (from, names) = rest.split(';').next()?.split_once("::")?;
                let names = names.trim_matches(['{', '}', ' ']).split(',');
                Some((
                    from.to_owned(),
                    names.map(|name| name.trim().to_owned()).collect(),
                ))
            })
            .collect()
    }
}

/// The names of a path, up to what is no name.
fn path(text: &str) -> Vec<&str> {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')))
        .unwrap_or(text.len());
    text[..end]
        .split("::")
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_uses_is_found() {
        let file = File {
            path: "a/b.rs".to_owned(),
            text: "//! It.\nuse crate::{\n    Claim, cli,\n    store::Store,\n};\nuse crate::key::{Key, Scope};\nfn f() { crate::time::micros(g) } // crate::no\n#[cfg(test)]\nmod tests { use crate::never; }\n".to_owned(),
        };
        let uses = file.uses();
        let lines: Vec<usize> = uses.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 3, 4, 6, 7]);
        assert_eq!(uses[0].1, ["Claim"]);
        assert_eq!(uses[2].1, ["store", "Store"]);
        assert_eq!(uses[3].1, ["key"]);
        assert_eq!(uses[4].1, ["time", "micros"]);
        assert_eq!(file.module(), ["a", "b"]);
    }
}
