//! The server, in a process of its own: HTTP/1.1 on loopback, as plain as can be.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves until it is killed; prints its address first.
///
/// `/ok` answers 201. `/flaky` answers 503 and 201 in turn. `/down` answers 503, `/down/large` with a page
/// of 256 KiB. `/large` answers 200 with 2 MiB, `/chunked` the same without saying how much it is. `/answers` says how many
/// answers other paths have given, in twenty digits.
pub fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            tokio::spawn(serve(stream));
        }
    });
}

async fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut read = Vec::with_capacity(4096);
    loop {
        let Some((head, length)) = head(&read) else {
            match stream.read_buf(&mut read).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        };
        while read.len() < head + length {
            match stream.read_buf(&mut read).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let answer = answer(&read[..head]);
        read.drain(..head + length);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// Answers of `/flaky` so far. Operations come one after the other, so every other answer is a first one.
static TURN: AtomicU64 = AtomicU64::new(0);
static ANSWERS: AtomicU64 = AtomicU64::new(0);

fn answer(head: &[u8]) -> Vec<u8> {
    let path = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    // Some contenders end every path so.
    let path = path.strip_suffix(b"/").unwrap_or(path);
    if path == b"/answers" {
        return reply(
            "200 OK",
            format!("{:020}", ANSWERS.load(Relaxed)).as_bytes(),
        );
    }
    ANSWERS.fetch_add(1, Relaxed);
    match path {
        b"/flaky" if TURN.fetch_add(1, Relaxed).is_multiple_of(2) => {
            reply("503 Service Unavailable", b"busy")
        }
        b"/down" => reply("503 Service Unavailable", b"busy"),
        b"/down/large" => reply("503 Service Unavailable", &[b'x'; 256 * 1024]),
        b"/large" => reply("200 OK", &vec![b'x'; LARGE]),
        b"/chunked" => chunked(),
        _ => reply("201 Created", b"{\"id\":\"pay_000000001\"}"),
    }
}

/// Two MiB less one byte: within the client's default buffer.
pub const LARGE: usize = 2 * 1024 * 1024 - 1;

fn reply(status: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn chunked() -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for chunk in vec![b'x'; LARGE].chunks(16 * 1024) {
        answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        answer.extend_from_slice(chunk);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    answer
}

/// The length of the head and of the body behind it.
fn head(read: &[u8]) -> Option<(usize, usize)> {
    let end = read.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&read[..end]).ok()?.to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0);
    Some((end, length))
}

/// The server's process; killed when dropped.
pub struct Server {
    process: Child,
    pub addr: String,
}

impl Server {
    pub fn start() -> Self {
        let this = std::env::current_exe().expect("this program");
        let mut process = Command::new(this)
            .arg("server")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut addr = String::new();
        BufReader::new(process.stdout.take().expect("its output"))
            .read_line(&mut addr)
            .expect("its address");
        Self {
            process,
            addr: addr.trim().to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
