//! A process that owns the store for those that cannot: children of one that had opened a store, when it is gone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command that can hold a store.
const COMMAND: &str = "semel";
/// How long it stays when nobody uses the store any more.
const IDLE: &str = "10s";

/// Starts `semel hold`, from beside this program or from the search path; whether there was one.
pub(super) fn summon(store: &Path) -> bool {
    let Some(command) = found() else {
        return false;
    };
    let mut command = Command::new(command);
    command.args(["hold", "--idle", IDLE, "--store"]).arg(store);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).current_dir("/");
    // A key of the terminal is not meant for it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let Ok(mut holder) = command.spawn() else {
        return false;
    };
    // Whoever starts a process waits for its end, or it stays in the table of processes.
    let waits = std::thread::Builder::new().name("semel-holder".into());
    let _ = waits.spawn(move || holder.wait());
    true
}

fn found() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent).map(PathBuf::from);
    let search = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&search).filter(|place| place.is_absolute()))
        .map(|place| place.join(COMMAND))
        .find(|command| command.is_file())
}
