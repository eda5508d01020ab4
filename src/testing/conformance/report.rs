//! What the probe found, as rows.

use std::fmt;

use serde::Serialize;

use super::propose::Proposal;

/// A question that the probe asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Check {
    /// A request with a new key.
    First,
    /// The same again.
    Repeat,
    /// What tells a replay from a fresh answer.
    Marker,
    /// The same key with another body.
    OtherBody,
    /// The same key with another query.
    OtherQuery,
    /// A repeat while the first request still runs.
    WhileRunning,
    /// Two identical requests at once.
    TwoAtOnce,
    /// Ten identical requests at once.
    TenAtOnce,
    /// No key.
    MissingKey,
    /// An empty key.
    EmptyKey,
    /// Keys of 255 characters and of more.
    LongKey,
    /// The key in quotes and without.
    QuotedAndBare,
    /// Two header lines with the same key.
    TwoLines,
    /// Two bodies that are no text.
    BinaryBody,
    /// No body.
    EmptyBody,
    /// A request that fails with a 4xx, again.
    ClientError,
    /// A request that fails with a 5xx, again.
    ServerError,
    /// The same request with another caller's credentials.
    OtherCaller,
    /// A client that is gone when the answer comes.
    ClientGone,
    /// A request that is cut off in its body.
    CutRequest,
}

impl Check {
    /// Every check, in the order in which they are made.
    pub const ALL: [Self; 20] = [
        Self::First,
        Self::Repeat,
        Self::Marker,
        Self::OtherBody,
        Self::OtherQuery,
        Self::WhileRunning,
        Self::TwoAtOnce,
        Self::TenAtOnce,
        Self::MissingKey,
        Self::EmptyKey,
        Self::LongKey,
        Self::QuotedAndBare,
        Self::TwoLines,
        Self::BinaryBody,
        Self::EmptyBody,
        Self::ClientError,
        Self::ServerError,
        Self::OtherCaller,
        Self::ClientGone,
        Self::CutRequest,
    ];

    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first request",
            Self::Repeat => "repeat",
            Self::Marker => "replay marker",
            Self::OtherBody => "other body",
            Self::OtherQuery => "other query",
            Self::WhileRunning => "repeat while it runs",
            Self::TwoAtOnce => "two at once",
            Self::TenAtOnce => "ten at once",
            Self::MissingKey => "missing key",
            Self::EmptyKey => "empty key",
            Self::LongKey => "long key",
            Self::QuotedAndBare => "quoted and bare",
            Self::TwoLines => "two header lines",
            Self::BinaryBody => "binary body",
            Self::EmptyBody => "empty body",
            Self::ClientError => "4xx answer",
            Self::ServerError => "5xx answer",
            Self::OtherCaller => "another caller",
            Self::ClientGone => "client gone",
            Self::CutRequest => "request cut off",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What an observation means for a client that retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// As the contract wants it.
    Good,
    /// A choice of the server's, or something to know.
    Note,
    /// It could not be found out.
    Unknown,
    /// A retry can run twice, or be answered with something that is not its own, or be misjudged.
    Bad,
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Unknown => "?",
            Self::Bad => "BAD",
        })
    }
}

/// Whether a retry with the key is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Repeats do not run again, and no row is bad.
    Safe,
    /// A row is bad.
    Unsafe,
    /// No row is bad, and whether repeats run again does not show.
    Unknown,
}

impl Verdict {
    fn of(rows: &[Row]) -> Self {
        if rows.iter().any(|row| row.grade == Grade::Bad) {
            return Self::Unsafe;
        }
        let counts = [Check::Repeat, Check::TwoAtOnce, Check::TenAtOnce];
        let dark = |row: &Row| counts.contains(&row.check) && row.grade == Grade::Unknown;
        match rows.iter().any(dark) {
            true => Self::Unknown,
            false => Self::Safe,
        }
    }
}

/// One observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The question.
    pub check: Check,
    /// What the answer means.
    pub grade: Grade,
    /// What the server does.
    pub seen: String,
}

/// What a server does with keys, and the contract that fits.
///
/// `Display` is a table for a person; `Serialize` is for machines.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ProbeReport {
    /// The address that was probed, without its query and credentials.
    pub url: String,
    /// Whether a retry with the key is safe there.
    pub verdict: Verdict,
    /// The observations, in the order in which they were made.
    pub rows: Vec<Row>,
    /// The contract that fits.
    pub proposal: Proposal,
}

impl ProbeReport {
    pub(super) fn new(url: String, rows: Vec<Row>, proposal: Proposal) -> Self {
        Self {
            url,
            verdict: Verdict::of(&rows),
            rows,
            proposal,
        }
    }

    /// Whether a retry with the key is safe on that server.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.verdict == Verdict::Safe
    }

    /// The row of one check.
    #[must_use]
    pub fn row(&self, check: Check) -> Option<&Row> {
        self.rows.iter().find(|row| row.check == check)
    }

    /// The report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Safe => "a retry with the key is safe here",
            Verdict::Unsafe => "a retry with the key is NOT safe here",
            Verdict::Unknown => {
                "whether a retry with the key is safe does not show: give the probe a witness"
            }
        };
        writeln!(f, "{}: {verdict}\n", self.url)?;
        for row in &self.rows {
            writeln!(f, "  {:<4}  {:<20}  {}", row.grade, row.check, row.seen)?;
        }
        write!(f, "\n{}", self.proposal)
    }
}
