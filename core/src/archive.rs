//! A line of the archive: what a sweep is about to drop, as JSON.

use crate::codec::Content;
use crate::info::Info;

/// The line of a record; `None` for what is no operation's.
pub(crate) fn line(key: &[u8], content: &Content) -> Option<String> {
    let Content::Record(record) = content else {
        return None;
    };
    // As it was while it was kept: a result that has lost its time is archived all the same.
    let mut info = Info::of_record(key, record, 0, false)?;
    info.doubt = None;
    let mut line = serde_json::to_string(&info).ok()?;
    line.push('\n');
    Some(line)
}
