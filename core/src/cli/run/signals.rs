//! Signals that would end `semel run` go to its command instead, so that the end of the command is always recorded.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a person, a terminal or a supervisor sends to end a program.
const FORWARDED: [libc::c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The end of the pipe that the handler writes to.
static CAUGHT: AtomicI32 = AtomicI32::new(-1);

/// Forwards signals to one command while it lives.
pub(crate) struct Forwarding {
    /// The process id, while it is certain to be the command's: from its start until it is reaped.
    living: Arc<Mutex<Option<libc::pid_t>>>,
}

impl Forwarding {
    /// From now on the signals are caught. One that the process was told to ignore (`nohup`) stays ignored.
    pub(crate) fn begin() -> io::Result<Self> {
        let (mut caught, notify) = io::pipe()?;
        // SAFETY: the descriptor is open; O_NONBLOCK keeps the handler from ever blocking.
        unsafe { libc::fcntl(notify.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        CAUGHT.store(notify.into_raw_fd(), Ordering::SeqCst);
        let living = Arc::new(Mutex::new(None));
        let target = Arc::clone(&living);
        std::thread::Builder::new()
            .name("semel-signals".to_owned())
            .spawn(move || {
                let mut signal = [0u8; 1];
                while matches!(caught.read(&mut signal), Ok(1)) {
                    forward(&target, libc::c_int::from(signal[0]));
                }
            })?;
        for signal in FORWARDED {
            catch(signal)?;
        }
        Ok(Self { living })
    }

    /// Starts the command. A signal that comes meanwhile waits, and then reaches it.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Child> {
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        *living = Some(child.id() as libc::pid_t);
        Ok(child)
    }

    /// Waits for the end of the command. Its process id is given up before another process can get it.
    pub(crate) fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        wait_without_reaping(child.id())?;
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        *living = None;
        child.wait()
    }
}

fn forward(living: &Mutex<Option<libc::pid_t>>, signal: libc::c_int) {
    if let Some(pid) = *living.lock().unwrap_or_else(PoisonError::into_inner) {
        // SAFETY: the lock is held, so the process is not reaped and the id is still its own.
        unsafe { libc::kill(pid, signal) };
    }
}

fn wait_without_reaping(pid: u32) -> io::Result<()> {
    loop {
        // SAFETY: all zero is a valid siginfo_t for the call to fill.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for writing, and the id is that of a child which nobody else reaps.
        match unsafe {
            libc::waitid(
                libc::P_PID,
                pid as libc::id_t,
                &mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        } {
            0 => return Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

fn catch(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: all zero is a valid sigaction; both pointers are valid for the calls; the handler only does what a
    // signal handler may.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        if before.sa_sigaction == libc::SIG_IGN {
            return Ok(());
        }
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = note;
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        match libc::sigaction(signal, &action, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The handler. A key of the terminal signals the whole foreground group: the command has it already, and must not get it twice.
extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system passes a valid siginfo_t.
    if unsafe { came_from_terminal(&*info) } {
        return;
    }
    let byte = signal as u8;
    // SAFETY: write is async-signal-safe, the byte is valid, and the descriptor is never closed.
    unsafe { libc::write(CAUGHT.load(Ordering::SeqCst), (&raw const byte).cast(), 1) };
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn came_from_terminal(info: &libc::siginfo_t) -> bool {
    // Processes send with codes of zero and below; the terminal's driver sends as the kernel.
    info.si_code > 0
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn came_from_terminal(info: &libc::siginfo_t) -> bool {
    // SAFETY: for the signals caught here the sender's process id is set; the kernel's is zero.
    unsafe { info.si_pid() == 0 }
}

/// A signal's name, for people.
pub(crate) fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGUSR2 => "SIGUSR2",
        _ => "no common one",
    }
}
