//! An address at which nobody listens.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// A loopback port whose connections the system refuses, for as long as this value lives.
///
/// The port is bound and never listened on. Freed instead, it could become the port of another test's server.
pub(crate) struct Refused {
    socket: TcpSocket,
}

impl Refused {
    /// Takes a port.
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self { socket }
    }

    /// The address that refuses.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// From now on somebody listens there.
    pub(super) fn listen(self) -> TcpListener {
        self.socket.listen(128).unwrap()
    }

    /// An `http` URL there; `path` starts with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }
}
