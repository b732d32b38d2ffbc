//! Where the proxy listens, and where it passes requests on to.

use std::fmt;
use std::path::PathBuf;

use http::Uri;
use http::uri::Authority;

use crate::error::{Error, Result};

/// The longest path of a Unix socket that every system takes, in bytes.
const MAX_SOCKET_PATH_BYTES: usize = 103;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At an address of the network.
    Network(String),
    /// At a Unix socket.
    Socket(PathBuf),
}

impl Place {
    /// From its text: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, or `unix:PATH`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.len() {
                0 => Err(Error::invalid("unix: lacks the path; write unix:PATH")),
                1..=MAX_SOCKET_PATH_BYTES => Ok(Self::Socket(path.into())),
                bytes => Err(Error::invalid(format!(
                    "the path of the socket has {bytes} bytes; at most {MAX_SOCKET_PATH_BYTES} are allowed: choose a shorter one"
                ))),
            };
        }
        let host_and_port = text.parse::<Authority>().ok().filter(|authority| {
            authority.port_u16().is_some() && !authority.host().is_empty() && !text.contains('@')
        });
        match host_and_port {
            Some(_) => Ok(Self::Network(text.to_owned())),
            None => Err(Error::invalid(format!(
                "{text:?} is no address to listen at; write HOST:PORT, like 127.0.0.1:8080, or unix:PATH"
            ))),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(address) => f.write_str(address),
            Self::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The service that requests are passed on to: its authority, `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target(Authority);

impl Target {
    /// From its URL: `http://HOST` or `http://HOST:PORT`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = |words: &str| Error::invalid(format!("{text:?}: {words}"));
        let uri: Uri = text
            .parse()
            .map_err(|_| wrong("it is no URL; write one like http://127.0.0.1:5000"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(wrong(
                    "the proxy speaks no TLS; it stands beside its service: name the service's plain address, like http://127.0.0.1:5000",
                ));
            }
            _ => {
                return Err(wrong(
                    "it is no URL of HTTP; write one like http://127.0.0.1:5000",
                ));
            }
        }
        if uri.path() != "/" || uri.query().is_some() {
            return Err(wrong(
                "it has a path, and requests keep their own; write the address alone",
            ));
        }
        match uri.into_parts().authority {
            Some(authority) if authority.as_str().contains('@') => Err(wrong(
                "it has a user or a password, which are not sent; leave them out",
            )),
            Some(authority) if !authority.host().is_empty() => Ok(Self(authority)),
            _ => Err(wrong("it lacks the host")),
        }
    }

    /// `host:port`, or `host`.
    pub(super) fn authority(&self) -> &Authority {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_or_sockets() {
        for text in ["127.0.0.1:0", "[::1]:80", "localhost:8080"] {
            assert_eq!(
                Place::parse(text).ok(),
                Some(Place::Network(text.to_owned()))
            );
        }
        let socket = Place::parse("unix:/run/a.sock").ok();
        assert_eq!(socket, Some(Place::Socket("/run/a.sock".into())));
        let long = format!("unix:/{}", "a".repeat(103));
        for text in [
            "",
            "8080",
            ":8080",
            "localhost",
            "a@b:1",
            "host:99999",
            "unix:",
            &long,
        ] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_target_is_a_plain_address() {
        for (text, authority) in [("http://a:5000", "a:5000"), ("http://[::1]/", "[::1]")] {
            let target = Target::parse(text).expect("a target");
            assert_eq!(target.authority(), authority);
        }
        for (text, words) in [
            ("https://a", "no TLS"),
            ("a:5000", "http://"),
            ("http://a/path", "path"),
            ("http://u:p@a", "password"),
            ("http://", "URL"),
        ] {
            let error = Target::parse(text).expect_err(text);
            assert!(error.message().contains(words), "{text}: {error}");
        }
    }
}
