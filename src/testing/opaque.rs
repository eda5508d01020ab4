//! Faults on connections of which only the bytes are known.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::answer::GARBAGE;
use super::fault::Fault;
use super::http1::Meter;

/// How much of what the server says reaches the client, and what then happens to the connection.
struct Plan {
    bytes: u64,
    hold: Duration,
    instead: &'static [u8],
    then: Then,
}

#[derive(PartialEq)]
enum Then {
    Close,
    Reset,
    Silence,
}

impl Plan {
    fn of(fault: &Fault) -> Self {
        let mut plan = Self {
            bytes: u64::MAX,
            hold: Duration::ZERO,
            instead: b"",
            then: Then::Close,
        };
        match fault {
            Fault::SlowHandler(lasting) => plan.hold = *lasting,
            Fault::CommitThenDropReply => plan.bytes = 0,
            Fault::CommitThenReset => (plan.bytes, plan.then) = (0, Then::Reset),
            Fault::CutAnswer { after } => plan.bytes = *after as u64,
            Fault::StallBeforeHeaders => (plan.bytes, plan.then) = (0, Then::Silence),
            Fault::StallInBody { after } => {
                (plan.bytes, plan.then) = (*after as u64, Then::Silence);
            }
            Fault::Garbage => (plan.bytes, plan.instead) = (0, GARBAGE),
            _ => {}
        }
        plan
    }
}

/// Passes one connection on, with its fault.
pub(super) async fn pass(mut client: TcpStream, to: SocketAddr, fault: &Fault, meter: &Meter) {
    if *fault == Fault::CloseBeforeReading {
        let _ = client.set_zero_linger();
        return;
    }
    let Ok(mut server) = TcpStream::connect(to).await else {
        return;
    };
    let plan = Plan::of(fault);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        let _ = copy(&mut from_client, &mut to_server, u64::MAX, &meter.read).await;
        let _ = to_server.shutdown().await;
    };
    let down = async {
        // The server has spoken, so it has done its work.
        let first = from_server.peek(&mut [0]).await;
        tokio::time::sleep(plan.hold).await;
        if first.is_ok() {
            let _ = to_client.write_all(plan.instead).await;
            let _ = copy(&mut from_server, &mut to_client, plan.bytes, &meter.written).await;
        }
        if plan.then != Then::Silence && plan.then != Then::Reset {
            let _ = to_client.shutdown().await;
        }
    };
    if plan.bytes == u64::MAX {
        tokio::join!(up, down);
        return;
    }
    match plan.then {
        // Until the client closes.
        Then::Silence => {
            tokio::join!(up, down);
        }
        _ => tokio::select! {
            () = down => {}
            // A client that has said everything still waits for its answer.
            () = async { up.await; std::future::pending().await } => {}
        },
    }
    if plan.then == Then::Reset {
        let _ = client.set_zero_linger();
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    most: u64,
    count: &AtomicU64,
) -> io::Result<()> {
    let mut left = most;
    let mut buffer = vec![0; 16 * 1024];
    while left > 0 {
        let room = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let read = from.read(&mut buffer[..room]).await?;
        if read == 0 {
            break;
        }
        count.fetch_add(read as u64, Ordering::SeqCst);
        to.write_all(&buffer[..read]).await?;
        left -= read as u64;
    }
    Ok(())
}
