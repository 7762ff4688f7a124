//! Spring Cloud Gateway repeats requests in the `Retry` filter of a route, or of all routes.

use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, Growth, Jitter};
use redial_core::{Draft, LONGEST_DURATION, Span};

use super::import::{Import, Metadata};
use super::system::{Advice, System, Words};
use super::time;
use super::{Format, constant, resilience4j::duration};
use crate::file::{Route, Setting};
use crate::finding::reading::UNKNOWN_RETRY_ON;
use crate::format::{ConfigReading, Note};
use crate::tree::{Cursor, Document, Value};

pub(super) static SYSTEM: System = System {
    name: "spring-gateway",
    title: "Spring Cloud Gateway",
    recognises: |node| {
        gateways(&Cursor::top(node)).iter().any(|gateway| !filters(gateway).is_empty())
    },
    read,
    write: None,
    language: |_| None,
    words: Words::Names(&[
        ("attempts", "args.retries"),
        ("backoff.base", "args.backoff.firstBackoff"),
        ("backoff.cap", "args.backoff.maxBackoff"),
        ("retry_on", "args.statuses"),
    ]),
    // Its reader knows every field.
    names: &[],
    is_own: |_| false,
    duration: |_, span| time::as_unit(span),
    counts_retries: true,
    advice: Advice {
        one_attempt: Some("remove the `Retry` filter"),
        exempt: "list only idempotent methods in `methods`",
        ..Advice::NONE
    },
};

/// The tables of the gateway: its name has changed with its servers.
fn gateways<'a>(top: &Cursor<'a>) -> Vec<Cursor<'a>> {
    let mut found = Vec::new();
    for path in [
        &["spring", "cloud", "gateway"][..],
        &["spring", "cloud", "gateway", "mvc"],
        &["spring", "cloud", "gateway", "server", "webflux"],
        &["spring", "cloud", "gateway", "server", "webmvc"],
    ] {
        dotted(top, path, &mut found);
    }
    found
}

/// The tables at a path, of which several keys can be one: `spring.cloud.gateway`.
fn dotted<'a>(here: &Cursor<'a>, path: &[&str], found: &mut Vec<Cursor<'a>>) {
    if path.is_empty() {
        return found.push(here.clone());
    }
    for taken in 1..=path.len() {
        if let Some(below) = here.get(&path[..taken].join(".")) {
            dotted(&below, &path[taken..], found);
        }
    }
}

/// A `Retry` filter and the route that it is in; none for filters of all routes.
type Filter<'a> = (Option<Cursor<'a>>, Cursor<'a>);

fn filters<'a>(gateway: &Cursor<'a>) -> Vec<Filter<'a>> {
    let mut found = Vec::new();
    let all = gateway.first(&["default-filters", "defaultFilters"]);
    found.extend(all.iter().flat_map(Cursor::items).map(|filter| (None, filter)));
    for route in gateway.get("routes").iter().flat_map(Cursor::items) {
        let own = route.get("filters");
        found
            .extend(own.iter().flat_map(Cursor::items).map(|filter| (Some(route.clone()), filter)));
    }
    found.retain(|(_, filter)| is_retry(filter));
    found
}

fn is_retry(filter: &Cursor<'_>) -> bool {
    let name = filter.get("name");
    let name = name.as_ref().and_then(|name| name.node.text());
    let short = filter.node.text().and_then(|text| text.split('=').next());
    name.or(short).is_some_and(|name| name.trim() == "Retry")
}

fn read(documents: &[Document], reading: &mut ConfigReading) {
    for document in documents {
        for gateway in gateways(&Cursor::top(&document.node)) {
            for (route, filter) in filters(&gateway) {
                found(document, &gateway, (route.as_ref(), &filter), reading);
            }
        }
    }
}

fn found(
    document: &Document,
    gateway: &Cursor<'_>,
    (route, filter): (Option<&Cursor<'_>>, &Cursor<'_>),
    reading: &mut ConfigReading,
) {
    let mut import = Import::new(document, filter);
    let args = match filter.node.text() {
        Some(text) => Args::short(filter, text),
        None => Args::table(filter, &mut import),
    };
    let attempts = match &args.retries {
        Some(here) => args.retries(here, &mut import),
        None => 4,
    };
    let on = conditions(&args, &mut import);
    let methods = args.words("methods", &["GET"]);
    let unsafe_one =
        |method: &String| !matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE");
    import.checks_safety = !methods.iter().any(unsafe_one);
    let draft = Draft::bare(attempts).retry_on(on).backoff(waits(&args, &mut import));
    let timeout = timeout(gateway, route, &mut import);
    let draft = timeout.map_or(draft.clone(), |span| draft.attempt_timeout(span.into()));
    let id = route.and_then(|route| route.get("id")).and_then(|id| id.scalar().ok());
    let name = id.unwrap_or_else(|| "default-filters".to_owned());
    let routes = vec![Route { methods, policy: name.clone(), ..Route::default() }];
    let setting = Setting::default();
    import.finish(
        draft,
        Metadata { format: Format::SpringGateway, name, routes, setting },
        reading,
    );
}

/// The arguments of a filter, as a table or in short: `Retry=3,BAD_GATEWAY,GET,10ms,50ms,2,false`.
struct Args<'a> {
    here: Cursor<'a>,
    short: Vec<String>,
    retries: Option<Cursor<'a>>,
}

const SHORT: [&str; 6] = ["retries", "statuses", "methods", "firstBackoff", "maxBackoff", "factor"];

impl<'a> Args<'a> {
    fn short(filter: &Cursor<'a>, text: &str) -> Self {
        let values = text.split_once('=').map_or("", |(_, values)| values).split(',');
        let short = values.map(|value| value.trim().to_owned()).collect();
        Self { here: filter.clone(), short, retries: Some(filter.clone()) }
    }

    fn table(filter: &Cursor<'a>, import: &mut Import<'_>) -> Self {
        import.unknown_but(filter, &["name", "args"]);
        let here = filter.get("args").unwrap_or_else(|| filter.clone());
        if filter.get("args").is_some() {
            let known = [
                "retries",
                "statuses",
                "series",
                "methods",
                "exceptions",
                "backoff",
                "jitter",
                "timeout",
            ];
            import.unknown_but(&here, &known);
        }
        let retries = here.get("retries");
        Self { here, short: Vec::new(), retries }
    }

    /// A value of the short form.
    fn value(&self, name: &str) -> Option<&str> {
        let at = SHORT.iter().position(|known| *known == name)?;
        self.short.get(at).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn retries(&self, here: &Cursor<'_>, import: &mut Import<'_>) -> u32 {
        if self.short.is_empty() {
            return import.retries(here, 1).unwrap_or(4);
        }
        import.places.put("attempts", import.place(here));
        let retries = self.value("retries").map_or(Ok(3), str::parse::<u32>);
        let wrong = |_| here.problem("the first value must be a number of retries");
        import.problems.or(3, retries.map_err(wrong)).saturating_add(1)
    }

    /// Words in a list, in one text, or in the short form.
    fn words(&self, name: &str, default: &[&str]) -> Vec<String> {
        let field = self.here.get(name).filter(|_| self.short.is_empty());
        let texts: Vec<String> = match field.as_ref().map(|field| &field.node.value) {
            Some(Value::List(_)) => {
                field.iter().flat_map(Cursor::items).filter_map(|it| it.scalar().ok()).collect()
            }
            Some(_) => field.and_then(|field| field.scalar().ok()).into_iter().collect(),
            None => match self.value(name) {
                Some(value) => vec![value.to_owned()],
                None => return default.iter().map(|word| (*word).to_owned()).collect(),
            },
        };
        let words = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }
}

const STATUSES: [(&str, u16); 17] = [
    ("BAD_REQUEST", 400),
    ("UNAUTHORIZED", 401),
    ("FORBIDDEN", 403),
    ("NOT_FOUND", 404),
    ("METHOD_NOT_ALLOWED", 405),
    ("NOT_ACCEPTABLE", 406),
    ("REQUEST_TIMEOUT", 408),
    ("CONFLICT", 409),
    ("GONE", 410),
    ("UNPROCESSABLE_ENTITY", 422),
    ("TOO_EARLY", 425),
    ("TOO_MANY_REQUESTS", 429),
    ("INTERNAL_SERVER_ERROR", 500),
    ("NOT_IMPLEMENTED", 501),
    ("BAD_GATEWAY", 502),
    ("SERVICE_UNAVAILABLE", 503),
    ("GATEWAY_TIMEOUT", 504),
];

/// Statuses, the series of 5xx unless it is replaced, and exceptions of connections.
fn conditions(args: &Args<'_>, import: &mut Import<'_>) -> RetryOn {
    let mut on = RetryOn::nothing();
    let here = args.here.get("statuses").unwrap_or_else(|| args.here.clone());
    for word in args.words("statuses", &[]) {
        let code = word.parse().ok().filter(|code| (400..600).contains(code));
        let named = STATUSES.iter().find(|(name, _)| *name == word).map(|(_, code)| *code);
        match code.or(named) {
            Some(code) => on = on.code(code),
            None => {
                let message = format!("{}: unknown status `{word}` stops the gateway", here.path());
                let help = "write a name of Spring's HttpStatus, such as BAD_GATEWAY, or 502";
                let place = import.place(&here);
                let finding = UNKNOWN_RETRY_ON.finding(place, import.places.whole(), message, help);
                import.findings.push(finding);
            }
        }
    }
    if args.here.get("statuses").is_some() {
        import.kept(&here, "retry_on", "codes in retry_on");
    }
    for series in args.words("series", &["SERVER_ERROR"]) {
        match series.as_str() {
            "SERVER_ERROR" => on = on.class(Class::ServerError).class(Class::Overloaded),
            "CLIENT_ERROR" => {
                on = [400, 401, 403, 404, 405, 409, 429].into_iter().fold(on, RetryOn::code);
            }
            _ => {}
        }
    }
    let text = "series: SERVER_ERROR unless it is set, also beside statuses; 501 and 505 to 599 are not retried here";
    import.notes.push(Note::approximated(args.here.path(), text));
    let exceptions = args.words("exceptions", &["java.io.IOException", "TimeoutException"]);
    if !exceptions.is_empty() {
        on = on.class(Class::Connect).class(Class::Reset);
    }
    if exceptions.iter().any(|class| class.ends_with("TimeoutException")) {
        on = on.class(Class::Timeout);
    }
    on
}

/// No waits by default; with `backoff` they grow by a factor, without jitter unless `jitter` is set.
fn waits(args: &Args<'_>, import: &mut Import<'_>) -> Backoff {
    let backoff = args.here.get("backoff").filter(|_| args.short.is_empty());
    let field = |name: &str| backoff.as_ref().and_then(|backoff| backoff.get(name));
    if let Some(backoff) = &backoff {
        import.unknown_but(
            backoff,
            &["firstBackoff", "maxBackoff", "factor", "basedOnPreviousValue"],
        );
        import.kept(backoff, "backoff", "backoff");
    }
    let time = |name: &str, import: &Import<'_>| match (field(name), args.value(name)) {
        (Some(here), _) => import.problems.ok(duration(&here)),
        (None, Some(text)) => text.parse().ok(),
        (None, None) => None,
    };
    let (first, most) = (time("firstBackoff", import), time("maxBackoff", import));
    if backoff.is_none() && first.is_none() {
        let text = "backoff.base = 1ns: without backoff, requests are repeated at once";
        import.notes.push(Note::approximated(args.here.path(), text));
        return constant(time::SHORTEST_DURATION).jitter(Jitter::None);
    }
    for name in ["firstBackoff", "maxBackoff"] {
        if let Some(here) = field(name) {
            let ours = if name == "firstBackoff" { "backoff.base" } else { "backoff.cap" };
            import.kept(&here, ours, ours);
        }
    }
    let base = first.unwrap_or(Span::from_millis(5)).max(time::SHORTEST_DURATION);
    let factor = field("factor").map_or(Ok(2.0), |here| here.number());
    let factor = import.problems.or(2.0, factor);
    let jitter = args.here.get("jitter").filter(|_| args.short.is_empty());
    let jitter = jitter.map(|here| {
        import.kept(&here, "backoff.jitter", "backoff.jitter");
        let share = here.get("randomFactor").map_or(Ok(0.5), |share| share.number());
        import.problems.or(0.5, share).clamp(0.0, 1.0)
    });
    Backoff {
        growth: Growth::Exponential(factor.clamp(1.0, 1000.0)),
        base: base.min(most.unwrap_or(LONGEST_DURATION)),
        cap: most.unwrap_or(LONGEST_DURATION).max(time::SHORTEST_DURATION),
        jitter: jitter.map_or(Jitter::None, Jitter::Around),
        clip: false,
    }
}

/// The timeout of a response, of the route or of all routes.
fn timeout(
    gateway: &Cursor<'_>,
    route: Option<&Cursor<'_>>,
    import: &mut Import<'_>,
) -> Option<Span> {
    let own = route.and_then(|route| route.at(&["metadata", "response-timeout"]));
    let all = gateway.at(&["httpclient", "response-timeout"]);
    let here = own.or(all)?;
    import.kept(&here, "attempt_timeout", "attempt_timeout");
    import.problems.ok(duration(&here).and_then(|span| time::above_zero(&here, span)))
}
