//! Where the data lies while it is measured: one temporary directory on a real disk, removed at the end.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::outcome::Outcome;

/// The environment variable that names another place than the build directory.
pub const PLACE: &str = "SEMEL_BENCH_DIR";

const RAMFS_MAGIC: libc::c_long = 0x8584_58f6;

/// A temporary directory on a real disk. Dropping it removes it.
pub struct Ground {
    root: TempDir,
}

impl Ground {
    /// A new directory below `SEMEL_BENCH_DIR`, or beside the benchmark's executable: build directories lie on disks.
    pub fn prepare() -> Outcome<Self> {
        let place = match std::env::var_os(PLACE) {
            Some(place) => PathBuf::from(place),
            None => std::env::current_exe()?
                .parent()
                .ok_or("the executable lies nowhere")?
                .to_owned(),
        };
        if [libc::TMPFS_MAGIC, RAMFS_MAGIC].contains(&kind(&place)?) {
            return Err(format!(
                "{} is in memory; name a directory on a disk in {PLACE}",
                place.display()
            )
            .into());
        }
        Ok(Self {
            root: tempfile::Builder::new()
                .prefix("semel-bench-")
                .tempdir_in(place)?,
        })
    }

    /// A path that does not exist yet; stores make it.
    pub fn spot(&self, name: &str) -> PathBuf {
        let mut free = (0..).map(|n: u32| self.root.path().join(format!("{name}-{n}")));
        free.find(|path| !path.exists()).unwrap_or_default()
    }

    /// The kind of the file system, as far as it is known.
    pub fn file_system(&self) -> &'static str {
        match kind(self.root.path()) {
            Ok(libc::EXT4_SUPER_MAGIC) => "ext4",
            Ok(libc::XFS_SUPER_MAGIC) => "xfs",
            Ok(libc::BTRFS_SUPER_MAGIC) => "btrfs",
            Ok(libc::OVERLAYFS_SUPER_MAGIC) => "overlayfs",
            _ => "an unnamed file system",
        }
    }

    /// Removes what earlier questions left.
    pub fn clear(&self) {
        for entry in std::fs::read_dir(self.root.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() {
                remove(&path);
            } else {
                // What stays goes with the ground.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Removes a directory; what cannot be removed now goes with the ground.
pub fn remove(dir: &Path) {
    if let Err(error) = std::fs::remove_dir_all(dir) {
        eprintln!("{} stays for now: {error}", dir.display());
    }
}

/// Copies a directory and all below it.
pub fn copy(from: &Path, to: &Path) -> Outcome<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir(to)?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// The number by which the kernel names a kind of file system.
fn kind(place: &Path) -> Outcome<libc::c_long> {
    let path = CString::new(place.as_os_str().as_bytes())?;
    let mut about = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `path` ends with a zero byte, and `about` is room for the answer; all zeroes are a valid statfs.
    let (answer, about) = unsafe {
        (
            libc::statfs(path.as_ptr(), about.as_mut_ptr()),
            about.assume_init(),
        )
    };
    match answer {
        0 => Ok(about.f_type),
        _ => Err(format!("{}: {}", place.display(), std::io::Error::last_os_error()).into()),
    }
}
