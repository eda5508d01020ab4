//! How waits grow, and that no number makes them fall, vanish or overflow.

use std::time::Duration;

use idempotency::retry::Backoff;
use proptest::prelude::*;

use super::properties::{any_count, any_duration};
use super::{ms, s};

#[track_caller]
fn assert_ceilings(backoff: &Backoff, rows: &[(u32, Duration)]) {
    for &(retry, expected) in rows {
        assert_eq!(
            backoff.ceiling(retry),
            Some(expected),
            "retry {retry} of {backoff:?}"
        );
    }
}

#[test]
fn the_default_doubles_from_100_ms_to_5_s() {
    let rows = [
        (0, ms(100)),
        (1, ms(200)),
        (2, ms(400)),
        (3, ms(800)),
        (4, ms(1600)),
        (5, ms(3200)),
        (6, s(5)),
        (7, s(5)),
    ];
    assert_ceilings(&Backoff::default(), &rows);
}

/// B56, B57, B58: a hundred attempts, and the numbers at which shifts and products of 32 and 64 bits break.
#[test]
fn no_number_of_retries_overflows_the_wait() {
    let rows = [
        (4, s(16)),
        (5, s(20)),
        (31, s(20)),
        (32, s(20)),
        (33, s(20)),
        (40, s(20)),
        (63, s(20)),
        (64, s(20)),
        (65, s(20)),
        (100, s(20)),
        (127, s(20)),
        (128, s(20)),
        (1024, s(20)),
        (u32::MAX, s(20)),
    ];
    assert_ceilings(&Backoff::exponential(s(1), s(20)), &rows);
}

#[test]
fn doubling_is_exact_for_the_smallest_base_and_for_the_greatest_cap() {
    let nanosecond = Duration::from_nanos(1);
    let rows = [
        (31, Duration::new(2, 147_483_648)),
        (32, Duration::new(4, 294_967_296)),
        (33, Duration::new(8, 589_934_592)),
        (93, Duration::from_nanos_u128(1 << 93)),
        (94, Duration::MAX),
        (126, Duration::MAX),
        (127, Duration::MAX),
        (128, Duration::MAX),
        (u32::MAX, Duration::MAX),
    ];
    assert_ceilings(&Backoff::exponential(nanosecond, Duration::MAX), &rows);
    assert_ceilings(
        &Backoff::exponential(Duration::MAX, Duration::MAX),
        &[
            (0, Duration::MAX),
            (1, Duration::MAX),
            (u32::MAX, Duration::MAX),
        ],
    );
    assert_ceilings(
        &Backoff::exponential(Duration::ZERO, s(5)),
        &[
            (0, Duration::ZERO),
            (127, Duration::ZERO),
            (128, Duration::ZERO),
            (u32::MAX, Duration::ZERO),
        ],
    );
}

/// B60: spread over the whole ceiling, at the cap as well, and never above it.
#[test]
fn full_jitter_spreads_from_zero_to_the_ceiling() {
    let mut delays = Backoff::exponential(ms(100), s(60)).delays();
    for (retry, roll, expected) in [
        (0, 0, Duration::ZERO),
        (0, u64::MAX / 2, ms(50)),
        (0, u64::MAX, ms(100)),
        (3, u64::MAX, ms(800)),
        (100, 0, Duration::ZERO),
        (100, u64::MAX / 4, s(15)),
        (100, u64::MAX / 2, s(30)),
        (100, u64::MAX, s(60)),
        (u32::MAX, u64::MAX, s(60)),
    ] {
        assert_eq!(
            delays.next(retry, roll),
            Some(expected),
            "retry {retry}, roll {roll}"
        );
    }
}

#[test]
fn a_thousand_rolls_land_evenly_below_the_ceiling() {
    let mut rolls = mixed_numbers(7);
    let mut delays = Backoff::exponential(s(8), s(8)).delays();
    let mut quarters = [0_u32; 4];
    for _ in 0..1000 {
        let delay = delays.next(0, rolls()).unwrap();
        quarters[usize::try_from(delay.as_secs() / 2).unwrap().min(3)] += 1;
    }
    for quarter in quarters {
        assert!((200..=300).contains(&quarter), "{quarters:?}");
    }
}

/// A small generator (SplitMix64), so that the test does not depend on another crate's sequence.
fn mixed_numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[test]
fn constant_and_own_waits_have_no_jitter() {
    let steps = Backoff::from_fn(|retry| (retry < 2).then(|| s(u64::from(retry) + 1)));
    let mut constant = Backoff::constant(ms(250)).delays();
    let mut own = steps.delays();
    for roll in [0, 1, u64::MAX] {
        assert_eq!(constant.next(u32::MAX, roll), Some(ms(250)));
        assert_eq!(own.next(0, roll), Some(s(1)));
        assert_eq!(own.next(1, roll), Some(s(2)));
        assert_eq!(own.next(2, roll), None);
    }
}

#[test]
fn a_seed_is_kept_for_whoever_draws_the_rolls() {
    assert_eq!(Backoff::default().seed(), None);
    assert_eq!(Backoff::default().seeded(7).seed(), Some(7));
    assert_eq!(Backoff::default().seeded(7).clone().seed(), Some(7));
}

#[test]
fn a_backoff_shows_its_curve() {
    assert_eq!(
        format!("{:?}", Backoff::default()),
        "Exponential { base: 100ms, cap: 5s, .. }"
    );
    assert_eq!(format!("{:?}", Backoff::constant(s(1))), "Constant(1s)");
    assert_eq!(format!("{:?}", Backoff::from_fn(|_| None)), "Function");
    assert_eq!(
        format!("{:?}", Backoff::constant(s(1)).delays()),
        "Delays(Constant(1s))"
    );
}

#[test]
fn waits_can_be_shared_and_sent_with_every_set_of_features() {
    fn sendable<T: Send + Sync + 'static>() {}
    sendable::<Backoff>();
    sendable::<idempotency::retry::Delays>();
}

proptest! {
    #[test]
    fn the_ceiling_never_falls_and_never_passes_the_cap(
        base in any_duration(), cap in any_duration(), one in any_count(), other in any_count(),
    ) {
        let backoff = Backoff::exponential(base, cap);
        let (early, late) = (one.min(other), one.max(other));
        let (early, late) = (backoff.ceiling(early).unwrap(), backoff.ceiling(late).unwrap());
        prop_assert!(early <= late);
        prop_assert!(late <= cap);
        if !base.is_zero() && !cap.is_zero() {
            prop_assert!(!early.is_zero());
        }
    }

    #[test]
    fn each_ceiling_is_twice_the_one_before_until_the_cap(
        base in any_duration(), cap in any_duration(), retry in 0_u32..200,
    ) {
        let backoff = Backoff::exponential(base, cap);
        let before = backoff.ceiling(retry).unwrap();
        prop_assert_eq!(backoff.ceiling(retry + 1).unwrap(), before.saturating_mul(2).min(cap));
    }

    #[test]
    fn jitter_stays_within_the_ceiling(
        base in any_duration(), cap in any_duration(), retry in any_count(), roll in any::<u64>(),
    ) {
        let backoff = Backoff::exponential(base, cap);
        let delay = backoff.delays().next(retry, roll).unwrap();
        prop_assert!(delay <= backoff.ceiling(retry).unwrap());
    }
}
