//! A gate behind which an answer waits.

use tokio::sync::watch;

/// Holds an answer until the test opens it; clones are the same gate.
///
/// ```ignore
/// let gate = Gate::new();
/// let server = ScriptedServer::new([Step::wait_for(&gate, Step::reply(201, &[], ""))]);
/// // … start the call …
/// gate.reached().await; // the request has been read, the answer is being held
/// gate.open();
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    open: watch::Sender<bool>,
    reached: watch::Sender<bool>,
}

impl Gate {
    /// A closed gate.
    pub(crate) fn new() -> Self {
        Self {
            open: watch::Sender::new(false),
            reached: watch::Sender::new(false),
        }
    }

    /// Lets everything through, now and later.
    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until somebody stands at the gate, or has passed it.
    pub(crate) async fn reached(&self) {
        wait(&self.reached).await;
    }

    /// Waits until the gate is open.
    pub(crate) async fn pass(&self) {
        self.reached.send_replace(true);
        wait(&self.open).await;
    }
}

async fn wait(flag: &watch::Sender<bool>) {
    flag.subscribe().wait_for(|set| *set).await.unwrap();
}
