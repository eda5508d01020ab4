//! How long to wait before the next attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How the wait before a retry grows.
///
/// The default is [`Backoff::exponential`] from 100 ms to 5 s with full jitter: the wait is uniformly random between zero and
/// the grown delay, so that clients which failed together do not come back together.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use idempotency::retry::Backoff;
///
/// let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(5));
/// assert_eq!(backoff.ceiling(0), Some(Duration::from_millis(100)));
/// assert_eq!(backoff.ceiling(1), Some(Duration::from_millis(200)));
/// // Past the cap it stays there, whatever the number.
/// assert_eq!(backoff.ceiling(u32::MAX), Some(Duration::from_secs(5)));
/// ```
#[derive(Clone)]
pub struct Backoff {
    curve: Curve,
    seed: Option<u64>,
}

#[derive(Clone)]
enum Curve {
    Exponential {
        base: Duration,
        cap: Duration,
    },
    Constant(Duration),
    Function(Arc<dyn Fn(u32) -> Option<Duration> + Send + Sync>),
    #[cfg(feature = "backoff")]
    Foreign(Arc<dyn Fn() -> Box<dyn backoff::backoff::Backoff + Send> + Send + Sync>),
}

impl Backoff {
    /// Doubles from `base` up to `cap`, with full jitter.
    ///
    /// A `base` above `cap` is refused when the policy is built.
    #[must_use]
    pub const fn exponential(base: Duration, cap: Duration) -> Self {
        Self::new(Curve::Exponential { base, cap })
    }

    /// The same wait before every retry, without jitter. [`Duration::ZERO`] retries at once: for tests.
    #[must_use]
    pub const fn constant(delay: Duration) -> Self {
        Self::new(Curve::Constant(delay))
    }

    /// The wait that a function names for a retry; 0 is the first. [`None`] gives up. No jitter is added.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use idempotency::retry::Backoff;
    ///
    /// let steps = Backoff::from_fn(|retry| [1, 5, 30].get(retry as usize).map(|s| Duration::from_secs(*s)));
    /// assert_eq!(steps.ceiling(2), Some(Duration::from_secs(30)));
    /// assert_eq!(steps.ceiling(3), None);
    /// ```
    pub fn from_fn(delay: impl Fn(u32) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self::new(Curve::Function(Arc::new(delay)))
    }

    /// The waits of a value of the [`backoff`] crate, made anew and reset for every operation. [`None`] from it gives up.
    ///
    /// A [`backoff::ExponentialBackoff`] can be given with [`From`]. Its `max_elapsed_time` is measured on the system's clock;
    /// the policy's deadline holds beside it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use idempotency::retry::Backoff;
    ///
    /// let backoff = Backoff::from_factory(|| backoff::backoff::Constant::new(Duration::from_millis(250)));
    /// assert_eq!(backoff.delays().next(0, 0), Some(Duration::from_millis(250)));
    /// ```
    #[cfg(feature = "backoff")]
    pub fn from_factory<B>(make: impl Fn() -> B + Send + Sync + 'static) -> Self
    where
        B: backoff::backoff::Backoff + Send + 'static,
    {
        Self::new(Curve::Foreign(Arc::new(move || Box::new(make()))))
    }

    /// Makes the jitter repeatable: the same seed and the same order of retries give the same waits. A backoff of another crate
    /// keeps its own jitter.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The seed of the jitter, if one was set.
    #[must_use]
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// The longest wait before a retry; 0 is the first. [`None`] where this backoff gives up or keeps state of its own.
    ///
    /// It never falls as `retry` grows for [`exponential`](Self::exponential) and [`constant`](Self::constant).
    #[must_use]
    pub fn ceiling(&self, retry: u32) -> Option<Duration> {
        match &self.curve {
            Curve::Exponential { base, cap } => Some(grown(*base, *cap, retry)),
            Curve::Constant(delay) => Some(*delay),
            Curve::Function(delay) => delay(retry),
            #[cfg(feature = "backoff")]
            Curve::Foreign(_) => None,
        }
    }

    /// The waits of one operation.
    #[must_use]
    pub fn delays(&self) -> Delays {
        Delays(match &self.curve {
            #[cfg(feature = "backoff")]
            Curve::Foreign(make) => {
                let mut foreign = make();
                foreign.reset();
                Sequence::Foreign(std::sync::Mutex::new(foreign))
            }
            _ => Sequence::Own(self.clone()),
        })
    }

    pub(super) fn exponential_bounds(&self) -> Option<(Duration, Duration)> {
        match self.curve {
            Curve::Exponential { base, cap } => Some((base, cap)),
            _ => None,
        }
    }

    const fn new(curve: Curve) -> Self {
        Self { curve, seed: None }
    }
}

impl Default for Backoff {
    /// Full jitter from 100 ms to 5 s.
    ///
    /// 100 ms is about one round trip on a bad network: less would find the same fault. 5 s keeps four attempts well inside the
    /// default deadline of 60 s.
    fn default() -> Self {
        Self::exponential(Duration::from_millis(100), Duration::from_secs(5))
    }
}

#[cfg(feature = "backoff")]
impl From<backoff::ExponentialBackoff> for Backoff {
    fn from(value: backoff::ExponentialBackoff) -> Self {
        Self::from_factory(move || value.clone())
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.curve {
            Curve::Exponential { base, cap } => f
                .debug_struct("Exponential")
                .field("base", base)
                .field("cap", cap)
                .finish_non_exhaustive(),
            Curve::Constant(delay) => f.debug_tuple("Constant").field(delay).finish(),
            Curve::Function(_) => f.write_str("Function"),
            #[cfg(feature = "backoff")]
            Curve::Foreign(_) => f.write_str("Foreign"),
        }
    }
}

/// The waits of one operation, made by [`Backoff::delays`].
pub struct Delays(Sequence);

enum Sequence {
    Own(Backoff),
    // The mutex is never locked. It makes the value `Sync` whatever it holds, so that the feature takes nothing away.
    #[cfg(feature = "backoff")]
    Foreign(std::sync::Mutex<Box<dyn backoff::backoff::Backoff + Send>>),
}

impl Delays {
    /// Whether the next wait depends on those before it, so that this value has to be kept.
    pub(crate) fn keeps_state(&self) -> bool {
        !matches!(self.0, Sequence::Own(_))
    }

    /// The wait before a retry; 0 is the first. `roll` is a uniformly random number that places the wait below its ceiling
    /// where there is jitter. [`None`] gives up.
    pub fn next(&mut self, retry: u32, roll: u64) -> Option<Duration> {
        match &mut self.0 {
            Sequence::Own(backoff) => {
                let ceiling = backoff.ceiling(retry)?;
                Some(match backoff.curve {
                    Curve::Exponential { .. } => jittered(ceiling, roll),
                    _ => ceiling,
                })
            }
            #[cfg(feature = "backoff")]
            Sequence::Foreign(foreign) => foreign
                .get_mut()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .next_backoff(),
        }
    }
}

impl fmt::Debug for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Sequence::Own(backoff) => f.debug_tuple("Delays").field(backoff).finish(),
            #[cfg(feature = "backoff")]
            Sequence::Foreign(_) => f.write_str("Delays(Foreign)"),
        }
    }
}

/// `min(cap, base * 2^retry)`, exact for every base and every number.
fn grown(base: Duration, cap: Duration, retry: u32) -> Duration {
    let nanos = base.as_nanos();
    if nanos == 0 {
        Duration::ZERO
    } else if retry < nanos.leading_zeros() {
        Duration::from_nanos_u128((nanos << retry).min(cap.as_nanos()))
    } else {
        cap
    }
}

/// Uniform in `[0, ceiling]`.
fn jittered(ceiling: Duration, roll: u64) -> Duration {
    let nanos = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
    let scaled = (u128::from(nanos) * (u128::from(roll) + 1)) >> 64;
    Duration::from_nanos(u64::try_from(scaled).unwrap_or(nanos))
}
