//! What the README and the docs say: the commands do it, and the pages that are named are there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(name: &str) -> String {
    fs::read_to_string(project().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The fenced blocks of this language.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let fence = format!("```{language}\n");
    page.split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect()
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    let readme = page("README.md");
    let (_, section) = readme
        .split_once("## On the command line")
        .expect("a section");
    let (commands, expect) = (blocks(section, "sh"), blocks(section, "text"));
    assert_eq!((commands.len(), expect.len()), (1, 1));
    let dir = tempfile::tempdir().expect("a directory");
    let semel = semel_tests::semel_binary();
    let bin = semel.parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let said = Command::new("sh")
        .args(["-eu", "-c", commands[0]])
        .current_dir(dir.path())
        .env("PATH", format!("{}:{path}", bin.display()))
        .output()
        .expect("a shell");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let out = String::from_utf8_lossy(&said.stdout);
    // Some systems print the count of wc with spaces before it.
    let lines: Vec<&str> = out.lines().map(str::trim_start).collect();
    assert_eq!(lines, expect[0].lines().collect::<Vec<_>>());
}

#[test]
fn pages_link_to_what_is_there() {
    let root = project();
    let mut pages = vec![
        "README.md".into(),
        "README.zh-CN.md".into(),
        "ARCHITECTURE.md".into(),
        "CHANGELOG.md".into(),
    ];
    let docs = fs::read_dir(root.join("docs")).expect("docs");
    pages.extend(docs.map(|entry| {
        format!(
            "docs/{}",
            entry.expect("an entry").file_name().to_string_lossy()
        )
    }));
    for name in pages {
        let text = page(&name);
        let folder = root.join(&name).parent().expect("a folder").to_path_buf();
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let local = link.split('#').next().unwrap_or_default();
            if local.is_empty() || link.contains("://") {
                continue;
            }
            assert!(folder.join(local).exists(), "{name} links to {link}");
        }
    }
}

/// What stands in a page, line by line: a heading with its depth, a row of a table with its columns, a block of code with
/// its language.
fn outline(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            in_block = !in_block;
            if in_block {
                found.push(format!("block {language}"));
            }
        } else if in_block {
        } else if line.starts_with('#') {
            let depth = line.chars().take_while(|c| *c == '#').count();
            found.push(format!("heading {depth}"));
        } else if line.starts_with('|') {
            found.push(format!("row {}", line.matches('|').count()));
        } else if line.starts_with("- ") {
            found.push("point".to_owned());
        }
    }
    found
}

/// Code without its comments, which are in the language of the page.
fn bare(code: &str) -> Vec<&str> {
    code.lines()
        .map(|line| line.split(" // ").next().unwrap_or_default().trim_end())
        .filter(|line| !line.starts_with("// "))
        .collect()
}

#[test]
fn both_languages_of_the_readme_say_the_same() {
    let (english, chinese) = (page("README.md"), page("README.zh-CN.md"));
    assert_eq!(outline(&english), outline(&chinese));
    for language in ["rust", "sh"] {
        let (ours, theirs) = (blocks(&english, language), blocks(&chinese, language));
        assert!(!ours.is_empty() && ours.len() == theirs.len());
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            assert_eq!(bare(ours), bare(theirs));
        }
    }
    // What is between backticks is the same in every row: the names that a reader types.
    let named = |page: &str| -> Vec<Vec<String>> {
        let rows = page.lines().filter(|line| line.starts_with('|'));
        rows.map(|row| {
            let mut names: Vec<String> = row
                .split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect();
            names.sort();
            names
        })
        .collect()
    };
    assert_eq!(named(&english), named(&chinese));
}

#[test]
fn every_scheme_has_a_page_that_says_what_it_stops_and_what_it_does_not() {
    let folder = project().join("core/src/scheme");
    let mut pages = 0;
    for entry in fs::read_dir(folder).expect("the schemes") {
        let path = entry.expect("an entry").path();
        if path.ends_with("mod.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("readable");
        let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
        let doc: Vec<&str> = lines.map(str::trim).collect();
        let doc = doc.join(" ");
        for needed in ["Stops: ", "Does not stop: ", "Choose it ", "```"] {
            assert!(doc.contains(needed), "{}: {needed}", path.display());
        }
        let kinds = [
            "deduplicates",
            "idempotence",
            "mutual exclusion",
            "at least once",
        ];
        assert!(
            kinds.iter().any(|kind| doc.contains(kind)),
            "{}",
            path.display()
        );
        pages += 1;
    }
    assert!(pages >= 10, "{pages} pages");
}
