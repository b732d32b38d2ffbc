//! Does one call for each line of its input, and answers with the error number: 0 when it was done.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Ended;

pub(super) fn play(dir: &Path) -> Ended {
    let open = |name: &str| {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(name))
    };
    let (f, g) = (open("f")?, open("g")?);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (verb, name) = line.split_once(' ').ok_or("a line without a name")?;
        let path = dir.join(if name == "." { "" } else { name });
        let done = act(if name == "g" { &g } else { &f }, verb, &path);
        println!(
            "{}",
            done.map_or_else(|e| e.raw_os_error().unwrap_or(-2), |()| 0)
        );
    }
    Ok(())
}

fn checked(status: i32) -> io::Result<()> {
    if status < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn act(mut file: &File, verb: &str, path: &Path) -> io::Result<()> {
    match verb {
        "pwrite" => file.write_all_at(&[7; 100], 0),
        "write" => file.write_all(b"abc"),
        "fsync" => file.sync_all(),
        "fdatasync" => file.sync_data(),
        // SAFETY: the descriptor is open.
        "sync_file_range" => checked(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, 7) }),
        "ftruncate" => file.set_len(500),
        "open" => File::open(path).map(drop),
        "read" => file.read(&mut [0; 4]).map(drop),
        "pread" => file.read_at(&mut [0; 4], 0).map(drop),
        "rename" => fs::rename(path, path.with_extension("x")),
        "unlink" => fs::remove_file(path),
        "mkdir" => fs::create_dir(path),
        "fsyncdir" => File::open(path)?.sync_all(),
        // SAFETY: the descriptor is open.
        "fallocate" => match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, 9000) } {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        },
        "fork" => fork_and_write(file),
        "storm" => storm(file),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn fork_and_write(file: &File) -> io::Result<()> {
    // SAFETY: the child writes to an open descriptor and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let written = file.write_all_at(b"child", 0);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(written.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `status` is a valid place for the child's status.
    checked(unsafe { libc::waitpid(child, &raw mut status, 0) })?;
    match status {
        0 => Ok(()),
        _ => Err(io::ErrorKind::Other.into()),
    }
}

/// Writes from four threads, until it is killed.
fn storm(file: &File) -> io::Result<()> {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..1_000_000).for_each(|i| {
                    let _ = file.write_all_at(&[1; 999], i % 50);
                })
            });
        }
    });
    Ok(())
}
