//! The ledger's script, run by Lua in virtual time without Redis.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use redial_core::Time;
use redial_core::fleet::{Ask, Grant};

pub(super) const SOURCE: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../redial/src/fleet/ledger.lua"));

/// The clock of Redis at the start of virtual time.
pub(super) const BEGAN: u64 = 1_790_000_000_000_000;

/// A Redis with one key.
pub(super) struct Script {
    lua: Lua,
    step: Function,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    micros: u64,
    value: Option<Vec<u8>>,
    expires: u64,
}

impl Script {
    pub(super) fn new() -> Self {
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
        lua.globals().set("struct", structs(&lua)).unwrap();
        let source = format!("local KEYS, ARGV = ...\n{SOURCE}");
        let step = lua.load(source).set_name("ledger.lua").into_function().unwrap();
        Self { lua, step, state }
    }

    pub(super) fn ask(&self, ask: &Ask, now: Time) -> Grant {
        self.state.borrow_mut().at(BEGAN + now.since_zero().as_micros());
        let words =
            self.lua.create_sequence_from(ask.words().map(|word| word.to_string())).unwrap();
        let keys = self.lua.create_sequence_from(["key"]).unwrap();
        let reply: Table = self.step.call((keys, words)).unwrap();
        let words: Vec<i64> =
            reply.sequence_values::<f64>().map(|word| word.unwrap() as i64).collect();
        Grant::from_words(&words).unwrap()
    }

    /// Like `FLUSHALL` or a restart without data.
    pub(super) fn forget(&self) {
        self.state.borrow_mut().value = None;
    }
}

impl State {
    fn at(&mut self, micros: u64) {
        self.micros = micros;
        if micros >= self.expires {
            self.value = None;
        }
    }

    fn call(
        &mut self,
        lua: &Lua,
        command: &str,
        args: impl Iterator<Item = Value>,
    ) -> mlua::Result<Value> {
        let answer = match command {
            "TIME" => {
                let parts = [self.micros / 1_000_000, self.micros % 1_000_000];
                lua.create_sequence_from(parts.map(|part| part.to_string()))?
            }
            "GET" => {
                let value = self.value.as_deref().map(|value| lua.create_string(value));
                return Ok(value.transpose()?.map_or(Value::Boolean(false), Value::String));
            }
            "SET" => {
                let args: Vec<Value> = args.collect();
                self.value = args[0].as_string().map(|value| value.as_bytes().to_vec());
                self.expires = self.micros + number(&args[2]) as u64 * 1_000;
                lua.create_table()?
            }
            other => panic!("the script calls {other}"),
        };
        Ok(Value::Table(answer))
    }
}

/// The part of Redis's Lua library that the script uses.
fn structs(lua: &Lua) -> Table {
    let pack = lua.create_function(|lua, args: MultiValue| {
        let bytes: Vec<u8> = args.iter().skip(1).flat_map(|it| number(it).to_le_bytes()).collect();
        lua.create_string(bytes)
    });
    let unpack =
        lua.create_function(|_, (format, bytes, from): (String, mlua::LuaString, usize)| {
            let bytes = bytes.as_bytes();
            let numbers = bytes[from - 1..].chunks_exact(8).take(format.len() - 1);
            let numbers = numbers.map(|it| f64::from_le_bytes(it.try_into().unwrap()));
            Ok(numbers.map(Value::Number).collect::<MultiValue>())
        });
    let table = lua.create_table().unwrap();
    table.set("pack", pack.unwrap()).unwrap();
    table.set("unpack", unpack.unwrap()).unwrap();
    table
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(whole) => *whole as f64,
        Value::Number(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}
