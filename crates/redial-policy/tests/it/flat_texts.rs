//! INI and properties.

use std::fmt::Write as _;

use redial_policy::tree::{MOST_NODES, Node, Value};
use redial_policy::{Format, Inputs, Problem, SourceText};

/// Every entry, with the pieces of text that its key and its value cover.
fn pieces(text: &str, node: &Node, out: &mut String) {
    for entry in node.table().unwrap().entries() {
        let key = &text[entry.key_span.range()];
        match &entry.node.value {
            Value::Table(_) => {
                let _ = write!(out, "{key}{{");
                pieces(text, &entry.node, out);
                out.push('}');
            }
            value => {
                let _ =
                    write!(out, "({}={value}|{key}|{})", entry.key, &text[entry.node.span.range()]);
            }
        }
    }
}

fn check(read: fn(&str) -> Result<Node, Problem>, text: &str, expected: &str) {
    let mut out = String::new();
    match read(text) {
        Ok(node) => pieces(text, &node, &mut out),
        Err(problem) => {
            let _ =
                write!(out, "{problem} @{}", problem.span.map_or("", |span| &text[span.range()]));
        }
    }
    assert_eq!(out, expected, "{text}");
}

#[test]
fn properties_are_read_with_the_text_of_each_value() {
    let check = |text, expected| check(Node::properties, text, expected);
    check("", "");
    check("a.b=1\n c : 2\nd 3\r\ne", "(a.b=\"1\"|a.b|1)(c=\"2\"|c|2)(d=\"3\"|d|3)(e=\"\"|e|)");
    check("# a=1\n! b=2 \\\nc=3", "(c=\"3\"|c|3)");
    check("a=one, \\\n   two\nb=2", "(a=\"one, two\"|a|one, \\\n   two)(b=\"2\"|b|2)");
    check("a=b\\\\\nc=1", "(a=\"b\\\"|a|b\\\\)(c=\"1\"|c|1)");
    check(
        "a\\=b\\ c=\\u00e9\\ud83d\\ude00\\q",
        "(a=b c=\"é😀q\"|a\\=b\\ c|\\u00e9\\ud83d\\ude00\\q)",
    );
    check("ключ=ö", "(ключ=\"ö\"|ключ|ö)");
    check("a=\\u12", "`\\u` must be followed by the four hexadecimal digits of a character @\\u12");
    check(
        "a=\\ud83dx",
        "`\\u` must be followed by the four hexadecimal digits of a character @\\ud83dx",
    );
    check("a=1\na=2", "duplicate key `a`; remove one of them @a");
    check("a=\\", "(a=\"\"|a|\\)");
    check("=x", "(=\"x\"||x)");
}

#[test]
fn ini_files_are_read_with_the_text_of_each_value() {
    let check = |text, expected| check(Node::ini, text, expected);
    check("", "");
    check("[default]\na = 1 # why\nb=x;y\n", "[default]{(a=\"1\"|a|1)(b=\"x;y\"|b|x;y)}");
    check(
        "[ profile  x ] ; why\nu = http://a#b\n",
        "[ profile  x ] ; why{(u=\"http://a#b\"|u|http://a#b)}",
    );
    check("[a]\ns3 =\n  m = 1\n  n = 2\nb = 3", "[a]{s3{(m=\"1\"|m|1)(n=\"2\"|n|2)}(b=\"3\"|b|3)}");
    check("[a]\nb = 1\n  two", "[a]{(b=\"1\u{fffd}two\"|b|1\n  two)}");
    check(
        "export A=\"x y\"\nB='z'\n C=1",
        "(A=\"x y\"|export A|\"x y\")(B=\"z\"|B|'z')(C=\"1\"|C|1)",
    );
    check("[a]\nb", "expected `name = value`, found `b` @b");
    check("[a\nb=1", "a section must be `[name]`, alone on its line @[a");
    check("[a]\n[a]", "duplicate key `a`; remove one of them @[a]");
    check("[a]\nb=1\nb=2", "duplicate key `b`; remove one of them @b");
    check("[a]\ns=\n b=1\n b=2", "duplicate key `b`; remove one of them @b");
}

#[test]
fn nodes_are_bounded() {
    for separator in ["\n", "\n[a]\ns=\n "] {
        let mut text = separator.to_owned();
        (0..=MOST_NODES).for_each(|i| {
            let _ = write!(text, "a{i}=1{}", if separator.len() > 1 { "\n " } else { "\n" });
        });
        assert!(Node::ini(&text).unwrap_err().message.contains("more than 1000000 values"));
    }
    let text: String = (0..=MOST_NODES).fold(String::new(), |text, i| text + &format!("a{i}\n"));
    assert!(Node::properties(&text).unwrap_err().message.contains("more than 1000000 values"));
}

#[test]
fn the_name_of_a_file_determines_its_language() {
    let added = |name: &str, text: &str, asked| {
        let source = SourceText::new(name, text.as_bytes().to_vec()).unwrap();
        Inputs::new().add(source, asked).map_err(|(_, problem)| problem.message)
    };
    let profile = "[default]\nmax_attempts = 2\n";
    assert_eq!(added("home/.aws/config", profile, None), Ok(1));
    assert_eq!(added("x.ini", profile, None), Ok(1));
    assert_eq!(added("-", profile, Some(Format::Aws)), Ok(1));
    assert_eq!(added("deploy/.env", "AWS_MAX_ATTEMPTS=3", None), Ok(1));
    assert_eq!(added("x.ini", "[default]\nregion = eu\n", None), Ok(0));
    let flat = "# x\nresilience4j.retry.instances.a.max-attempts=2";
    assert_eq!(added("x.properties", flat, None), Ok(1));
    assert_eq!(added("-", flat, Some(Format::Resilience4j)), Ok(1));
    assert_eq!(added("x.properties", "server.port=1", None), Ok(0));
    assert_eq!(added("-", "resilience4j:\n  retry: {}\n", Some(Format::Resilience4j)), Ok(1));
}
