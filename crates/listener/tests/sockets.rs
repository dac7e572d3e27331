//! Real sockets: connections are limited per socket and shared between client addresses.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::{net::SocketAddr, time::Duration};

use axum::response::IntoResponse;
use http::StatusCode;
use listener::{ConnectionLimits, Connections};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_util::sync::CancellationToken;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const HALF_A_REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n";

fn at_most(connections: usize) -> ConnectionLimits {
    ConnectionLimits {
        connections,
        header_timeout: Duration::from_secs(15),
        write_timeout: Duration::from_secs(15),
        header_count: Some(8),
        header_bytes: 16 << 10,
        grace_period: Duration::from_secs(5),
    }
}

/// Answers every request with 404 until it is dropped.
async fn listen(connections: &Connections) -> SocketAddr {
    let socket = listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = socket.local_addr().unwrap();
    connections.accept(socket, |_, _| async {
        StatusCode::NOT_FOUND.into_response()
    });
    address
}

/// Connects from an address of this machine and sends something.
async fn send_from(client: [u8; 4], to: SocketAddr, text: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((client, 0).into()).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    // The other side may have closed the connection already.
    let _ = stream.write_all(text.as_bytes()).await;
    stream
}

/// The start of a response; empty where the connection is closed without one.
async fn response(stream: &mut TcpStream) -> String {
    let mut start = [0; 12];
    let read = stream.read_exact(&mut start).await;
    let start = String::from_utf8_lossy(&start).into_owned();
    read.map(|_| start).unwrap_or_default()
}

#[tokio::test]
async fn a_full_socket_does_not_affect_another() {
    let connections = Connections::new(at_most(1), None, CancellationToken::new());
    let pages = listen(&connections).await;
    let hooks = listen(&connections).await;
    let mut held = send_from([127, 0, 0, 1], pages, REQUEST).await;
    assert_eq!(response(&mut held).await, "HTTP/1.1 404");
    let mut refused = send_from([127, 0, 0, 1], pages, REQUEST).await;
    assert_eq!(response(&mut refused).await, "");
    let mut other = send_from([127, 0, 0, 1], hooks, REQUEST).await;
    assert_eq!(response(&mut other).await, "HTTP/1.1 404");
}

#[tokio::test]
async fn half_sent_requests_of_one_address_keep_no_other_out() {
    const CONNECTIONS: usize = 8;
    let connections = Connections::new(at_most(CONNECTIONS), None, CancellationToken::new());
    let address = listen(&connections).await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS + 3 {
        held.push(send_from([127, 0, 0, 1], address, HALF_A_REQUEST).await);
    }
    for _ in 0..CONNECTIONS / 2 {
        let mut stream = send_from([127, 0, 0, 2], address, REQUEST).await;
        assert_eq!(response(&mut stream).await, "HTTP/1.1 404");
        held.push(stream);
    }
}

#[tokio::test]
async fn stopping_closes_idle_connections_and_the_socket() {
    let stop = CancellationToken::new();
    let connections = Connections::new(at_most(8), None, stop.clone());
    let address = listen(&connections).await;
    let mut idle = send_from([127, 0, 0, 1], address, REQUEST).await;
    assert_eq!(response(&mut idle).await, "HTTP/1.1 404");
    stop.cancel();
    connections.closed().await;
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
