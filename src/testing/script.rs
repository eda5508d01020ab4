//! Which attempt meets which fault.

use std::sync::Arc;

use super::fault::Fault;

/// The faults of an operation, attempt by attempt.
///
/// Every operation, which is to say every key, goes through the whole script by itself; after its end nothing goes wrong any
/// more.
///
/// ```
/// use idempotency::testing::Fault::{CommitThenDropReply, Pass, Status};
/// use idempotency::testing::Faults;
///
/// let story = Faults::from([CommitThenDropReply, Status(503), Pass]);
/// let outage = Faults::always(Status(503));
/// // Of a thousand attempts about fifty lose their answer and a hundred are turned away.
/// let weather = Faults::random(42, [(CommitThenDropReply, 50), (Status(503), 100)]);
/// assert_ne!(story, outage);
/// assert_ne!(outage, weather);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults(Script);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Script {
    List(Arc<[Fault]>),
    Always(Fault),
    Random {
        seed: u64,
        rates: Arc<[(Fault, u16)]>,
    },
}

impl Faults {
    /// Nothing goes wrong.
    #[must_use]
    pub fn none() -> Self {
        Self(Script::Always(Fault::Pass))
    }

    /// The same fault on every attempt.
    #[must_use]
    pub const fn always(fault: Fault) -> Self {
        Self(Script::Always(fault))
    }

    /// Random faults, each with its rate in a thousand attempts. The rest passes.
    ///
    /// The choice is a function of the seed, of the operation's place in the order of arrival and of the attempt's number: the
    /// same seed gives a client that works in sequence the same faults again.
    ///
    /// # Panics
    ///
    /// When the rates add up to more than a thousand.
    #[must_use]
    #[track_caller]
    pub fn random(seed: u64, rates: impl IntoIterator<Item = (Fault, u16)>) -> Self {
        let rates: Arc<[_]> = rates.into_iter().collect();
        let sum: u64 = rates.iter().map(|(_, rate)| u64::from(*rate)).sum();
        assert!(
            sum <= 1000,
            "the rates add up to {sum} of a thousand attempts"
        );
        Self(Script::Random { seed, rates })
    }

    /// The fault in one place of the script, for the operation that came as the `operation`th.
    pub(super) fn at(&self, operation: usize, place: usize) -> Fault {
        match &self.0 {
            Script::List(faults) => faults.get(place).cloned().unwrap_or(Fault::Pass),
            Script::Always(fault) => fault.clone(),
            Script::Random { seed, rates } => {
                let place = (operation as u64).rotate_left(32) ^ place as u64;
                let mixed = seed.wrapping_add(place.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let mut left = fastrand::Rng::with_seed(mixed).u16(0..1000);
                for (fault, rate) in rates.iter() {
                    match left.checked_sub(*rate) {
                        None => return fault.clone(),
                        Some(rest) => left = rest,
                    }
                }
                Fault::Pass
            }
        }
    }

    /// All faults that can occur.
    pub(super) fn kinds(&self) -> Vec<&Fault> {
        match &self.0 {
            Script::List(faults) => faults.iter().collect(),
            Script::Always(fault) => vec![fault],
            Script::Random { rates, .. } => rates.iter().map(|(fault, _)| fault).collect(),
        }
    }
}

fn flatten(faults: impl IntoIterator<Item = Fault>) -> Arc<[Fault]> {
    fn push(fault: Fault, list: &mut Vec<Fault>) {
        match fault {
            Fault::Repeated { fault, times } => {
                (0..times).for_each(|_| push(Fault::clone(&fault), list));
            }
            fault => list.push(fault),
        }
    }
    let mut list = Vec::new();
    faults.into_iter().for_each(|fault| push(fault, &mut list));
    list.into()
}

impl<const N: usize> From<[Fault; N]> for Faults {
    fn from(faults: [Fault; N]) -> Self {
        Self(Script::List(flatten(faults)))
    }
}

impl From<Vec<Fault>> for Faults {
    fn from(faults: Vec<Fault>) -> Self {
        Self(Script::List(flatten(faults)))
    }
}

impl From<Fault> for Faults {
    /// The fault on the first attempt.
    fn from(fault: Fault) -> Self {
        Self::from([fault])
    }
}

/// How far one operation has come in the script.
#[derive(Debug, Default)]
pub(super) struct Place(usize);

impl Place {
    pub(super) const fn count(&self) -> usize {
        self.0
    }

    /// The fault of the attempt that has just come, and how long nobody shall listen after it.
    pub(super) fn next(
        &mut self,
        faults: &Faults,
        operation: usize,
    ) -> (Fault, Option<std::time::Duration>) {
        let mut take = || {
            let fault = faults.at(operation, self.0);
            self.0 += 1;
            fault
        };
        let mut fault = take();
        // A refusal in the first place happened before this attempt. A script of nothing but refusals must end here too.
        for _ in 0..64 {
            match fault {
                Fault::RefuseConnections(_) => fault = take(),
                _ => break,
            }
        }
        if let Fault::RefuseConnections(_) = fault {
            fault = Fault::Pass;
        }
        let refusal = match faults.at(operation, self.0) {
            Fault::RefuseConnections(lasting) => {
                self.0 += 1;
                Some(lasting)
            }
            _ => None,
        };
        let fault = match fault {
            Fault::Repeated { fault, .. } => *fault,
            fault => fault,
        };
        (fault, refusal)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_script_is_played_in_order_and_then_nothing_goes_wrong() {
        let refusal = Duration::from_millis(5);
        let script = Faults::from([
            Fault::Status(503).times(2),
            Fault::RefuseConnections(refusal),
            Fault::Garbage,
        ]);
        let mut place = Place::default();
        let played: Vec<_> = (0..5).map(|_| place.next(&script, 0)).collect();
        assert_eq!(
            played,
            [
                (Fault::Status(503), None),
                (Fault::Status(503), Some(refusal)),
                (Fault::Garbage, None),
                (Fault::Pass, None),
                (Fault::Pass, None),
            ]
        );
    }

    #[test]
    fn random_faults_keep_to_their_rates_and_to_their_seed() {
        let rates = [(Fault::CommitThenDropReply, 100), (Fault::Status(503), 300)];
        let weather = Faults::random(7, rates.clone());
        let played = |weather: &Faults| -> Vec<Fault> {
            (0..1000)
                .flat_map(|operation| (0..10).map(move |place| (operation, place)))
                .map(|(operation, place)| weather.at(operation, place))
                .collect()
        };
        let faults = played(&weather);
        let count = |wanted: Fault| faults.iter().filter(|fault| **fault == wanted).count();
        assert!((900..1100).contains(&count(Fault::CommitThenDropReply)));
        assert!((2800..3200).contains(&count(Fault::Status(503))));
        assert_eq!(faults, played(&Faults::random(7, rates.clone())));
        assert_ne!(faults, played(&Faults::random(8, rates)));
    }

    #[test]
    #[should_panic(expected = "the rates add up to 1001 of a thousand attempts")]
    fn rates_above_a_thousand_are_refused() {
        let _ = Faults::random(1, [(Fault::Garbage, 1000), (Fault::Crash, 1)]);
    }
}
