//! Which service configs gRPC accepts is asked of its C++ core, in the shape of the Python package.

use std::path::PathBuf;

use crate::pypi::Package;

/// The environment variable with a folder for `PYTHONPATH`.
pub const VARIABLE: &str = "REDIAL_TEST_GRPC";

/// Pinned, because another version may have other messages.
const PACKAGE: Package = Package {
    requirement: "grpcio==1.85.1",
    variable: VARIABLE,
    why: "tests of gRPC's service configs need its Python package",
    with_dependencies: true,
};

/// The folder of [`VARIABLE`], or our own, which is installed if it is missing.
///
/// # Errors
///
/// If it cannot be installed.
pub fn install() -> Result<PathBuf, String> {
    PACKAGE.given().map_or_else(|| PACKAGE.install(|_| Ok(())), Ok)
}
