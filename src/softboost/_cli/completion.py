"""Completion scripts for bash, zsh and fish, generated from the parser."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

__all__ = ["SHELLS", "script"]

SHELLS = ("bash", "zsh", "fish")


@dataclass
class _Level:
    """Completions after the words ``path``: sub-commands and options with their help, and values of some options."""

    path: tuple[str, ...]
    commands: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    choices: dict[str, list[str]] = field(default_factory=dict)
    with_value: list[str] = field(default_factory=list)
    positional: list[str] = field(default_factory=list)


def _levels(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> list[_Level]:
    level = _Level(path)
    out = [level]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                level.commands[name] = helps.get(name, "")
                out += _levels(sub, (*path, name))
            continue
        text = (action.help or "").replace("%(default)s", str(action.default)).split("\n")[0]
        if not action.option_strings and action.choices:
            level.positional += [str(choice) for choice in action.choices]
        for option in action.option_strings:
            if option.startswith("--"):
                level.options[option] = text
                if action.nargs != 0:
                    level.with_value.append(option)
                if action.choices:
                    level.choices[option] = [str(choice) for choice in action.choices]
    return out


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a shell, which the shell reads at start-up.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        The parser with the arguments of all sub-commands.
    shell : {"bash", "zsh", "fish"}

    Returns
    -------
    text : str

    Examples
    --------
    >>> parser = argparse.ArgumentParser(prog="tool")
    >>> _ = parser.add_argument("--size", choices=["s", "m"])
    >>> "--size" in script(parser, "bash")
    True
    """
    levels = _levels(parser)
    if shell == "fish":
        return _fish(parser.prog, levels)
    text = _bash(parser.prog, levels)
    if shell == "zsh":  # zsh runs bash's completion functions
        return f"autoload -Uz compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n{text}"
    return text


def _bash(prog: str, levels: list[_Level]) -> str:
    cases, values = [], []
    for level in levels:
        key, options = " ".join(level.path), " ".join(level.options)
        words = " ".join([*level.commands, *level.positional])
        cases.append(f'    "{key}") words="{words}"; options="{options}" ;;')
        values += [f'    "{key} {option}") words="{" ".join(v)}" ;;' for option, v in level.choices.items()]
        values += [f'    "{key} {option}") words= ;;' for option in level.with_value if option not in level.choices]
    paths = "|".join(f'"{" ".join(level.path)}"' for level in levels if level.path) or '""'
    name = f"_{prog}_complete"
    return f"""{name}() {{
  local path="" word words="" options="" i current="${{COMP_WORDS[COMP_CWORD]}}"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{path:+$path }}${{COMP_WORDS[i]}}"
    case "$word" in {paths}) path="$word" ;; esac
  done
  case "$path" in
{chr(10).join(cases)}
  esac
  case "$path ${{COMP_WORDS[COMP_CWORD-1]}}" in
{chr(10).join(values) or "    *) ;;"}
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}}
complete -o filenames -F {name} {prog}
"""


def _fish(prog: str, levels: list[_Level]) -> str:
    lines = []
    for level in levels:
        seen = " ".join(level.path)
        if not level.path:
            names = " ".join(level.commands)
            condition = f"not __fish_seen_subcommand_from {names}" if names else "true"
        else:
            condition = " ; and ".join(f"__fish_seen_subcommand_from {word}" for word in level.path)
        for name, text in level.commands.items():
            lines.append(f"complete -c {prog} -f -n {_quoted(condition)} -a {name} -d {_quoted(text)}")
        for value in level.positional:
            lines.append(f"complete -c {prog} -f -n {_quoted(condition)} -a {value} -d {_quoted(seen)}")
        for option, text in level.options.items():
            values = " -r -F" if option in level.with_value else ""  # the value may be a file
            if option in level.choices:
                values = f" -x -a {_quoted(' '.join(level.choices[option]))}"
            lines.append(f"complete -c {prog} -n {_quoted(condition)} -l {option[2:]} -d {_quoted(text)}{values}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
