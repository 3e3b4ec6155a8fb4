"""Directives that write the reference from the code: ``{commands}``, ``{exceptions}`` and ``{fields}``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import intarsia


class Commands(SphinxDirective):
    """Every command of ``intarsia``, with its arguments, options and example, from the typer application."""

    def run(self) -> list[nodes.Node]:  # noqa: D102
        import typer

        from intarsia.cli.app import app

        root = typer.main.get_command(app)
        return self.parse_text_to_nodes("\n".join(_commands(root, "intarsia")), allow_section_headings=True)


def _commands(command: object, name: str) -> Iterator[str]:
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield from _command(command, name)
        return
    for word, each in subcommands.items():
        if not each.hidden:
            yield from _commands(each, f"{name} {word}")


def _command(command: object, name: str) -> Iterator[str]:
    text, *examples = inspect.cleandoc(command.help or "").split("Example:")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([name, *map(_usage, arguments), *(["[OPTIONS]"] if options else [])])
    yield from (f"## {name}", "", _plain(text.strip()), "", "```text", usage, "```", "")
    for example in examples:
        yield from ("```console", f"$ {_plain(example.strip().splitlines()[0], code=True)}", "```", "")
    if arguments or options:
        yield from ("| argument or option | meaning |", "|---|---|")
        for each in (*arguments, *options):
            yield f"| {_names(each)} | {_cell(_plain(each.help or ''))} |"
        yield ""


def _usage(argument: object) -> str:
    word = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def _names(each: object) -> str:
    if each.param_type_name == "argument":
        return f"`{each.name.upper()}`"
    value = "" if each.is_flag else f" {each.name.upper()}"
    names = ", ".join(f"`{word}{value}`" for word in (*each.opts, *each.secondary_opts))
    return names + (" (required)" if each.required else "")


def _plain(text: str, *, code: bool = False) -> str:
    """A text of the command line without rich's markup: bold becomes code."""
    mark = "" if code else "`"
    for tag in ("[bold]", "[/bold]", "[/]"):
        text = text.replace(tag, mark)
    return text.replace("\\[", "[")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


class Exceptions(SphinxDirective):
    """Every exception and warning of ``intarsia.exceptions``, with its bases, cause and remedy, from the docstrings."""

    def run(self) -> list[nodes.Node]:  # noqa: D102
        module = intarsia.exceptions
        classes = [each for each in vars(module).values() if inspect.isclass(each) and issubclass(each, Exception)]
        lines = ["| class | cause | what to do |", "|---|---|---|"]
        for each in classes:
            cause, _, remedy = inspect.cleandoc(each.__doc__).partition("What to do:")
            bases = ", ".join(base.__name__ for base in each.__bases__)
            label = f"`{each.__name__}`<br>*{bases}*"
            lines.append(f"| {label} | {_cell(cause.replace('``', '`'))} | {_cell(remedy.replace('``', '`'))} |")
        return self.parse_text_to_nodes("\n".join(lines))


class Fields(SphinxDirective):
    """The fields of a msgspec class, with their types."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:  # noqa: D102
        module, _, name = self.arguments[0].rpartition(".")
        struct = getattr(import_module(module), name)
        rows = [f"| `{field}` | `{_cell(str(kind))}` |" for field, kind in struct.__annotations__.items()]
        return self.parse_text_to_nodes("\n".join(["| field | type |", "|---|---|", *rows]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("commands", Commands)
    app.add_directive("exceptions", Exceptions)
    app.add_directive("fields", Fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
