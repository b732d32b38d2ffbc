//! The command line: its subcommands and how the process ends.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cli::exit::{self, Stop};
use crate::cli::output::say;
use crate::cli::{
    backup, dedup, demo, forget, hold, id, list, lookup, proxy, resolve, restore, run, stats,
    sweep, unresolved, verify,
};

/// Makes an operation take effect once, however often it is asked for, and gives every repeat the first answer.
#[derive(Debug, Parser)]
#[command(
    name = "semel",
    version,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Dedup(dedup::Dedup),
    Proxy(proxy::RunProxy),
    Demo(demo::Demo),
    List(list::List),
    Lookup(lookup::Lookup),
    Unresolved(unresolved::Unresolved),
    Resolve(resolve::Resolve),
    Stats(stats::ShowStats),
    Sweep(sweep::Sweep),
    Forget(forget::Forget),
    Hold(hold::Hold),
    Id(id::Id),
    Verify(verify::Verify),
    Backup(backup::Backup),
    Restore(restore::Restore),
    #[command(hide = true)]
    DemoWorker(demo::Worker),
    #[command(hide = true)]
    DemoService(demo::Serve),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(told) => {
            // Nobody may be there to read it, which changes nothing.
            let _ = told.print();
            return ExitCode::from(if told.use_stderr() {
                exit::USAGE
            } else {
                exit::DONE
            });
        }
    };
    match run(&line.command) {
        Ok(status) => ExitCode::from(status),
        Err(Stop { status, message }) => {
            if let Some(message) = message {
                say(format_args!("semel: {message}"));
            }
            ExitCode::from(status)
        }
    }
}

fn run(command: &Command) -> exit::Ending {
    match command {
        Command::Run(run) => run.run(),
        Command::Dedup(dedup) => dedup.run(),
        Command::Proxy(proxy) => proxy.run(),
        Command::Demo(demo) => demo.run(),
        Command::List(list) => list.run(),
        Command::Lookup(lookup) => lookup.run(),
        Command::Unresolved(unresolved) => unresolved.run(),
        Command::Resolve(resolve) => resolve.run(),
        Command::Stats(stats) => stats.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Forget(forget) => forget.run(),
        Command::Hold(hold) => hold.run(),
        Command::Id(id) => id.run(),
        Command::Verify(verify) => verify.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::DemoWorker(worker) => worker.run(),
        Command::DemoService(service) => service.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }
}
