//! Power-cut images: what a disk may hold when the power fails at a point of a recording.
//!
//! The model. Of a file, what was written before the last successful sync began is durable; of what was written later
//! any subset of 4 KiB pages may be on the disk, each in any version that it had since, torn at 512 bytes if the choice
//! says so, and the size may be the old or the new one. A sync that failed makes nothing durable, and no later sync
//! makes up for it until a page is written again. Of the names in a directory, those of the last fsync of that very
//! directory are durable, and of the later changes any prefix may be there; a rename happens whole or not at all. A
//! `sync_file_range` promises nothing. Two names of one file become two files in an image.

mod base;
mod choice;
mod content;
mod crash;
mod cuts;
mod directory;
mod disk;
mod sweep;

pub use base::{Base, Tree};
pub use choice::{Choice, Keep};
pub use crash::{Image, build, build_on, second_crash};
pub use cuts::cuts;
pub use disk::Disk;
pub use sweep::{Failure, Report, Sweep};
