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
