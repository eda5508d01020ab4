//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

pub struct Counting;

/// Counters that all threads write to would be what a measurement of throughput measures.
static IS_COUNTING: AtomicBool = AtomicBool::new(true);
static CALLS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

/// Counts no more, from here to the end of the process.
pub fn stop_counting() {
    IS_COUNTING.store(false, Relaxed);
}

/// How often memory was asked for so far.
pub fn calls() -> u64 {
    CALLS.load(Relaxed)
}

/// How many bytes are in use.
pub fn live() -> u64 {
    LIVE.load(Relaxed)
}

/// The most bytes that were in use since the last call.
pub fn peak_since_last() -> u64 {
    PEAK.swap(live(), Relaxed)
}

fn taken(bytes: usize) {
    if !IS_COUNTING.load(Relaxed) {
        return;
    }
    CALLS.fetch_add(1, Relaxed);
    let live = LIVE.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    PEAK.fetch_max(live, Relaxed);
}

fn given_back(bytes: usize) {
    if IS_COUNTING.load(Relaxed) {
        LIVE.fetch_sub(bytes as u64, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        given_back(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        given_back(layout.size());
        taken(size);
        unsafe { System.realloc(pointer, layout, size) }
    }
}
