//! Fields on their way through: what belongs to one connection goes no further, and the service learns who asked.

use std::net::IpAddr;

use http::header::{self, HeaderName};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request};

use super::fault::Fault;
use crate::http::Running;

/// Fields that belong to one connection (RFC 9110, section 7.6.1), and those that the proxy itself has met.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    // It was answered when the body was asked for.
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Fields that are meant for the end of the line, whatever `Connection` says: a client could otherwise take away what the
/// gateway in front has said of him.
const END_TO_END: [HeaderName; 12] = [
    header::AUTHORIZATION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::FORWARDED,
    header::HOST,
    HeaderName::from_static("idempotency-key"),
    X_FORWARDED_FOR,
    X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
    HeaderName::from_static("x-real-ip"),
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Which attempt of its key a guarded request is, from 1.
const ATTEMPT: HeaderName = HeaderName::from_static("semel-attempt");
/// A number that is higher for every attempt of a key.
const FENCE: HeaderName = HeaderName::from_static("semel-fence");

/// The other end of a client's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) IpAddr);

/// Removes what belongs to one connection; `own` are names that stay though `Connection` lists them.
pub(super) fn remove_hop_by_hop(fields: &mut HeaderMap, own: &[&str]) {
    let named: Vec<HeaderName> = listed(fields)
        .filter(|name| !own.contains(&name.as_str()) && !END_TO_END.contains(name))
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        fields.remove(name);
    }
}

/// The names in `Connection`.
fn listed(fields: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let values = fields.get_all(header::CONNECTION).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .filter_map(|name| name.trim().parse().ok())
}

/// The protocol that a message wants to change to, if it does.
pub(super) fn upgrade(fields: &HeaderMap) -> Option<HeaderValue> {
    let wants = listed(fields).any(|name| name == header::UPGRADE);
    fields.get(header::UPGRADE).filter(|_| wants).cloned()
}

/// The host that the client named: by the target of the request, or by `Host`.
pub(super) fn host<B>(request: &Request<B>) -> Result<Option<HeaderValue>, Fault> {
    let mut given = request.headers().get_all(header::HOST).iter();
    let host = given.next().cloned();
    if given.next().is_some() {
        return Err(Fault::refused("it has more than one Host"));
    }
    match request.uri().authority() {
        // What stands in the target goes before the field (RFC 9112, section 3.2.2).
        Some(authority) => HeaderValue::from_str(authority.as_str())
            .map(Some)
            .map_err(|_| Fault::refused("its host cannot be passed on")),
        None => Ok(host),
    }
}

/// Sets `Host` to what the client named, or to the service's own address.
pub(super) fn set_host(fields: &mut HeaderMap, host: Option<HeaderValue>, authority: &Authority) {
    let own = || HeaderValue::from_str(authority.as_str()).ok();
    if let Some(host) = host.or_else(own) {
        fields.insert(header::HOST, host);
    }
}

/// Says who asked: the address is added to `X-Forwarded-For`, host and protocol are named unless whoever is in front has.
pub(super) fn forwarded(fields: &mut HeaderMap, peer: Option<Peer>, host: Option<&HeaderValue>) {
    if let Some(Peer(address)) = peer {
        let before = fields.get_all(&X_FORWARDED_FOR).iter();
        let mut chain: Vec<String> = before
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect();
        chain.push(address.to_canonical().to_string());
        if let Ok(value) = HeaderValue::from_str(&chain.join(", ")) {
            fields.insert(X_FORWARDED_FOR, value);
        }
    }
    if let Some(host) = host {
        fields
            .entry(X_FORWARDED_HOST)
            .or_insert_with(|| host.clone());
    }
    fields
        .entry(X_FORWARDED_PROTO)
        .or_insert_with(|| HeaderValue::from_static("http"));
}

/// Says which attempt a guarded request is, for a service that can tell an older one; nobody else can say so.
pub(super) fn attempt(fields: &mut HeaderMap, running: Option<&Running>) {
    fields.remove(&ATTEMPT);
    fields.remove(&FENCE);
    if let Some(running) = running {
        fields.insert(ATTEMPT, running.attempt().into());
        fields.insert(FENCE, running.fence().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in pairs {
            fields.append(*name, HeaderValue::from_static(value));
        }
        fields
    }

    #[test]
    fn what_belongs_to_a_connection_goes_no_further() {
        let mut all = fields(&[
            ("connection", "close, X-Hop"),
            (
                "connection",
                "x-user, idempotency-key, content-length, upgrade",
            ),
            ("x-hop", "1"),
            ("x-user", "ann"),
            ("idempotency-key", "k"),
            ("content-length", "3"),
            ("upgrade", "websocket"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "timeout=5"),
            ("expect", "100-continue"),
        ]);
        assert_eq!(upgrade(&all), Some(HeaderValue::from_static("websocket")));
        remove_hop_by_hop(&mut all, &["x-user"]);
        let mut left: Vec<&str> = all.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "idempotency-key", "x-user"]);
        assert_eq!(upgrade(&fields(&[("upgrade", "h2c")])), None, "not listed");
    }

    #[test]
    fn the_service_learns_who_asked() {
        let peer = Some(Peer("::ffff:192.0.2.7".parse().expect("an address")));
        let host = HeaderValue::from_static("shop");
        let mut all = fields(&[("x-forwarded-for", "a"), ("x-forwarded-for", "b")]);
        forwarded(&mut all, peer, Some(&host));
        let expect = [
            ("x-forwarded-for", "a, b, 192.0.2.7"),
            ("x-forwarded-host", "shop"),
            ("x-forwarded-proto", "http"),
        ];
        for (name, value) in expect {
            assert_eq!(
                all.get_all(name).iter().collect::<Vec<_>>(),
                [value],
                "{name}"
            );
        }
        let mut told = fields(&[
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "front"),
        ]);
        forwarded(&mut told, None, Some(&host));
        assert_eq!(told["x-forwarded-proto"], "https");
        assert_eq!(told["x-forwarded-host"], "front");
        assert!(!told.contains_key("x-forwarded-for"));
    }
}
