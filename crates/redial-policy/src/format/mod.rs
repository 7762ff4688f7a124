//! Every system writes retries down in its own way. Each has a file here that says how to recognise its documents, how to
//! read them into policies of ours, and how to write one of ours for it, with an account of what is lost either way.
//!
//! What counts retries there counts attempts here: the border is in these files and nowhere else.

mod account;
mod aws;
pub(crate) mod dotnet;
mod envoy;
mod export;
mod gateway_api;
mod grpc;
mod istio;
mod kube;
mod linkerd;
mod redial;
mod resilience4j;
pub(crate) mod time;
mod unsaid;

use std::time::Duration;

use redial_core::Nanos;
use redial_core::decide::{Class, RetryOn};
use redial_core::schedule::{Backoff, HintRule, TooLong};

use crate::file::File;
use crate::found::Note;
use crate::pile::{Document, Language, Reading};
use crate::source::Problem;
use crate::tree::Node;

/// Whose config it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Our own policy files.
    Redial,
    /// Envoy's routes and clusters.
    Envoy,
    /// Istio's `VirtualService` and `DestinationRule`.
    Istio,
    /// Linkerd's annotations and `ServiceProfile`.
    Linkerd,
    /// The `HTTPRoute` and `XBackendTrafficPolicy` of Kubernetes' Gateway API.
    GatewayApi,
    /// The service config of gRPC.
    Grpc,
    /// resilience4j in Spring's `application.yml` or `.properties`.
    Resilience4j,
    /// The shared config file of the AWS SDKs.
    Aws,
    /// .NET's standard resilience in `appsettings.json`.
    DotNet,
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
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Redial,
        Self::Envoy,
        Self::Istio,
        Self::Linkerd,
        Self::GatewayApi,
        Self::Grpc,
        Self::Resilience4j,
        Self::Aws,
        Self::DotNet,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redial => "redial",
            Self::Envoy => "envoy",
            Self::Istio => "istio",
            Self::Linkerd => "linkerd",
            Self::GatewayApi => "gateway-api",
            Self::Grpc => "grpc",
            Self::Resilience4j => "resilience4j",
            Self::Aws => "aws",
            Self::DotNet => "dotnet",
        }
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Ours is the only one in TOML, and in nothing else: `policy` is a word that others have too.
    pub(crate) fn any_recognises(node: &Node, language: Language) -> bool {
        let ours = language == Language::Toml;
        let mut formats = Self::ALL.into_iter().filter(|format| (*format == Self::Redial) == ours);
        formats.any(|format| (format.border().recognises)(node))
    }

    pub(crate) fn read(self, documents: &[Document], reading: &mut Reading) {
        (self.border().read)(documents, reading);
    }

    /// Our policies, as this system has them.
    ///
    /// # Errors
    ///
    /// Nothing of it can be said there.
    pub fn write(self, file: &File) -> Result<Written, Problem> {
        (self.border().write)(file)
    }

    fn border(self) -> &'static Border {
        match self {
            Self::Redial => &redial::BORDER,
            Self::Envoy => &envoy::BORDER,
            Self::Istio => &istio::BORDER,
            Self::Linkerd => &linkerd::BORDER,
            Self::GatewayApi => &gateway_api::BORDER,
            Self::Grpc => &grpc::BORDER,
            Self::Resilience4j => &resilience4j::BORDER,
            Self::Aws => &aws::BORDER,
            Self::DotNet => &dotnet::BORDER,
        }
    }
}

/// What each file here says about its system.
struct Border {
    /// Whether a document has anything of it.
    recognises: fn(&Node) -> bool,
    /// Reads what is of it, and leaves the rest alone.
    read: fn(&[Document], &mut Reading),
    write: fn(&File) -> Result<Written, Problem>,
}

/// The most attempts that a policy can have: for what has no end there.
const MOST_ATTEMPTS: u32 = 1_000_000;

/// As the server says, to the nanosecond.
fn exactly(cap: Nanos) -> HintRule {
    HintRule::Honour { cap, too_long: TooLong::Stop, spread: Some(0.0) }
}

/// What libraries take for transient: no connection or a broken one, no answer, 429, 500, 502, 503 and 504.
fn usual_failures() -> RetryOn {
    let classes = [Class::Connect, Class::Reset, Class::Timeout, Class::Throttled];
    let classes = classes.into_iter().chain([Class::Overloaded, Class::ServerError]);
    classes.fold(RetryOn::nothing(), RetryOn::class)
}

/// The policies, of which there must be one.
fn policies(file: &File) -> Result<&[crate::file::Named], Problem> {
    match file.policies.as_slice() {
        [] => Err(Problem::whole("there is no policy in it").help("write one: `[policy.NAME]`")),
        policies => Ok(policies),
    }
}

/// Always the same wait, or as near to it as this jitter comes.
fn constant(wait: Nanos) -> Backoff {
    Backoff::constant(Duration::from_nanos(wait))
}
