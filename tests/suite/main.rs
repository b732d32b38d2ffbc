//! The suite: one binary, a module per behaviour.

mod alerts;
mod architecture;
mod attach;
mod cases;
mod cli_admin;
mod cli_dedup;
mod cli_dedup_stream;
mod cli_demo;
mod cli_every;
mod cli_id;
mod cli_process;
mod cli_resolve;
mod cli_run;
mod cli_run_ends;
mod cli_run_signals;
mod conformance;
mod crash;
mod format;
mod http;
mod life;
mod octokit;
mod payment;
mod readme;
mod reported;
mod schemes;
mod vectors;
