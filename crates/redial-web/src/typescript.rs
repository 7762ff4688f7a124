//! The types of the API in TypeScript, made from those that are sent and received: the page cannot disagree with the server.

use std::collections::BTreeMap;

use ts_rs::{Config, TS, TypeVisitor};

use crate::{exercise, hello, live, playground, policies, queue};

/// The text of `app/src/lib/types.ts`.
#[must_use]
pub fn typescript() -> String {
    let config = Config::new().with_large_int("number");
    let mut types = Types { config, declared: BTreeMap::new() };
    types.visit::<hello::Hello>();
    exercise::visit_types(&mut types);
    live::visit_types(&mut types);
    playground::visit_types(&mut types);
    policies::visit_types(&mut types);
    queue::visit_types(&mut types);
    let head = "// Made from the types of the server by the test `typescript`: do not edit.\n";
    types.declared.into_values().fold(head.to_owned(), |text, type_| text + "\n" + &type_)
}

/// Declarations by name.
struct Types {
    config: Config,
    declared: BTreeMap<String, String>,
}

impl TypeVisitor for Types {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // What TypeScript has itself has no path.
        if T::output_path().is_none() {
            return;
        }
        let name = T::ident(&self.config);
        if !self.declared.contains_key(&name) {
            // A comment on the line of its field.
            let declaration =
                T::decl(&self.config).replace("/**\n * ", "/** ").replace("\n */\n", " */ ");
            self.declared.insert(name, format!("export {declaration}\n"));
            T::visit_dependencies(self);
        }
    }
}
