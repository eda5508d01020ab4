//! The retry budget: what operations and time earn, and what retries take.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotency::retry::{Origin, RetryBudget};
use proptest::prelude::*;

use super::{ms, s};

const START: Duration = s(1000);

fn origin() -> Origin {
    Origin::of("https", "api.example.com", 443)
}

/// How many retries are granted at a moment, up to a thousand.
fn granted(budget: &RetryBudget, origin: Origin, now: Duration) -> usize {
    (0..1000)
        .take_while(|_| budget.withdraw(origin, now))
        .count()
}

fn deposit(budget: &RetryBudget, times: u32, now: Duration) {
    for _ in 0..times {
        budget.deposit(origin(), now);
    }
}

/// B62: the ratio is exact.
#[test]
fn ten_operations_at_ten_percent_earn_exactly_one_retry() {
    let budget = RetryBudget::new(10, 0);
    deposit(&budget, 9, START);
    assert_eq!(granted(&budget, origin(), START), 0);
    deposit(&budget, 1, START);
    assert_eq!(granted(&budget, origin(), START), 1);
}

#[test]
fn what_is_earned_in_parts_is_added_up_over_the_seconds() {
    let budget = RetryBudget::new(25, 0);
    for second in 0..4 {
        assert_eq!(granted(&budget, origin(), START + s(second)), 0);
        deposit(&budget, 1, START + s(second));
    }
    assert_eq!(granted(&budget, origin(), START + s(9)), 1);
}

#[test]
fn two_hundred_percent_earn_two_retries_each() {
    let budget = RetryBudget::new(200, 0);
    deposit(&budget, 3, START);
    assert_eq!(granted(&budget, origin(), START), 6);
}

#[test]
fn operations_are_forgotten_after_ten_seconds() {
    for (later, expected) in [(ms(9_999), 1), (s(10), 0), (s(11), 0), (s(1_000_000), 0)] {
        let budget = RetryBudget::new(10, 0);
        deposit(&budget, 10, START);
        assert_eq!(
            granted(&budget, origin(), START + later),
            expected,
            "{later:?} later"
        );
    }
}

#[test]
fn the_oldest_operations_pay_first() {
    let budget = RetryBudget::new(100, 0);
    deposit(&budget, 1, START);
    deposit(&budget, 1, START + s(5));
    assert!(budget.withdraw(origin(), START + s(5)));
    // The retry was paid by the operation that would be forgotten by now, so the other one still counts.
    assert_eq!(granted(&budget, origin(), START + s(12)), 1);
}

#[test]
fn the_reserve_holds_one_seconds_worth_and_no_more() {
    let budget = RetryBudget::new(0, 3);
    assert_eq!(granted(&budget, origin(), START), 3);
    assert_eq!(granted(&budget, origin(), START + ms(333)), 0);
    assert_eq!(granted(&budget, origin(), START + ms(334)), 1);
    assert_eq!(granted(&budget, origin(), START + s(1)), 2);
    assert_eq!(granted(&budget, origin(), START + s(3600)), 3);
}

#[test]
fn a_reserve_that_is_asked_often_refills_no_slower() {
    let budget = RetryBudget::new(0, 10);
    // Every 1.5 ms up to 9.999 s: the ten at first and 99 of the 99.99 that came since.
    let asked = (0..=6666).map(|step| START + Duration::from_micros(1500 * step));
    let granted = asked.filter(|now| budget.withdraw(origin(), *now)).count();
    assert_eq!(granted, 109);
}

#[test]
fn a_reserve_of_one_a_second_refills_by_the_nanosecond() {
    let budget = RetryBudget::new(0, 1);
    assert!(budget.withdraw(origin(), START));
    for now in [
        Duration::from_nanos(1),
        ms(500),
        Duration::from_nanos(999_999_999),
    ] {
        assert!(!budget.withdraw(origin(), START + now), "{now:?}");
    }
    assert!(budget.withdraw(origin(), START + s(1)));
}

#[test]
fn the_reserve_comes_on_top_of_what_operations_earn() {
    let budget = RetryBudget::new(50, 2);
    deposit(&budget, 4, START);
    assert_eq!(granted(&budget, origin(), START), 4);
}

#[test]
fn a_budget_of_nothing_grants_nothing() {
    let budget = RetryBudget::new(0, 0);
    deposit(&budget, 1000, START);
    assert_eq!(granted(&budget, origin(), START + s(60)), 0);
}

#[test]
fn the_default_is_twenty_percent_and_ten_a_second() {
    let budget = RetryBudget::default();
    assert_eq!(budget.extra_load_percent(), 20);
    assert_eq!(budget.retries_per_second(), 10);
    deposit(&budget, 50, START);
    assert_eq!(granted(&budget, origin(), START), 20);
    assert_eq!(
        format!("{budget:?}"),
        "RetryBudget { extra_load_percent: 20, retries_per_second: 10, .. }"
    );
}

#[test]
fn origins_have_accounts_of_their_own() {
    let budget = RetryBudget::new(0, 1);
    let parts = [
        ("https", "a.example.com", 443),
        ("https", "b.example.com", 443),
        ("https", "a.example.com", 8443),
        ("http", "a.example.com", 443),
    ];
    for (scheme, host, port) in parts {
        assert_eq!(granted(&budget, Origin::of(scheme, host, port), START), 1);
    }
    for (scheme, host, port) in parts {
        assert_eq!(granted(&budget, Origin::of(scheme, host, port), START), 0);
    }
}

#[test]
fn clones_share_the_accounts_and_new_budgets_do_not() {
    let budget = RetryBudget::new(0, 1);
    assert!(budget.clone().withdraw(origin(), START));
    assert!(!budget.withdraw(origin(), START));
    assert!(RetryBudget::new(0, 1).withdraw(origin(), START));
}

#[test]
fn of_ten_thousand_origins_the_least_used_are_forgotten() {
    let budget = RetryBudget::new(0, 1);
    let other = |number: u32| Origin::of("https", &format!("{number}.example.com"), 443);
    for number in 0..10_000 {
        assert!(budget.withdraw(other(number), START));
    }
    // Whoever is still known has nothing left.
    let known = (0..10_000)
        .filter(|number| !budget.withdraw(other(*number), START))
        .count();
    assert!(known <= 1024, "{known} origins are remembered");
}

#[test]
fn an_origin_in_use_is_not_forgotten_for_ten_thousand_others() {
    let budget = RetryBudget::new(0, 1);
    assert!(budget.withdraw(origin(), START));
    for number in 0..10_000 {
        let other = Origin::of("https", &format!("{number}.example.com"), 443);
        assert!(budget.withdraw(other, START));
        assert!(
            !budget.withdraw(origin(), START),
            "forgotten after {number} others"
        );
    }
}

/// B68: a clock that steps back neither pays twice nor panics.
#[test]
fn time_that_runs_backwards_pays_nothing() {
    let budget = RetryBudget::new(0, 1);
    assert!(budget.withdraw(origin(), START));
    for now in [
        START - s(5),
        Duration::ZERO,
        START,
        START - s(1),
        START + ms(999),
    ] {
        assert!(!budget.withdraw(origin(), now), "{now:?}");
    }
    assert!(budget.withdraw(origin(), START + s(1)));
    assert!(!budget.withdraw(origin(), START - s(900)));
    assert!(!budget.withdraw(origin(), START + ms(1999)));
}

#[test]
fn an_operation_from_the_past_counts_once_and_is_forgotten_in_time() {
    let budget = RetryBudget::new(100, 0);
    deposit(&budget, 1, START);
    deposit(&budget, 1, START - s(500));
    assert_eq!(granted(&budget, origin(), START - s(20)), 2);
    deposit(&budget, 1, START - s(500));
    assert_eq!(granted(&budget, origin(), START + s(10)), 0);
}

#[test]
fn the_greatest_numbers_and_the_end_of_time_do_not_overflow() {
    let budget = RetryBudget::new(u32::MAX, u32::MAX);
    for now in [
        Duration::ZERO,
        Duration::MAX,
        s(u64::MAX),
        Duration::ZERO,
        Duration::MAX,
    ] {
        deposit(&budget, 20, now);
        assert_eq!(granted(&budget, origin(), now), 1000);
    }
    let poor = RetryBudget::new(10, 0);
    deposit(&poor, 10, Duration::MAX);
    assert_eq!(granted(&poor, origin(), Duration::MAX), 1);
}

#[test]
fn eight_threads_get_exactly_what_is_there() {
    for budget in [
        RetryBudget::new(100, 0),
        RetryBudget::new(0, 1234),
        RetryBudget::new(50, 617),
    ] {
        deposit(&budget, 1234, START);
        let granted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if budget.withdraw(origin(), START) {
                            granted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 1234, "{budget:?}");
    }
}

proptest! {
    #[test]
    fn no_more_is_granted_than_operations_and_time_have_earned(
        percent in 0_u32..300,
        per_second in 0_u32..20,
        steps in prop::collection::vec((any::<bool>(), 0_u64..2_000), 1..200),
    ) {
        let budget = RetryBudget::new(percent, per_second);
        let mut now = START;
        let (mut deposits, mut granted) = (0_u64, 0_u64);
        for (is_deposit, pause) in steps {
            now += ms(pause);
            if is_deposit {
                budget.deposit(origin(), now);
                deposits += 1;
            } else {
                granted += u64::from(budget.withdraw(origin(), now));
            }
            let elapsed = u64::try_from((now - START).as_millis()).unwrap();
            let earned = u64::from(percent) * deposits * 10 + u64::from(per_second) * (1000 + elapsed);
            prop_assert!(granted * 1000 <= earned, "{granted} granted, {earned} thousandths earned");
        }
    }

    #[test]
    fn no_moment_and_no_number_panics(
        percent in any::<u32>(),
        per_second in any::<u32>(),
        moments in prop::collection::vec((any::<u64>(), 0_u32..1_000_000_000), 1..20),
    ) {
        let budget = RetryBudget::new(percent, per_second);
        for (seconds, nanos) in moments {
            let now = Duration::new(seconds, nanos);
            budget.deposit(origin(), now);
            let granted = budget.withdraw(origin(), now);
            prop_assert!(granted || percent < 100, "an operation that earns a whole retry pays for one");
        }
    }
}
