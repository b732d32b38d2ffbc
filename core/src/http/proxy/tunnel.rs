//! A connection that changes its protocol, as for a WebSocket: from then on bytes go both ways as they come.

use http::header;
use http::{HeaderMap, HeaderValue, Method, Request};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::fields;

/// What a client asks for.
pub(super) struct Asked {
    protocol: HeaderValue,
    client: OnUpgrade,
}

/// Whether a request asks for another protocol. Only a GET can: what a client does besides goes on as a request.
pub(super) fn asked<B>(request: &mut Request<B>) -> Option<Asked> {
    if request.method() != Method::GET {
        return None;
    }
    let protocol = fields::upgrade(request.headers())?;
    // HTTP/2 over plain connections is spoken from the beginning or not at all (RFC 9113, section 3.1).
    if protocol.as_bytes().eq_ignore_ascii_case(b"h2c") {
        return None;
    }
    let client = request.extensions_mut().remove::<OnUpgrade>()?;
    Some(Asked { protocol, client })
}

impl Asked {
    /// Asks the service for the same.
    pub(super) fn ask(&self, fields: &mut HeaderMap) {
        name(fields, &self.protocol);
    }

    /// Tells the client of the change, and joins the two ends once it has been told.
    pub(super) fn join(
        self,
        service: OnUpgrade,
        protocol: Option<HeaderValue>,
        fields: &mut HeaderMap,
    ) {
        name(fields, &protocol.unwrap_or(self.protocol));
        let client = self.client;
        tokio::spawn(async move {
            let (Ok(client), Ok(service)) = tokio::join!(client, service) else {
                return;
            };
            let (mut client, mut service) = (TokioIo::new(client), TokioIo::new(service));
            // When one end breaks there is nobody left to be told.
            let _ = tokio::io::copy_bidirectional(&mut client, &mut service).await;
        });
    }
}

fn name(fields: &mut HeaderMap, protocol: &HeaderValue) {
    fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(header::UPGRADE, protocol.clone());
}
