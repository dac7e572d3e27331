//! A TCP proxy in front of a leaf cluster that can be cut, as a network is.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

pub(crate) struct LeafProxy {
    pub(crate) address: SocketAddr,
    is_connected: Arc<watch::Sender<bool>>,
}

impl LeafProxy {
    pub(crate) async fn start(cluster: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_connected = Arc::new(watch::Sender::new(true));
        let state = is_connected.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if *state.borrow() {
                    tokio::spawn(forward(stream, cluster, state.subscribe()));
                }
            }
        });
        Self {
            address,
            is_connected,
        }
    }

    /// While disconnected, connections are closed, open ones too.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.is_connected.send_replace(is_connected);
    }
}

async fn forward(mut from: TcpStream, to: SocketAddr, mut state: watch::Receiver<bool>) {
    let Ok(mut to) = TcpStream::connect(to).await else {
        return;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut from, &mut to) => {}
        _ = state.wait_for(|is_connected| !is_connected) => {}
    }
}
