//! The token's file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use redial_web::Token;

#[test]
fn a_token_survives_in_a_file_that_only_its_owner_can_read() {
    let path = std::env::temp_dir().join(format!("redial-{}-token", redial::Key::fresh()));
    let first = Token::in_file(&path).unwrap();
    assert_eq!(first.reveal().len(), 32);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Token::in_file(&path).unwrap().reveal(), first.reveal());
    assert_ne!(Token::new().unwrap().reveal(), first.reveal());
    // One that others could have read is not used, and neither is another file.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = Token::in_file(&path).err().unwrap().to_string();
    assert!(error.contains("delete the file"), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for wrong in ["", "0", "not a token, but as long as one", &"0".repeat(100)] {
        fs::write(&path, wrong).unwrap();
        let error = Token::in_file(&path).err().unwrap().to_string();
        assert!(error.contains("not a token"), "{wrong:?}: {error}");
    }
    fs::remove_file(&path).unwrap();
}
