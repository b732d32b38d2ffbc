//! A service behind the proxy, whose every byte a test decides.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request as the service got it.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) line: String,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Heard {
    /// The values of a field.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        let named = |(given, _): &&(String, String)| given.eq_ignore_ascii_case(name);
        let values = self.fields.iter().filter(named);
        values.map(|(_, value)| value.as_str()).collect()
    }

    pub(super) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// What becomes of a connection after a request.
pub(super) enum Then {
    Next,
    Close,
}

type Handler = dyn Fn(&Heard, &mut TcpStream) -> Then + Send + Sync;

/// A service that listens until the test ends.
pub(super) struct Service {
    pub(super) address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    connections: Arc<AtomicUsize>,
}

impl Service {
    /// A service that answers so.
    pub(super) fn new(
        handler: impl Fn(&Heard, &mut TcpStream) -> Then + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self::at(listener, handler)
    }

    pub(super) fn at(
        listener: TcpListener,
        handler: impl Fn(&Heard, &mut TcpStream) -> Then + Send + Sync + 'static,
    ) -> Self {
        let service = Self {
            address: listener.local_addr().expect("an address"),
            heard: Arc::default(),
            connections: Arc::default(),
        };
        let (heard, connections) = (service.heard.clone(), service.connections.clone());
        let handler: Arc<Handler> = Arc::new(handler);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                connections.fetch_add(1, Ordering::SeqCst);
                let (heard, handler) = (heard.clone(), handler.clone());
                thread::spawn(move || serve(stream, &heard, &*handler));
            }
        });
        service
    }

    /// A service that answers 201 with its count of requests.
    pub(super) fn counting() -> Self {
        let count = AtomicUsize::new(0);
        Self::new(move |_, stream| {
            let body = format!("made {}", count.fetch_add(1, Ordering::SeqCst) + 1);
            respond(
                stream,
                "201 Created",
                "Content-Type: text/plain\r\n",
                body.as_bytes(),
            );
            Then::Next
        })
    }

    /// All requests so far.
    pub(super) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().expect("not poisoned").clone()
    }

    /// How many connections came in.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers with a whole body.
pub(super) fn respond(stream: &mut TcpStream, status: &str, fields: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    );
    // Whoever asked may have gone.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

/// Closes a connection so that the other end gets a reset.
pub(super) fn reset(stream: &TcpStream) {
    use std::os::fd::AsRawFd;
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the option is given a value of its type and length.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    assert_eq!(done, 0);
}

fn serve(mut stream: TcpStream, heard: &Mutex<Vec<Heard>>, handler: &Handler) {
    let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
    while let Some(request) = read(&mut reader) {
        heard.lock().expect("not poisoned").push(request.clone());
        if let Then::Close = handler(&request, &mut stream) {
            return;
        }
    }
}

/// The next request of a connection; `None` at its end, and for what is no request.
fn read(reader: &mut impl BufRead) -> Option<Heard> {
    let line = text(reader)?;
    let mut request = Heard {
        line,
        fields: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let line = text(reader)?;
        match line.split_once(':') {
            Some((name, value)) => {
                let value = value.trim().to_owned();
                request.fields.push((name.to_owned(), value));
            }
            None => break,
        }
    }
    if let [length] = request.all("content-length")[..] {
        request.body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut request.body).ok()?;
    } else if request.all("transfer-encoding") == ["chunked"] {
        while let length @ 1.. = usize::from_str_radix(&text(reader)?, 16).ok()? {
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk).ok()?;
            request.body.extend_from_slice(&chunk[..length]);
        }
        text(reader)?;
    }
    Some(request)
}

/// A line without its end; `None` at the end of all.
fn text(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    match reader.read_line(&mut line) {
        Ok(1..) => Some(line.trim_end().to_owned()),
        _ => None,
    }
}

/// A service that answers when it is let to, who hears of each request, and who lets it.
pub(super) fn gated() -> (Service, Receiver<()>, Sender<()>) {
    let (arrived, here) = channel();
    let (let_go, gate) = channel();
    let (arrived, gate) = (Mutex::new(arrived), Mutex::new(gate));
    let service = Service::new(move |_, stream| {
        let _ = arrived.lock().expect("not poisoned").send(());
        let _ = gate.lock().expect("not poisoned").recv();
        respond(stream, "201 Created", "", b"made");
        Then::Next
    });
    (service, here, let_go)
}
