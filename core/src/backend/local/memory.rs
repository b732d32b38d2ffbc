//! Memory that was let go, given back to the system.

/// Gives back what the allocator keeps for later. After a log was read that is as much as the log, and a store that was
/// just opened does not need it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn give_back() {
    // SAFETY: the call has no preconditions; it takes the allocator's own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back() {}
