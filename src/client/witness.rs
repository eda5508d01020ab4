//! What an answer shows of the server's side of the contract, beyond what it means.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;

use super::trace;
use crate::contract::{Contract, IdempotencyKey, read_key};
use crate::retry::Origin;

/// Whether the server says that it answers another key than the one that was sent. Silence is no contradiction, and neither is an
/// echo that is no key.
pub(crate) fn echoes_another_key(
    contract: &Contract,
    key: &IdempotencyKey,
    headers: &HeaderMap,
) -> bool {
    let Some(name) = contract.echo_header() else {
        return false;
    };
    let Ok(Some(echo)) = read_key(headers.get_all(name)) else {
        return false;
    };
    let sent = contract.key_text(key);
    let sent = sent.as_deref().unwrap_or(key.as_str());
    // A UUID is the same in any letter case.
    !echo.as_str().eq_ignore_ascii_case(sent)
}

/// Which servers should mark their replays and have not been seen to.
#[derive(Debug, Default)]
pub(crate) struct Unmarked(Mutex<HashMap<Origin, Seen>>);

#[derive(Clone, Copy, Debug)]
enum Seen {
    /// So many repeats without a marker, and never one with it.
    Silent(u32),
    /// A marker, or the warning was given.
    Settled,
}

/// A repeat may well be the first that arrives, so a single one proves nothing.
const SUSPICIOUS: u32 = 3;
/// How many servers are kept apart. What comes beyond that is not judged.
const MOST: usize = 1024;

impl Unmarked {
    /// Takes note of an answer of a server that marks its replays: whether it had a marker, and whether it may be a replay.
    pub(crate) fn note(&self, origin: Origin, host: &str, marked: bool, may_be_replay: bool) {
        if !marked && !may_be_replay {
            return;
        }
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if servers.len() >= MOST && !servers.contains_key(&origin) {
            return;
        }
        let seen = servers.entry(origin).or_insert(Seen::Silent(0));
        match (*seen, marked) {
            (Seen::Settled, _) => {}
            (Seen::Silent(_), true) => *seen = Seen::Settled,
            (Seen::Silent(before), false) if before + 1 >= SUSPICIOUS => {
                *seen = Seen::Settled;
                trace::never_marks(host, SUSPICIOUS);
            }
            (Seen::Silent(before), false) => *seen = Seen::Silent(before + 1),
        }
    }
}
