//! Every time after: prints what is kept, and ends as the command did.

use std::io::{self, Write};

use crate::Replay;
use crate::cli::exit::{self, Ending};
use crate::cli::json;
use crate::cli::output::{Output, say};
use crate::cli::run::execution::end_line;
use crate::cli::run::{Outcome, report};

/// Prints the first answer.
pub(super) fn replay(replay: &Replay) -> Ending {
    let Some(outcome) = Outcome::of(&replay.value) else {
        // Somebody resolved the key to a value: that value is the output, and success the status.
        warn_unwritten(
            Output::stdout().and_then(|mut to| to.write_all(&json::printable(&replay.value))),
        );
        return report::replayed(replay, exit::DONE);
    };
    let written =
        Output::stdout().and_then(|mut stdout| outcome.replay(&mut stdout, &mut Output::stderr()?));
    warn_unwritten(written);
    end_line(outcome.leaves_stderr_open());
    if outcome.not_kept > 0 {
        say(format_args!(
            "[semel: output beyond {} bytes was not kept]",
            outcome.total_bytes()
        ));
    }
    report::replayed(replay, outcome.status)
}

fn warn_unwritten(written: io::Result<()>) {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(format_args!(
                "semel: the kept output cannot be written: {error}"
            ));
        }
        _ => {}
    }
}
