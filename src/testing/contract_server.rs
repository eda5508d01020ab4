//! wiremock behind a front of the kit's own, keeping the contract.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http::HeaderName;
use wiremock::{Match, Mock, MockServer, Request};

use super::arrival::{Action, Arrival};
use super::clock::KitClock;
use super::exchange::{Dispatcher, ROUTE, Shared};
use super::fault::Fault;
use super::front::{Front, Gate};
use super::judge;
use super::mocks::Mocks;
use super::report::{ClientReport, counted};
use super::route::{OperationBuilder, Route};
use super::rule::{Finding, Rule};
use super::script::Faults;
use super::state::{Repeats, Settings, State};
use crate::contract::{Contract, IdempotencyKey};

/// A server that keeps the contract, loses answers as a script says, and judges its client.
///
/// ```
/// use idempotency::testing::ContractServer;
/// use idempotency::testing::Fault::{CommitThenDropReply, Pass, Status};
/// use idempotency::{Client, RetryPolicy};
/// use wiremock::ResponseTemplate;
/// use wiremock::matchers::{method, path};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ContractServer::start().await;
/// server
///     .operation(method("POST"))
///     .and(path("/payments"))
///     .respond_with(ResponseTemplate::new(201).set_body_string("paid"))
///     .faults([CommitThenDropReply, Status(503), Pass])
///     .mount();
///
/// // Any client in any language; here it is ours.
/// let client = Client::builder().policy(RetryPolicy::immediate(4)).build()?;
/// let url = format!("{}/payments", server.uri());
/// let paid = client.post(&url).body("amount=100").idempotent().send().await?;
/// assert!(paid.is_replay());
///
/// assert_eq!(server.arrivals().len(), 3);
/// server.assert_exactly_once();
/// # Ok(())
/// # }
/// ```
///
/// The first request under a key runs the operation's responder, and its answer is stored. A repeat gets the stored answer with
/// the contract's replay marker, another request under the key is refused, and a repeat that comes while the first still runs is
/// told so with `Retry-After`. What these answers look like is the [`Contract`]'s affair: any can be played.
///
/// The server is checked when it is dropped, as wiremock's is: if the client broke a rule, the drop panics with the
/// [`ClientReport`], unless the test is panicking already. Call [`verify`](Self::verify) to look at the report instead.
///
/// It runs on threads of its own and on real time. Under tokio's paused clock a client's timeouts pass at once while it waits
/// for this server: use policies without waits (`RetryPolicy::immediate`), and [`advance`](Self::advance) for what should
/// expire.
pub struct ContractServer {
    // Dropped in this order: first nobody can connect any more.
    front: Front,
    shared: Arc<Shared>,
    mocks: Mocks,
    tolerated: Vec<Rule>,
    verified: Mutex<bool>,
}

/// Builds a [`ContractServer`]; made by [`ContractServer::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start`"]
pub struct ContractServerBuilder {
    settings: Settings,
    clock_runs: bool,
    tolerated: Vec<Rule>,
}

impl ContractServerBuilder {
    /// The contract that is played. Default: [`Contract::generic`].
    pub fn contract(mut self, contract: Contract) -> Self {
        self.settings.contract = contract;
        self
    }

    /// Whether a request without a key is refused with 400, and held against the client. Default: yes.
    pub const fn require_key(mut self, required: bool) -> Self {
        self.settings.require_key = required;
        self
    }

    /// What repeats of a finished operation get. Default: the stored answer, marked.
    pub const fn repeats(mut self, repeats: Repeats) -> Self {
        self.settings.repeats = repeats;
        self
    }

    /// The wait, in whole seconds, that a repeat of a running operation is told. Default: 1.
    pub const fn retry_after(mut self, seconds: u64) -> Self {
        self.settings.retry_after = seconds;
        self
    }

    /// How long a claimed key stays claimed when its run does not end. Default: 60 s on the server's clock.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Keys belong to the caller that this header names: two callers' equal keys are two operations. Default: one caller.
    pub fn scope_header(mut self, name: HeaderName) -> Self {
        self.settings.scope = Some(name);
        self
    }

    /// The server's clock stands still and moves only by [`advance`](ContractServer::advance): times in reports are then the
    /// same in every run. A client that waits for real is not seen to wait.
    pub const fn stopped_clock(mut self) -> Self {
        self.clock_runs = false;
        self
    }

    /// Does not hold this rule against the client.
    pub fn tolerate(mut self, rule: Rule) -> Self {
        self.tolerated.push(rule);
        self
    }

    /// Starts the server on a free loopback port.
    ///
    /// # Panics
    ///
    /// When the system gives no port or thread.
    pub async fn start(self) -> ContractServer {
        let mocks = MockServer::start().await;
        let (gate, commands) = Gate::new();
        let shared = Arc::new(Shared {
            settings: self.settings,
            clock: KitClock::new(self.clock_runs),
            routes: RwLock::default(),
            state: Mutex::new(State::default()),
            mocks: *mocks.address(),
            gate: gate.clone(),
        });
        Mock::given(|request: &Request| request.headers.contains_key(ROUTE))
            .respond_with(Dispatcher(Arc::clone(&shared)))
            .with_priority(1)
            .mount(&mocks)
            .await;
        let serving = Arc::clone(&shared);
        let front = Front::start(gate, commands, move |accepted| {
            Arc::clone(&serving).serve(accepted)
        });
        ContractServer {
            front: front.expect("the system gives a loopback port and a thread"),
            shared,
            mocks: Mocks::new(mocks),
            tolerated: self.tolerated,
            verified: Mutex::new(false),
        }
    }
}

impl ContractServer {
    /// Starts a server with the defaults of [`builder`](Self::builder).
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Configures a server.
    pub fn builder() -> ContractServerBuilder {
        ContractServerBuilder {
            settings: Settings {
                contract: Contract::generic(),
                require_key: true,
                lease: Duration::from_secs(60),
                retry_after: 1,
                repeats: Repeats::Marked,
                scope: None,
            },
            clock_runs: true,
            tolerated: Vec::new(),
        }
    }

    /// The address for clients, without a slash at its end: `http://127.0.0.1:4372`.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}", self.front.addr())
    }

    /// The address for clients.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.front.addr()
    }

    /// The wiremock server behind the front, to mount ordinary mocks on: `Mock::given(..).mount(server.mocks())`. They are
    /// reached through [`uri`](Self::uri), where no operation matches. Runs of operations are among its received requests,
    /// with a header `x-idempotency-kit-operation` of the kit's.
    #[must_use]
    pub fn mocks(&self) -> &MockServer {
        &self.mocks
    }

    /// Begins an operation under the contract: requests that the matcher accepts.
    pub fn operation(&self, matcher: impl Match + 'static) -> OperationBuilder<'_> {
        OperationBuilder::new(self, matcher)
    }

    pub(super) fn mount(&self, route: Route) -> usize {
        let faults = route.faults.clone();
        let index = {
            let routes = &self.shared.routes;
            let mut routes = routes.write().unwrap_or_else(PoisonError::into_inner);
            routes.push((Arc::new(route), faults.clone()));
            routes.len() - 1
        };
        self.begin(&faults);
        index
    }

    /// A refusal in the first place of a script begins now: what is refused cannot be waited for.
    fn begin(&self, faults: &Faults) {
        if let Fault::RefuseConnections(lasting) = faults.at(0, 0) {
            self.shared.gate.refuse_blocking(lasting);
        }
    }

    pub(super) fn set_faults(&self, route: usize, faults: Faults) {
        {
            let routes = &self.shared.routes;
            let mut routes = routes.write().unwrap_or_else(PoisonError::into_inner);
            routes[route].1 = faults.clone();
        }
        self.begin(&faults);
    }

    /// Every request to an operation, in the order of arrival.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.state().arrivals.clone()
    }

    /// How many times each key's operation was executed. Runs that were rolled back, by a failure that the contract does not
    /// store, do not count.
    #[must_use]
    pub fn executions(&self) -> BTreeMap<String, usize> {
        let mut executions = BTreeMap::new();
        for arrival in &self.shared.state().arrivals {
            let Some(key) = arrival.key() else { continue };
            let count = executions.entry(key.to_owned()).or_default();
            *count += usize::from(arrival.action == Action::Ran && arrival.stands);
        }
        executions
    }

    /// How many times the operation of this key was executed.
    #[must_use]
    pub fn executions_of(&self, key: &IdempotencyKey) -> usize {
        (self.executions().get(key.as_str()).copied()).unwrap_or_default()
    }

    pub(super) fn executions_on(&self, route: usize) -> usize {
        self.shared.executions(Some(route))
    }

    /// Moves the server's clock: claims whose lease ends in that time are free, keys whose window ends are forgotten.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
    }

    /// Nobody listens at the address for this long.
    pub fn refuse_connections(&self, lasting: Duration) {
        self.shared.gate.refuse_blocking(lasting);
    }

    /// What the client did, and which rules it broke. Looking does not fail the test, and turns the check on drop off.
    ///
    /// # Errors
    ///
    /// The report, when a rule was broken.
    pub fn verify(&self) -> Result<ClientReport, ClientReport> {
        self.mark_verified();
        let report = self.report(false);
        match report.is_kept() {
            true => Ok(report),
            false => Err(report),
        }
    }

    /// Asserts that every rule was kept and that each operation that arrived was executed exactly once.
    ///
    /// # Panics
    ///
    /// With the report, when not, or when no operation arrived.
    #[track_caller]
    pub fn assert_exactly_once(&self) {
        self.mark_verified();
        let report = self.report(true);
        let arrived = !self.shared.state().arrivals.is_empty();
        assert!(arrived && report.is_kept(), "{report}");
    }

    fn mark_verified(&self) {
        *self.verified.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn report(&self, exactly_once: bool) -> ClientReport {
        let settings = &self.shared.settings;
        let routes = self.shared.routes();
        let names: Vec<_> = routes.iter().map(|(route, _)| route.name.clone()).collect();
        let executed: Vec<_> = (0..routes.len())
            .map(|route| self.executions_on(route))
            .collect();
        let arrivals = self.arrivals();
        let groups = judge::group(&arrivals, &names);
        let mut findings = judge::judge(&groups, &settings.contract, settings.require_key);
        if exactly_once {
            findings.extend(judge::exactly_once(&groups, &settings.contract));
        }
        for (place, (route, _)) in routes.iter().enumerate() {
            let (Some(expected), came) = (route.expected, executed[place]) else {
                continue;
            };
            if expected != came {
                let operation = route.name.clone();
                findings.push(Finding {
                    rule: Rule::Expected,
                    operation: operation.unwrap_or_else(|| format!("operation {}", place + 1)),
                    key: None,
                    expected: counted(expected, "execution"),
                    came: counted(came, "execution"),
                });
            }
        }
        ClientReport::new(&settings.contract, findings, &groups).without(&self.tolerated)
    }
}

impl Drop for ContractServer {
    fn drop(&mut self) {
        let verified = *self
            .verified
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if verified {
            return;
        }
        let report = self.report(false);
        if report.is_kept() {
            return;
        }
        if std::thread::panicking() {
            // The test has failed already; this may well be why.
            eprintln!("{report}");
        } else {
            panic!("{report}");
        }
    }
}

impl fmt::Debug for ContractServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContractServer")
            .field("uri", &self.uri())
            .field("contract", &self.shared.settings.contract.name())
            .finish_non_exhaustive()
    }
}
