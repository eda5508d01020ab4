//! A real PostgreSQL for the tests.
//!
//! The database at `DATABASE_URL` where that is set; otherwise a cluster of our own, made from the installed binaries,
//! on a socket in a temporary directory, and gone when the test process is gone, however it ends. Where the binaries are
//! missing they are installed, if this runs as root on a system with `apt-get`. `IDEMPOTENCY_SKIP_POSTGRES=1` leaves the
//! tests that need it out.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Makes a cluster, then obeys: one command a line, one answer a line. The end of its input is the end of the process
/// that holds it, and of the cluster.
///
/// Without `fsync` only a crash of the machine loses data, and no test crashes the machine.
const KEEPER: &str = r#"
trap '' INT HUP PIPE
trap 'exit 1' TERM
cd /
dir=$(mktemp -d -t idempotency-postgres.XXXXXX) || exit 1
trap 'pg_ctl -D "$dir/data" -m immediate stop >/dev/null 2>&1; rm -rf "$dir"' EXIT
start() {
    pg_ctl -D "$dir/data" -l "$dir/log" -w -t 60 \
        -o "-k $dir -c listen_addresses= -F -c max_connections=400" start >"$dir/start" 2>&1 </dev/null
}
{ initdb -D "$dir/data" -U postgres -A trust -N -E UTF8 --no-locale >"$dir/start" 2>&1 && start; } ||
    { tr '\n' ' ' <"$dir/start"; exit 1; }
echo "at $dir"
while read -r command; do
    case "$command" in
        stop) pg_ctl -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 && echo stopped ;;
        start) start && echo started ;;
    esac
done
"#;

const HELP: &str = "these tests need PostgreSQL: install its server (`apt-get install postgresql`), or set DATABASE_URL \
     to a database in which they may create schemas, or leave them out with IDEMPOTENCY_SKIP_POSTGRES=1";

/// Whether the tests that need PostgreSQL are to be left out.
pub(crate) fn skipped() -> bool {
    let skipped = env::var("IDEMPOTENCY_SKIP_POSTGRES").is_ok_and(|value| value == "1");
    if skipped {
        eprintln!("left out: IDEMPOTENCY_SKIP_POSTGRES=1");
    }
    skipped
}

/// The address of the database that the tests of this process share.
pub(crate) fn shared_url() -> String {
    static OWN: OnceLock<Cluster> = OnceLock::new();
    env::var("DATABASE_URL").unwrap_or_else(|_| OWN.get_or_init(Cluster::start).url())
}

/// A cluster of our own.
pub(crate) struct Cluster {
    directory: PathBuf,
    keeper: Mutex<Keeper>,
}

struct Keeper {
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Cluster {
    /// Makes and starts a cluster.
    ///
    /// # Panics
    ///
    /// With what to do about it, when that is not possible.
    pub(crate) fn start() -> Self {
        let binaries = find_or_install();
        let mut keeper = Keeper::spawn(&binaries);
        let first = keeper.answers.next();
        let said = first.and_then(Result::ok).unwrap_or_default();
        let Some(directory) = said.strip_prefix("at ") else {
            panic!("the cluster did not start: {said}\n{HELP}");
        };
        Self {
            directory: directory.into(),
            keeper: Mutex::new(keeper),
        }
    }

    pub(crate) fn url(&self) -> String {
        let directory = self.directory.display().to_string().replace('/', "%2F");
        format!("postgres:///postgres?host={directory}&user=postgres")
    }

    /// Stops the server without a warning: every connection breaks, every open transaction is lost.
    pub(crate) fn crash(&self) {
        self.obey("stop", "stopped");
    }

    /// Starts it again, and waits until it answers.
    pub(crate) fn recover(&self) {
        self.obey("start", "started");
    }

    fn obey(&self, command: &str, answer: &str) {
        let mut keeper = self.keeper.lock().unwrap();
        writeln!(keeper.commands, "{command}").unwrap();
        let said = keeper.answers.next().unwrap().unwrap();
        assert_eq!(said, answer);
    }
}

impl Keeper {
    fn spawn(binaries: &Path) -> Self {
        let path = env::var("PATH").unwrap_or_default();
        let script = format!("PATH='{}':\"$PATH\"\n{KEEPER}", binaries.display());
        // initdb and postgres refuse to run as root.
        let mut command = match is_root() {
            true => {
                let user = ["postgres", "nobody"]
                    .into_iter()
                    .find(|user| succeeds("id", &[user]));
                let mut command = Command::new("su");
                command.args([
                    "-s",
                    "/bin/sh",
                    user.expect("an unprivileged user"),
                    "-c",
                    &script,
                ]);
                command
            }
            false => {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", &script]);
                command
            }
        };
        let spawned = command
            .env("PATH", path)
            // A signal to the tests' group must not end the keeper before it has cleaned up.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = spawned.unwrap_or_else(|error| panic!("no shell: {error}\n{HELP}"));
        Self {
            commands: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()).lines(),
            _process: process,
        }
    }
}

/// The directory of the server's binaries.
fn find_or_install() -> PathBuf {
    if let Some(binaries) = find() {
        return binaries;
    }
    if is_root() && succeeds("apt-get", &["--version"]) {
        eprintln!("PostgreSQL's server is missing: apt-get install postgresql");
        let install = ["install", "-y", "--no-install-recommends", "postgresql"];
        if !succeeds("apt-get", &install) {
            succeeds("apt-get", &["update"]);
            succeeds("apt-get", &install);
        }
    }
    find().unwrap_or_else(|| {
        panic!("initdb and pg_ctl were not found in PATH or the usual places\n{HELP}")
    })
}

fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = [
        "/usr/lib/postgresql",
        "/usr/local/opt",
        "/opt/homebrew/opt",
        "/usr",
    ];
    let versions = usual.into_iter().flat_map(versions_in);
    let candidates = env::split_paths(&path).chain(versions);
    let complete = |bin: &PathBuf| {
        ["initdb", "pg_ctl"]
            .iter()
            .all(|name| bin.join(name).is_file())
    };
    candidates.into_iter().find(complete)
}

/// `<parent>/15/bin`, `<parent>/postgresql@16/bin`, `<parent>/pgsql-17/bin`: the newest first.
fn versions_in(parent: &str) -> Vec<PathBuf> {
    let Ok(entries) = Path::new(parent).read_dir() else {
        return Vec::new();
    };
    let mut versions: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    versions.sort();
    versions.reverse();
    versions
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
