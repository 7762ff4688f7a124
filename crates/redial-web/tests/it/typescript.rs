//! The page's types are those of the server.

use std::fs;
use std::path::Path;

#[test]
fn the_page_has_the_types_of_the_server() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("app/src/lib/types.ts");
    let types = redial_web::typescript();
    if std::env::var_os("REDIAL_BLESS").is_some() {
        fs::write(&path, &types).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap();
    assert!(stored == types, "{}: run this test with REDIAL_BLESS=1", path.display());
}
