//! A gateway that loses the first answer: the request got through, and the connection breaks before a byte comes back.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::stage::broken;
use crate::cli::exit::Stop;

/// A gateway, until it is dropped.
pub(super) struct Gateway {
    pub(super) address: SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl Gateway {
    /// Stands before a service.
    pub(super) async fn before(service: SocketAddr) -> Result<Self, Stop> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(|error| broken("a gateway cannot listen", error))?;
        let address = listener
            .local_addr()
            .map_err(|error| broken("a gateway has no address", error))?;
        let serving = tokio::spawn(async move {
            let mut first = true;
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(service).await else {
                    continue;
                };
                match std::mem::take(&mut first) {
                    true => lose_answer(client, server).await,
                    false => pass(client, server),
                }
            }
        });
        Ok(Self { address, serving })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Carries the request, and breaks both connections when the answer begins.
async fn lose_answer(mut client: TcpStream, mut server: TcpStream) {
    let (mut asked, mut answered) = ([0; 4096], [0; 1]);
    loop {
        tokio::select! {
            biased;
            _ = server.read(&mut answered) => return,
            read = client.read(&mut asked) => match read {
                Ok(1..) if server.write_all(&asked[..read.unwrap_or(0)]).await.is_ok() => {}
                _ => return,
            },
        }
    }
}

fn pass(mut client: TcpStream, mut server: TcpStream) {
    tokio::spawn(async move {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    });
}
