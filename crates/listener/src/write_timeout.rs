//! An I/O stream that fails when the other side stops reading.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Fails with [`io::ErrorKind::TimedOut`] when nothing could be written for `timeout` although
/// there was something to write. Reads never time out here.
pub struct WriteTimeout<S> {
    stream: S,
    timeout: Duration,
    /// Allocated by the first write that waits: most connections never need it.
    deadline: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream.
    pub fn new(stream: S, timeout: Duration) -> Self {
        Self {
            stream,
            timeout,
            deadline: None,
            is_waiting: false,
        }
    }

    /// Fails a pending write once the deadline has passed; every write after that fails at once.
    fn limit<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        let timeout = self.timeout;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep(timeout)));
        if !self.is_waiting {
            self.is_waiting = true;
            deadline.as_mut().reset(Instant::now() + timeout);
        }
        ready!(deadline.as_mut().poll(context));
        let why = "the client does not read the response";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(context, written)
    }

    // Without this, hyper copies each response into a buffer that it keeps for as long as the
    // connection is open.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.limit(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limit(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn a_write_that_nobody_reads_fails() {
        let (near, _far) = duplex(4);
        let mut stream = WriteTimeout::new(near, TIMEOUT);
        let started = Instant::now();
        let error = stream.write_all(b"12345").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= TIMEOUT);
        let again = stream.write_all(b"5").await.unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < 2 * TIMEOUT, "it does not wait again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_served_to_the_end() {
        let (near, mut far) = duplex(1);
        let mut stream = WriteTimeout::new(near, TIMEOUT);
        let reading = async {
            for _ in 0..5 {
                sleep(TIMEOUT / 2).await;
                far.read_u8().await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(b"12345"), reading);
        written.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn time_between_writes_does_not_count() {
        let (near, mut far) = duplex(1);
        let mut stream = WriteTimeout::new(near, TIMEOUT);
        for _ in 0..2 {
            let reading = async {
                sleep(TIMEOUT / 2).await;
                far.read_u16().await.unwrap();
            };
            let (written, ()) = tokio::join!(stream.write_all(b"12"), reading);
            written.unwrap();
            sleep(2 * TIMEOUT).await;
        }
    }
}
