#![doc = include_str!("guide.md")]

mod answer;
mod arrival;
mod clock;
mod conformance;
mod contract_server;
mod exchange;
mod fault;
mod fault_proxy;
mod front;
mod http1;
mod judge;
mod key_seen;
#[cfg(feature = "server")]
pub mod laws;
mod ledger;
pub mod matchers;
mod mocks;
mod opaque;
mod play;
mod report;
mod route;
mod rule;
mod script;
mod state;

pub use arrival::{Action, Arrival, Delivery};
pub use conformance::{
    Check, Grade, Probe, ProbeError, ProbeReport, Proposal, Row, Verdict, probe,
};
pub use contract_server::{ContractServer, ContractServerBuilder};
pub use fault::Fault;
pub use fault_proxy::{FaultProxy, FaultProxyBuilder};
pub use report::ClientReport;
pub use route::{Operation, OperationBuilder};
pub use rule::{Finding, Rule};
pub use script::Faults;
pub use state::Repeats;
