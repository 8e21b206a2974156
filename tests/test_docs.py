"""What the documentation leads to is there: links, headings, commands, options, modules."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from jobs.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
VERB = rf"(?:liftlock (?!front end)|(?=(?:{'|'.join(main.commands)})(?: |$)))(?=[a-z-])"
MODULE = r"python -m (?=\w)"


@each_page
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_commands_have_the_options_that_they_are_shown_with(page: Path) -> None:
    for text in commands(page, VERB):
        command, known, words = main, options(main), text.split()
        while words and isinstance(command, click.Group):
            word = words.pop(0)
            if word.startswith("-"):
                assert word in known, text
                words = words[1:]
            else:
                one, *others = word.split("/")
                assert {one, *others} <= command.commands.keys(), text
                command = command.commands[one]
                known |= options(command)
        assert set(OPTION.findall(text)) <= known, text


def options(command: click.Command) -> set[str]:
    """All that a command takes, and a group's commands too."""
    names = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = names | {"--help"}
    return own if command is main else own.union(*map(options, below))


@each_page
def test_modules_are_there_and_have_the_options_that_they_are_shown_with(page: Path) -> None:
    for text in commands(page, MODULE):
        name = text.split()[0]
        spec = importlib.util.find_spec(name)
        assert spec is not None, text
        if not name.startswith("serving."):
            continue
        module = importlib.import_module(
            f"{name}.__main__" if spec.submodule_search_locations else name
        )
        made = getattr(module, "parser", argparse.ArgumentParser)()
        known = {option for each in made._actions for option in each.option_strings}
        assert set(OPTION.findall(text)) <= known, text


def commands(page: Path, begin: str) -> Iterator[str]:
    """What follows such a beginning in code, up to the end of the command."""
    text = page.read_text().replace(r"\|", "/")  # in tables
    blocks = re.findall(r"^(?: {4}.*\n)+", text, re.MULTILINE)
    lines = [line for block in blocks for line in re.sub(r"\\\n", " ", block).splitlines()]
    for code in (*lines, *(" ".join(c.split()) for c in re.findall(r"`([^`]+)`", text))):
        for found in re.finditer(rf"(?:^[ $]*|[;&|(] ?|\.venv/bin/){begin}([^;&|>#)`]*)", code):
            yield found[1]
