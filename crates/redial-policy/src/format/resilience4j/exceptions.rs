//! resilience4j lists Java classes. Those of the JDK and of the usual HTTP clients stand for known failures; what other
//! classes stand for is known only to the code.

use std::collections::BTreeSet;

use redial_core::decide::{Class, RetryOn};

use super::super::import::Import;
use super::leaves::Leaf;
use super::read::Chain;
use crate::format::Note;
use crate::tree::{Cursor, Truncated};

/// The failures that a list of classes stands for.
#[derive(Default)]
struct Thrown {
    classes: BTreeSet<&'static str>,
    statuses: BTreeSet<u16>,
}

const CONNECT: &[Class] = &[Class::Connect];
const TIMEOUT: &[Class] = &[Class::Timeout];
/// Failures before a response. A timeout is an `IOException` too.
const TRANSPORT: &[Class] = &[Class::Connect, Class::Reset, Class::Timeout];
const NONE: &[Class] = &[];

const SERVER_ERRORS: &[u16] = &[500, 502, 503, 504];
const CLIENT_ERRORS: &[u16] = &[400, 401, 403, 404, 405, 406, 409, 410, 415, 422, 429];
const NO_STATUS: &[u16] = &[];

/// Classes with their failures before a response and their statuses.
const KNOWN: [(&str, &[Class], &[u16]); 31] = [
    ("java.io.IOException", TRANSPORT, NO_STATUS),
    ("java.io.UncheckedIOException", TRANSPORT, NO_STATUS),
    ("java.net.SocketException", &[Class::Connect, Class::Reset], NO_STATUS),
    ("java.net.ConnectException", CONNECT, NO_STATUS),
    ("java.net.UnknownHostException", CONNECT, NO_STATUS),
    ("java.net.NoRouteToHostException", CONNECT, NO_STATUS),
    ("java.net.SocketTimeoutException", TIMEOUT, NO_STATUS),
    ("java.net.http.HttpConnectTimeoutException", CONNECT, NO_STATUS),
    ("java.net.http.HttpTimeoutException", TIMEOUT, NO_STATUS),
    ("java.util.concurrent.TimeoutException", TIMEOUT, NO_STATUS),
    ("io.netty.channel.ConnectTimeoutException", CONNECT, NO_STATUS),
    ("io.netty.handler.timeout.ReadTimeoutException", TIMEOUT, NO_STATUS),
    ("io.netty.handler.timeout.TimeoutException", TIMEOUT, NO_STATUS),
    ("org.apache.http.conn.ConnectTimeoutException", CONNECT, NO_STATUS),
    ("org.apache.hc.client5.http.ConnectTimeoutException", CONNECT, NO_STATUS),
    ("org.springframework.web.client.ResourceAccessException", TRANSPORT, NO_STATUS),
    ("org.springframework.web.client.HttpServerErrorException", NONE, SERVER_ERRORS),
    ("org.springframework.web.client.HttpClientErrorException", NONE, CLIENT_ERRORS),
    (
        "org.springframework.web.reactive.function.client.WebClientRequestException",
        TRANSPORT,
        NO_STATUS,
    ),
    ("feign.RetryableException", TRANSPORT, NO_STATUS),
    ("feign.FeignException$FeignServerException", NONE, SERVER_ERRORS),
    ("feign.FeignException$FeignClientException", NONE, CLIENT_ERRORS),
    ("jakarta.ws.rs.ProcessingException", TRANSPORT, NO_STATUS),
    ("jakarta.ws.rs.ServerErrorException", NONE, SERVER_ERRORS),
    ("jakarta.ws.rs.InternalServerErrorException", NONE, &[500]),
    ("jakarta.ws.rs.ServiceUnavailableException", NONE, &[503]),
    ("jakarta.ws.rs.ClientErrorException", NONE, CLIENT_ERRORS),
    ("javax.ws.rs.ProcessingException", TRANSPORT, NO_STATUS),
    ("javax.ws.rs.ServerErrorException", NONE, SERVER_ERRORS),
    ("javax.ws.rs.InternalServerErrorException", NONE, &[500]),
    ("javax.ws.rs.ServiceUnavailableException", NONE, &[503]),
];

/// Classes with a nested class for each status.
const WITH_STATUSES: [&str; 4] = [
    "org.springframework.web.client.HttpServerErrorException",
    "org.springframework.web.client.HttpClientErrorException",
    "org.springframework.web.reactive.function.client.WebClientResponseException",
    "feign.FeignException",
];

const NESTED: [(&str, u16); 17] = [
    ("BadRequest", 400),
    ("Unauthorized", 401),
    ("Forbidden", 403),
    ("NotFound", 404),
    ("MethodNotAllowed", 405),
    ("NotAcceptable", 406),
    ("Conflict", 409),
    ("Gone", 410),
    ("UnsupportedMediaType", 415),
    ("UnprocessableEntity", 422),
    ("UnprocessableContent", 422),
    ("TooManyRequests", 429),
    ("InternalServerError", 500),
    ("NotImplemented", 501),
    ("BadGateway", 502),
    ("ServiceUnavailable", 503),
    ("GatewayTimeout", 504),
];

/// Classes that almost every exception is an instance of.
const EVERYTHING: [&str; 3] =
    ["java.lang.Throwable", "java.lang.Exception", "java.lang.RuntimeException"];

/// The failures of a class; `None`, if only the code knows them.
fn failures(class: &str) -> Option<(&'static [Class], Vec<u16>)> {
    if let Some((_, classes, statuses)) = KNOWN.iter().find(|(name, ..)| *name == class) {
        return Some((classes, statuses.to_vec()));
    }
    let (outer, inner) = class.split_once('$')?;
    let (_, status) = NESTED.iter().find(|(name, _)| *name == inner)?;
    WITH_STATUSES.contains(&outer).then(|| (NONE, vec![*status]))
}

impl Thrown {
    /// Adds the classes of a list, and returns the ones whose failures only the code knows.
    fn add<'a>(&mut self, listed: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut unknown = Vec::new();
        for class in listed {
            match failures(class) {
                Some((classes, statuses)) => {
                    self.classes.extend(classes.iter().map(|class| class.name()));
                    self.statuses.extend(statuses);
                }
                None => unknown.push(class),
            }
        }
        unknown
    }

    fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.statuses.is_empty()
    }

    fn without(&self, other: &Self) -> Self {
        Self { classes: &self.classes - &other.classes, statuses: &self.statuses - &other.statuses }
    }

    fn retry_on(&self) -> RetryOn {
        let classes = self.classes.iter().filter_map(|name| Class::from_name(name));
        let mut on = classes.fold(RetryOn::nothing(), RetryOn::class);
        let mut statuses = self.statuses.clone();
        for (class, means) in [
            (Class::ServerError, &[500, 502, 504][..]),
            (Class::Overloaded, &[503]),
            (Class::Throttled, &[429]),
        ] {
            if means.iter().all(|status| statuses.contains(status)) {
                statuses.retain(|status| !means.contains(status));
                on = on.class(class);
            }
        }
        statuses.into_iter().fold(on, RetryOn::code)
    }
}

/// What is retried, from the classes of an instance.
pub(super) fn retry_on(chain: &Chain<'_, '_>, import: &mut Import<'_>) -> RetryOn {
    let [retried, ignored] =
        ["retryexceptions", "ignoreexceptions"].map(|field| listed(chain, field));
    for leaf in &ignored {
        import.dropped(
            &leaf.here,
            "subtracted from retryExceptions, as far as the classes are known",
        );
    }
    let predicate = chain.get("retryexceptionpredicate");
    if let Some(here) = predicate {
        import.approximated(here, "retry_on", "a Java class decides, which is not known");
    }
    let names = |leaves: &[&Leaf<'_>]| {
        leaves.iter().flat_map(|leaf| classes(&leaf.here)).collect::<Vec<_>>()
    };
    let (names, ignored) = (names(&retried), names(&ignored));
    let is_everything = |class: &String| EVERYTHING.contains(&class.as_str());
    if retried.is_empty() && predicate.is_none() || names.iter().any(is_everything) {
        let text = "retry_on: every exception there, all transient failures here";
        import.notes.push(Note::approximated("retryExceptions", text));
        if let Some(leaf) = retried.first() {
            import.places.put("retry_on", import.place(&leaf.here));
        }
        return RetryOn::transient();
    }
    let (mut thrown, mut spared) = (Thrown::default(), Thrown::default());
    let unknown = thrown.add(names.iter().map(String::as_str));
    spared.add(ignored.iter().map(String::as_str));
    if let Some(leaf) = retried.first() {
        let text = "retry_on: the failures of the known classes";
        import.approximated(&leaf.here, "retry_on", text);
    }
    for class in unknown {
        let text =
            format!("`{}` may stand for any failure, which only the code knows", Truncated(class));
        import.notes.push(Note::dropped("retryExceptions", text));
    }
    if thrown.is_empty() {
        import.knows_failures = false;
        return RetryOn::transient();
    }
    thrown.without(&spared).retry_on()
}

/// The nearest level of a list. In properties, each item is a leaf of its own.
fn listed<'l, 'a>(chain: &Chain<'l, 'a>, field: &str) -> Vec<&'l Leaf<'a>> {
    let of = |level: &Vec<&'l Leaf<'a>>| {
        level.iter().copied().filter(|leaf| leaf.field == field).collect::<Vec<_>>()
    };
    chain.levels.iter().map(of).find(|leaves| !leaves.is_empty()).unwrap_or_default()
}

fn classes(here: &Cursor<'_>) -> Vec<String> {
    let items: Vec<String> = here.items().filter_map(|item| item.scalar().ok()).collect();
    let text = if here.node.list().is_some() { None } else { here.scalar().ok() };
    let words = text.iter().flat_map(|text| text.split(','));
    items.into_iter().chain(words.map(|word| word.trim().to_owned())).collect()
}
