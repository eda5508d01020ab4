//! What an operation costs, side by side with what people would use instead.
//!
//! `cost all` prints everything, `cost check` is the bound that the continuous integration holds. Instructions are counted with
//! callgrind (valgrind has to be installed) and allocations with an allocator of its own, because these repeat; wall time is given
//! only as the median of interleaved ratios.

mod alloc;
mod asleep;
mod contenders;
mod contention;
mod count;
mod memory;
mod server;
mod small;
mod wall;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["server"] => server::run(),
        ["run", contender, path, operations, addr] => count::run(contender, path, operations, addr),
        ["all"] => {
            for table in [
                count::table,
                small::table,
                asleep::table,
                memory::table,
                wall::table,
                contention::table,
            ] {
                table();
                println!();
            }
        }
        ["table"] => count::table(),
        ["check"] => return count::check(),
        ["wall"] => wall::table(),
        ["asleep"] => asleep::table(),
        ["asleep-run", contender, operations, path, addr] => {
            asleep::run(contender, operations, path, addr);
        }
        ["memory"] => memory::table(),
        ["contention"] => contention::table(),
        ["small"] => small::table(),
        _ => {
            eprintln!("cost all | table | check | wall | asleep | memory | contention | small");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
