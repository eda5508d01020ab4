//! What was read of a body, in one piece.

use bytes::Bytes;

/// What may be set aside at once for a body of a stated length: the statement may be a lie.
const MOST: usize = 2 * 1024 * 1024;

/// The beginning of a body, up to all of it.
///
/// One chunk stays as it came. More than one are copied together: a chunk is a slice of the transport's read buffer and would
/// keep all of that.
///
/// A body is never twice in memory, here and in the room that is set aside for it. Of a stated length there is as much room as
/// is needed, once; beyond 2 MiB it is the half or the quarter that came first and then the whole. Of an unknown length there is
/// a quarter more than has come.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    first: Bytes,
    /// Everything, where there was more than one chunk.
    all: Vec<u8>,
}

impl Buffer {
    /// Adds what came. `stated_rest` is how much comes after it, where that is known.
    pub(crate) fn push(&mut self, chunk: Bytes, stated_rest: Option<u64>) {
        if self.is_empty() {
            self.first = chunk;
            return;
        }
        if self.all.is_empty() {
            let first = std::mem::take(&mut self.first);
            if first.is_unique() {
                // Nobody else holds its memory, so that can grow.
                self.all = first.into();
            } else {
                self.reserve(first.len() + chunk.len(), stated_rest);
                self.all.extend_from_slice(&first);
            }
        }
        self.reserve(self.all.len() + chunk.len(), stated_rest);
        self.all.extend_from_slice(&chunk);
    }

    pub(crate) fn so_far(&self) -> &[u8] {
        if self.all.is_empty() {
            &self.first
        } else {
            &self.all
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.so_far().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Everything, without a copy.
    pub(crate) fn finish(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.into()
        }
    }

    /// Makes room for `needed` bytes and for some of those that will follow.
    fn reserve(&mut self, needed: usize, stated_rest: Option<u64>) {
        if needed > self.all.capacity() {
            let capacity = capacity(needed, stated_rest);
            // Exactly: of its own accord a vector doubles.
            self.all.reserve_exact(capacity - self.all.len());
        }
    }
}

/// How much room to make when `needed` bytes are there and so many more are said to follow.
fn capacity(needed: usize, stated_rest: Option<u64>) -> usize {
    let Some(rest) = stated_rest else {
        return needed.saturating_add(needed / 4);
    };
    let rest = usize::try_from(rest).unwrap_or(usize::MAX);
    let mut capacity = needed.saturating_add(rest);
    // As much again as has come is the server's to prove first. Halves of the whole, so that the last step ends at the whole.
    let most = MOST.max(needed.saturating_mul(2));
    while capacity > most {
        capacity = capacity.div_ceil(2);
    }
    capacity
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;
    const CHUNK: usize = 16 * 1024;

    /// A chunk that shares its memory with the transport's buffer.
    fn shared(len: usize) -> (Bytes, Bytes) {
        let buffer = Bytes::from(vec![b'x'; len]);
        (buffer.clone(), buffer)
    }

    /// Reads a body in chunks. Gives the room at the end, and the most that was there in any step, the room before and after it
    /// and the chunk, as if every step copied.
    fn room(len: usize, is_stated: bool) -> (usize, usize) {
        let mut buffer = Buffer::default();
        let mut most = 0;
        while buffer.len() < len {
            let before = buffer.all.capacity();
            let (chunk, _transport) = shared(CHUNK.min(len - buffer.len()));
            let rest = len - buffer.len() - chunk.len();
            buffer.push(chunk, is_stated.then_some(rest as u64));
            let after = buffer.all.capacity();
            let moved = if after == before { 0 } else { before };
            most = most.max(moved + after + CHUNK);
        }
        assert_eq!(buffer.len(), len);
        let room = buffer.all.capacity();
        assert!(buffer.finish().iter().all(|byte| *byte == b'x'));
        (room, most)
    }

    #[test]
    fn one_chunk_stays_where_it_is() {
        let (chunk, transport) = shared(100);
        let mut buffer = Buffer::default();
        buffer.push(Bytes::new(), Some(100));
        buffer.push(chunk, Some(0));
        assert_eq!((buffer.len(), buffer.all.capacity()), (100, 0));
        assert_eq!(buffer.finish().as_ptr(), transport.as_ptr());
    }

    #[test]
    fn chunks_are_joined_in_their_order() {
        for stated_rest in [None, Some(0), Some(u64::MAX)] {
            let mut buffer = Buffer::default();
            for chunk in ["one ", "", "two ", "three"] {
                buffer.push(Bytes::from_static(chunk.as_bytes()), stated_rest);
            }
            assert_eq!(buffer.so_far(), b"one two three");
            assert_eq!(buffer.finish(), "one two three");
        }
    }

    #[test]
    fn a_stated_length_is_set_aside_exactly_and_once() {
        for len in [CHUNK + 1, 2 * CHUNK, 100_000, 2 * MIB - 1, 2 * MIB] {
            assert_eq!(room(len, true), (len, len + CHUNK), "{len} bytes");
        }
    }

    #[test]
    fn a_long_stated_length_ends_at_the_whole_and_never_holds_two() {
        for len in [2 * MIB + 1, 3 * MIB, 4 * MIB - 1, 5 * MIB, 17 * MIB + 3] {
            let (room, most) = room(len, true);
            assert_eq!(room, len, "{len} bytes");
            assert!(most <= len + len.div_ceil(2) + CHUNK, "{most} of {len}");
        }
    }

    #[test]
    fn an_unknown_length_leaves_no_more_than_a_quarter_free() {
        for len in [2 * CHUNK, MIB, MIB + 1, 2 * MIB - 1, 5 * MIB] {
            let (room, _) = room(len, false);
            assert!(room <= len + len / 4, "{room} for {len} bytes");
        }
    }

    #[test]
    fn a_lie_about_the_length_costs_two_mebibytes() {
        for rest in [3 * MIB as u64, u64::MAX / 2, u64::MAX] {
            assert!(capacity(2 * CHUNK, Some(rest)) <= MOST);
        }
        // And whoever has sent more than that is trusted with as much again.
        assert!(capacity(3 * MIB, Some(u64::MAX)) <= 6 * MIB);
    }

    #[test]
    fn a_piece_that_nobody_else_holds_grows_where_it_is() {
        let mut piece = vec![b'x'; 10];
        piece.reserve_exact(20);
        let place = piece.as_ptr();
        let mut buffer = Buffer::default();
        buffer.push(piece.into(), Some(5));
        buffer.push(Bytes::from_static(b"12345"), Some(0));
        assert_eq!(buffer.so_far().as_ptr(), place);
        assert_eq!(buffer.finish(), "xxxxxxxxxx12345");
    }
}
