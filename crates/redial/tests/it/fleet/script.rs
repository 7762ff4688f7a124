//! The ledger's own script, run by Lua in virtual time: only Redis around it is missing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use redial_core::Nanos;
use redial_core::fleet::{Answer, Ask};

pub const SOURCE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../redial/src/fleet/ledger.lua"));

/// What Redis's clock says when virtual time begins.
pub const BEGAN: u64 = 1_790_000_000_000_000;

/// A Redis of one key.
pub struct Script {
    lua: Lua,
    step: Function,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    micros: u64,
    hash: HashMap<String, f64>,
    expires: u64,
}

impl Script {
    pub fn new() -> Self {
        let lua = Lua::new();
        let state = Rc::<RefCell<State>>::default();
        let calls = Rc::clone(&state);
        let call = lua.create_function(move |lua, args: MultiValue| {
            let mut args = args.into_iter();
            let command =
                args.next().and_then(|name| name.as_string()?.to_str().ok().map(|s| s.to_string()));
            calls.borrow_mut().call(
                lua,
                command.as_deref().unwrap(),
                args.skip(usize::from(command.as_deref() != Some("TIME"))),
            )
        });
        let redis = lua.create_table().unwrap();
        redis.set("call", call.unwrap()).unwrap();
        lua.globals().set("redis", redis).unwrap();
        let source = format!("local KEYS, ARGV = ...\n{SOURCE}");
        let step = lua.load(source).set_name("ledger.lua").into_function().unwrap();
        Self { lua, step, state }
    }

    pub fn ask(&self, ask: &Ask, now: Nanos) -> Answer {
        self.state.borrow_mut().at(BEGAN + now / 1_000);
        let words =
            self.lua.create_sequence_from(ask.words().map(|word| word.to_string())).unwrap();
        let keys = self.lua.create_sequence_from(["key"]).unwrap();
        let answer: Table = self.step.call((keys, words)).unwrap();
        let answer: Vec<i64> =
            answer.sequence_values::<f64>().map(|word| word.unwrap() as i64).collect();
        Answer::from_words(&answer).unwrap()
    }

    /// As `FLUSHALL`, or a restart without data.
    pub fn forget(&self) {
        self.state.borrow_mut().hash.clear();
    }

    pub fn is_empty(&self, now: Nanos) -> bool {
        self.state.borrow_mut().at(BEGAN + now / 1_000);
        self.state.borrow().hash.is_empty()
    }
}

impl State {
    fn at(&mut self, micros: u64) {
        self.micros = micros;
        if micros >= self.expires {
            self.hash.clear();
        }
    }

    fn call(
        &mut self,
        lua: &Lua,
        command: &str,
        args: impl Iterator<Item = Value>,
    ) -> mlua::Result<Value> {
        let name = |value: Value| value.to_string().unwrap();
        let answer = match command {
            "TIME" => {
                let parts = [self.micros / 1_000_000, self.micros % 1_000_000];
                lua.create_sequence_from(parts.map(|part| part.to_string()))?
            }
            "HMGET" => {
                let found = args.map(|field| match self.hash.get(&name(field)) {
                    Some(value) => Value::Number(*value),
                    None => Value::Boolean(false),
                });
                lua.create_sequence_from(found)?
            }
            "HSET" => {
                let args: Vec<Value> = args.collect();
                for pair in args.chunks_exact(2) {
                    self.hash.insert(name(pair[0].clone()), number(&pair[1]));
                }
                lua.create_table()?
            }
            "PEXPIRE" => {
                let millis = number(&args.last().unwrap());
                self.expires = self.micros + millis as u64 * 1_000;
                lua.create_table()?
            }
            other => panic!("the script calls {other}"),
        };
        Ok(Value::Table(answer))
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(whole) => *whole as f64,
        Value::Number(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}
