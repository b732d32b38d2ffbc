//! What the kernel says of this process and its files: memory, reads, disk.

use std::path::Path;

use crate::outcome::Outcome;

/// The memory that this process has resident, in bytes.
pub fn resident_bytes() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).ok_or("statm has no second word")?;
    // SAFETY: sysconf reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(pages.parse::<f64>()? * page as f64)
}

/// The most memory that this process ever had resident, in bytes.
pub fn peak_bytes() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .ok_or("status has no VmHWM")?;
    let kib = line
        .split_whitespace()
        .nth(1)
        .ok_or("VmHWM has no number")?;
    Ok(kib.parse::<f64>()? * 1024.0)
}

/// How many read calls the calling thread has made. Asking costs a few itself.
pub fn thread_reads() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io")?;
    let line = text
        .lines()
        .find(|line| line.starts_with("syscr:"))
        .ok_or("io has no syscr")?;
    Ok(line.trim_start_matches("syscr:").trim().parse()?)
}

/// What a directory's files take on disk, in bytes.
pub fn disk_bytes(dir: &Path) -> Outcome<f64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0.0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // A store may remove a file between the listing and the look.
        let Ok(about) = entry.metadata() else {
            continue;
        };
        sum += if about.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            about.blocks() as f64 * 512.0
        };
    }
    Ok(sum)
}

/// Keeps this thread, and what it starts, on so many of the processors that it may use, until this is dropped.
pub struct Placed(libc::cpu_set_t);

impl Placed {
    /// On the first `processors`.
    pub fn on(processors: usize) -> Outcome<Self> {
        // SAFETY: a set of processors is plain bits, and the calls get its size.
        unsafe {
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            let bytes = size_of::<libc::cpu_set_t>();
            if libc::sched_getaffinity(0, bytes, &mut before) != 0 {
                return Err(std::io::Error::last_os_error().into());
            }
            let mut few: libc::cpu_set_t = std::mem::zeroed();
            let usable = (0..libc::CPU_SETSIZE as usize).filter(|at| libc::CPU_ISSET(*at, &before));
            usable
                .take(processors)
                .for_each(|at| libc::CPU_SET(at, &mut few));
            match libc::sched_setaffinity(0, bytes, &few) {
                0 => Ok(Self(before)),
                _ => Err(std::io::Error::last_os_error().into()),
            }
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // SAFETY: as above; where it fails, the thread stays where it is.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) };
    }
}
