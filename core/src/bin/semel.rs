//! The `semel` command.

fn main() -> std::process::ExitCode {
    semel::cli::main()
}
