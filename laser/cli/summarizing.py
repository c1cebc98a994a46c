"""The summarizers of the command line: a command of the user's, or the extractive one."""

from __future__ import annotations

import shlex
import subprocess
from typing import Annotated

import anyio
import typer

import laser as ls

__all__ = ["CommandSummarizer", "SummarizerCommand", "make_summarizer"]

SummarizerCommand = Annotated[
    str | None,
    typer.Option(
        "--summarizer-command",
        metavar="COMMAND",
        help="A command that reads a prompt on stdin and prints a summary, such as one that asks a model. Without it "
        "summaries are extractive: the first words of each message, no model is asked.",
        show_default=False,
    ),
]


class CommandSummarizer:
    """Summaries by a command: the prompt on its stdin, the summary on its stdout, its exit code says whether it is one.

    No shell is involved.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ls.InvalidError(f"--summarizer-command: {error}", argument="--summarizer-command") from error
        if not self._words:
            raise ls.InvalidError("--summarizer-command: is empty", argument="--summarizer-command")

    async def summarize(self, request: ls.SummaryRequest) -> ls.Summary:
        """See ``Summarizer.summarize``."""
        parts = [f"{request.instructions} Use at most {max(1, request.max_tokens * 3 // 4)} words or so."]
        if request.previous is not None:
            parts.append(f"The summary so far:\n\n{request.previous}")
        parts.append(f"The text:\n\n{request.text}")
        try:
            done = await anyio.run_process(
                self._words, input="\n\n".join(parts).encode(), check=False, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise ls.SummaryError(f"--summarizer-command: {self._words[0]}: {error.strerror or error}") from error
        if done.returncode != 0:
            raise ls.SummaryError(f"--summarizer-command: {self._words[0]} ended with code {done.returncode}")
        return ls.Summary(done.stdout.decode("utf-8", "replace"))


def make_summarizer(command: str | None) -> ls.Summarizer:
    """The command's, or the extractive one without a command."""
    return ls.ExtractiveSummarizer() if command is None else CommandSummarizer(command)
