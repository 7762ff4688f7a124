//! The config formats of other systems, and our own. Each has a file or folder here that recognises its documents, reads
//! them into policies, writes policies for it, and knows its names for the fields of a policy (`System`).
//!
//! Systems that count retries are converted here, and nowhere else: a policy counts attempts.

mod aws;
mod consul;
mod contour;
mod dotnet;
mod envoy;
mod envoy_gateway;
mod export;
mod found;
mod gateway_api;
mod grpc;
mod import;
mod istio;
mod kube;
mod linkerd;
pub(crate) mod misspelt;
mod reading;
mod redial;
mod resilience4j;
mod spring_gateway;
mod system;
mod time;
mod traefik;

use redial_core::Span;
use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, HintRule, TooLong};

pub use found::{Found, Note, NoteKind};
pub use reading::ConfigReading;
pub(crate) use system::System;
use system::Words;

use crate::file::File;
use crate::source::Problem;
use crate::tree::{Document, Language, Node};

/// Declares the formats: the list below is the only one.
macro_rules! formats {
    ($($(#[$doc:meta])* $format:ident = $module:ident;)*) => {
        /// The format of a config.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Format {
            $($(#[$doc])* $format,)*
        }

        impl Format {
            /// All formats.
            pub const ALL: [Self; [$(Self::$format,)*].len()] = [$(Self::$format,)*];

            pub(crate) fn system(self) -> &'static System {
                match self {
                    $(Self::$format => &$module::SYSTEM,)*
                }
            }
        }
    };
}

formats! {
    /// Our own policy files.
    Redial = redial;
    /// Envoy's routes and clusters.
    Envoy = envoy;
    /// Istio's `VirtualService` and `DestinationRule`.
    Istio = istio;
    /// Linkerd's annotations and `ServiceProfile`.
    Linkerd = linkerd;
    /// The `HTTPRoute` and `XBackendTrafficPolicy` of Kubernetes' Gateway API.
    GatewayApi = gateway_api;
    /// The service config of gRPC.
    Grpc = grpc;
    /// resilience4j in Spring's `application.yml` or `.properties`.
    Resilience4j = resilience4j;
    /// The shared config file of the AWS SDKs.
    Aws = aws;
    /// .NET's standard resilience in `appsettings.json`.
    DotNet = dotnet;
    /// Envoy Gateway's `BackendTrafficPolicy`.
    EnvoyGateway = envoy_gateway;
    /// Contour's `HTTPProxy`.
    Contour = contour;
    /// Consul's service routers, and the retry filters of its API gateway.
    Consul = consul;
    /// Traefik's retry middleware.
    Traefik = traefik;
    /// The `Retry` filter of Spring Cloud Gateway.
    SpringGateway = spring_gateway;
}

/// A config for another system.
#[derive(Clone, Debug)]
pub struct Written {
    /// The config.
    pub text: String,
    /// What became of each policy's fields: by policy, in the order of the file.
    pub notes: Vec<(String, Vec<Note>)>,
}

impl Format {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.system().name
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The fields of a policy that the format has, by path, with its own names for them. Policy files use the paths
    /// themselves, and have no other names.
    pub fn words(self) -> &'static [(&'static str, &'static str)] {
        match self.system().words {
            Words::Paths => &[],
            Words::Names(names) => names,
        }
    }

    /// Policy files are TOML, and no other format is: others use the word `policy` too.
    pub(crate) fn any_recognises(node: &Node, language: Language) -> bool {
        let is_toml = language == Language::Toml;
        let mut formats =
            Self::ALL.into_iter().filter(|format| (*format == Self::Redial) == is_toml);
        formats.any(|format| (format.system().recognises)(node))
    }

    /// Whether a document has no retries of its own, but says which requests the policy beside it is about.
    pub(crate) fn any_targets(node: &Node) -> bool {
        envoy_gateway::is_target(node)
    }

    /// The language of a text in this format, if the name of its file does not show it.
    pub(crate) fn language(self, text: &str) -> Option<Language> {
        (self.system().language)(text)
    }

    pub(crate) fn read(self, documents: &[Document], reading: &mut ConfigReading) {
        (self.system().read)(documents, reading);
    }

    /// Whether policies can be written in this format. All can be read.
    pub fn is_written(self) -> bool {
        self.system().write.is_some()
    }

    /// Writes policies in this format.
    ///
    /// # Errors
    ///
    /// The format is only read, the file has no policy, or a policy that cannot be expressed in this format.
    pub fn write(self, file: &File) -> Result<Written, Problem> {
        match self.system().write {
            Some(write) => write(file),
            None => {
                Err(Problem::whole(format!("configs of {} are only read", self.system().title)))
            }
        }
    }
}

/// The most attempts in a policy, which stands for "unlimited" in other systems.
const MOST_ATTEMPTS: u32 = 1_000_000;

/// Waits exactly as long as the server asks, up to `cap`.
fn exactly(cap: Span) -> HintRule {
    HintRule::Honour { cap, too_long: TooLong::Stop, spread: Some(0.0) }
}

/// What libraries treat as transient: failed or broken connections, timeouts, 429, 500, 502, 503 and 504.
fn usual_failures() -> RetryOn {
    let classes = [Class::Connect, Class::Reset, Class::Timeout, Class::Throttled];
    let classes = classes.into_iter().chain([Class::Overloaded, Class::ServerError]);
    classes.fold(RetryOn::nothing(), RetryOn::class)
}

/// The policies of a file, which must have one.
fn policies(file: &File) -> Result<&[crate::file::Named], Problem> {
    match file.policies.as_slice() {
        [] => Err(Problem::whole("no policy to export").help("add one: `[policy.NAME]`")),
        policies => Ok(policies),
    }
}

/// A constant backoff.
fn constant(wait: Span) -> Backoff {
    Backoff::constant(wait.into())
}
