//! A way to the database that can be cut: bytes stop, connections stay open.

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A running proxy; ends with the test.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    open: watch::Sender<bool>,
}

impl Proxy {
    /// Leads to a port on this machine.
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, to, is_open.clone()));
            }
        });
        Self { port, open }
    }

    /// From now on nothing gets through.
    pub(crate) fn cut(&self) {
        self.open.send_replace(false);
    }

    /// From now on everything gets through again.
    pub(crate) fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn carry(near: TcpStream, to: u16, is_open: watch::Receiver<bool>) {
    let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else {
        return;
    };
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    tokio::join!(
        copy(near_in, far_out, is_open.clone()),
        copy(far_in, near_out, is_open)
    );
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut is_open: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await;
        // A cut also hides that the other side has closed.
        if is_open.wait_for(|open| *open).await.is_err() {
            return;
        }
        let Ok(length @ 1..) = read else {
            let _ = to.shutdown().await;
            return;
        };
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
