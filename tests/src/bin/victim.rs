//! The process that the crash harnesses kill, spoil and fork: `semel-victim PART ARGUMENTS...`.

fn main() -> std::process::ExitCode {
    semel_tests::victim::main(std::env::args().skip(1).collect())
}
