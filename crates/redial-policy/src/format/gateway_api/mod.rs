use super::{Border, Written};
use crate::file::File;
use crate::pile::{Document, Reading};
use crate::source::Problem;
use crate::tree::Node;

pub(super) const BORDER: Border = Border { recognises, read, write };

fn recognises(_node: &Node) -> bool {
    false
}

fn read(_documents: &[Document], _reading: &mut Reading) {}

fn write(_file: &File) -> Result<Written, Problem> {
    Err(Problem::whole("not there yet"))
}
