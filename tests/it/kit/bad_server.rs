//! A payment server by hand, on threads, that can be wrong on purpose.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What is wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    Nothing,
    /// It looks the key up, works, and only then writes it down where a rival may have done so.
    CheckThenAct,
    ReplaysOtherBodies,
    InProgressIsNew,
    MarkerAlways,
    MarkerFalse,
    ReplaysToOtherCallers,
    Stores503Unmarked,
    StatusLost,
    /// It takes keys and does nothing with them.
    Everything,
}

/// What else it does in a way of its own.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ways {
    pub(crate) quoted_only: bool,
    pub(crate) own_words: bool,
}

pub(crate) struct BadServer {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    wrong: Wrong,
    ways: Ways,
    state: Mutex<State>,
    changed: Condvar,
    over: AtomicBool,
}

#[derive(Default)]
struct State {
    runs: usize,
    arrived: HashMap<String, usize>,
    entries: HashMap<(String, String), Entry>,
}

#[derive(Clone)]
struct Entry {
    body: Vec<u8>,
    answer: Option<Answer>,
}

#[derive(Clone)]
struct Answer {
    status: u16,
    lines: Vec<String>,
    body: String,
}

struct Request {
    head: Vec<String>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            lines: Vec::new(),
            body: body.into(),
        }
    }

    fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        let mut request = Self {
            head,
            body: Vec::new(),
        };
        let length = request.lines("content-length").first()?.parse().ok()?;
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let lines = self.head.iter().skip(1).filter_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        });
        lines.collect()
    }

    /// How many identical requests the probe sends at the same time, in its fourth to sixth operation; one that has to find out
    /// about quotes has made one more before.
    fn rivals(&self, ways: Ways) -> usize {
        let body = String::from_utf8_lossy(&self.body);
        let number = body
            .split("probe ")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let number = number.and_then(|number| number.parse::<usize>().ok());
        match number.map(|number| number - usize::from(ways.quoted_only)) {
            Some(4 | 5) => 2,
            Some(6) => 10,
            _ => 1,
        }
    }
}

impl BadServer {
    pub(crate) fn start(wrong: Wrong, ways: Ways) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            wrong,
            ways,
            state: Mutex::default(),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.over.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { addr, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/payments", self.addr)
    }

    pub(crate) fn runs(&self) -> usize {
        self.shared.state.lock().unwrap().runs
    }
}

impl Drop for BadServer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Its thread sleeps in `accept` until somebody comes.
        let _ = TcpStream::connect(self.addr);
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) {
        let Some(request) = Request::read(&stream) else {
            return;
        };
        let answer = self.answer(&request);
        let mut message = format!(
            "HTTP/1.1 {} -\r\ncontent-length: {}\r\nconnection: close\r\n",
            answer.status,
            answer.body.len()
        );
        for line in &answer.lines {
            message += &format!("{line}\r\n");
        }
        message += "\r\n";
        message += &answer.body;
        // A client that is gone does not get its answer.
        let _ = stream.write_all(message.as_bytes());
    }

    fn answer(&self, request: &Request) -> Answer {
        let keys = request.lines("idempotency-key");
        let [key] = keys.as_slice() else {
            return Answer::new(400, "one key, please");
        };
        let key = match (key.strip_prefix('"'), self.ways.quoted_only) {
            (Some(inner), _) => inner.trim_end_matches('"'),
            (None, true) => return Answer::new(400, "in quotes, please"),
            (None, false) => key,
        };
        if key.is_empty() || key.len() > 255 {
            return Answer::new(400, "a good key, please");
        }
        if request.body.starts_with(b"{\"probe\":") && !request.body.ends_with(b"}") {
            return Answer::new(400, "a whole document, please");
        }
        let caller = match self.wrong {
            Wrong::ReplaysToOtherCallers => String::new(),
            _ => request.lines("authorization").join(","),
        };
        let name = (caller, key.to_owned());
        let mut state = self.state.lock().unwrap();
        *state.arrived.entry(key.to_owned()).or_default() += 1;
        self.changed.notify_all();
        if let Some(entry) = state.entries.get(&name)
            && self.wrong != Wrong::Everything
        {
            if entry.body != request.body && self.wrong != Wrong::ReplaysOtherBodies {
                let words = r#"{"code":"other_request"}"#;
                return match self.ways.own_words {
                    true => Answer::new(400, words),
                    false => Answer::new(422, "another request"),
                };
            }
            match &entry.answer {
                Some(answer) => return self.replay(answer.clone()),
                None if self.wrong == Wrong::InProgressIsNew => {}
                None if self.ways.own_words => return Answer::new(423, r#"{"code":"still_busy"}"#),
                None => return Answer::new(409, "busy").line("retry-after: 0"),
            }
        }
        if self.wrong != Wrong::CheckThenAct {
            let body = request.body.clone();
            state
                .entries
                .insert(name.clone(), Entry { body, answer: None });
        }
        // The work takes until all the others have come: a race is then no matter of luck.
        let all = |state: &mut State| state.arrived[key] < request.rivals(self.ways);
        let limit = Duration::from_secs(5);
        let (mut state, _) = self.changed.wait_timeout_while(state, limit, all).unwrap();
        state.runs += 1;
        let run = state.runs;
        let fails = !request.lines("x-fail").is_empty();
        let answer = match fails {
            true => Answer::new(503, format!("broken in run {run}")),
            false => Answer::new(201, format!(r#"{{"id":{run}}}"#))
                .line("content-type: application/json")
                .line(&format!("location: /payments/{run}")),
        };
        if fails && self.wrong != Wrong::Stores503Unmarked {
            state.entries.remove(&name);
        } else {
            let body = request.body.clone();
            let kept = Some(answer.clone());
            state.entries.insert(name, Entry { body, answer: kept });
        }
        match self.wrong {
            Wrong::MarkerAlways => answer.line("idempotent-replayed: true"),
            _ if self.ways.own_words => answer.line("x-shop-source: live"),
            _ => answer,
        }
    }

    fn replay(&self, mut answer: Answer) -> Answer {
        match self.wrong {
            Wrong::MarkerFalse => answer.line("idempotent-replayed: false"),
            Wrong::Stores503Unmarked if answer.status == 503 => answer,
            Wrong::StatusLost => {
                answer.status = 200;
                answer.line("idempotent-replayed: true")
            }
            _ if self.ways.own_words => answer.line("x-shop-source: store"),
            _ => answer.line("idempotent-replayed: true"),
        }
    }
}
