//! `redial completions` and `redial man`: what a shell and `man` need to know about the arguments. Both are made from the
//! definitions of the arguments, so they cannot differ from them.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failed::Failed;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "\
bash reads completions from ~/.local/share/bash-completion/completions, fish from ~/.config/fish/completions, and zsh from \
the directories of its fpath, where the file is called _redial.

Examples:
  redial completions bash > redial
  redial completions fish > redial.fish
  redial completions zsh > _redial")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Print the manual page, or write the pages of all commands to a directory
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  redial man > redial.1
  # the page of a command
  redial man sim > redial-sim.1
  # the pages of all commands
  redial man --output man1")]
pub(crate) struct ManArgs {
    /// The command, such as `sim` or `queue add`
    #[arg(conflicts_with = "output")]
    command: Vec<String>,
    /// Write a page for each command to this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn completions(
    args: &CompletionsArgs,
    mut root: Command,
    out: &mut impl Write,
) -> Result<(), Failed> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut root, "redial", &mut text);
    Ok(out.write_all(&text)?)
}

pub(crate) fn man(args: &ManArgs, mut root: Command, out: &mut impl Write) -> Result<(), Failed> {
    // Gives every command its full name.
    root.build();
    if let Some(directory) = &args.output {
        let wrong = |error: io::Error| Failed::Other(format!("{}: {error}", directory.display()));
        std::fs::create_dir_all(directory).map_err(wrong)?;
        return clap_mangen::generate_to(root, directory).map_err(wrong);
    }
    let mut command = &root;
    for name in &args.command {
        let visible = |it: &&Command| it.get_name() == name && !it.is_hide_set();
        let found = command.get_subcommands().find(visible);
        command = found.ok_or_else(|| {
            let known = command.get_subcommands().filter(|it| !it.is_hide_set());
            let known = known.map(Command::get_name).filter(|known| *known != "help");
            let known = known.collect::<Vec<_>>().join(", ");
            Failed::input(args.command.join(" "), format!("no such command ({known})"))
        })?;
    }
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    Ok(out.write_all(&text)?)
}
