"""Commands that work on a client: the options that say where everything is, and the client itself."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any, Final, get_type_hints

import typer

import laser as ls
from laser.cli.options import DEFAULT_TIMEOUT, Stream, Timeout, Url
from laser.cli.running import run

__all__ = ["on_content", "on_log", "on_views"]

Catalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        envvar="LASER_CATALOG",
        help="Where the content catalog is: embedded:DIRECTORY or postgresql://HOST/DATABASE. Default: beside the log.",
        show_default=False,
        show_envvar=True,
    ),
]
Objects = Annotated[
    str | None,
    typer.Option(
        "--objects",
        envvar="LASER_OBJECTS",
        help="Where large content is: embedded:DIRECTORY or s3://BUCKET. Default: beside the catalog.",
        show_default=False,
        show_envvar=True,
    ),
]
Views = Annotated[
    str | None,
    typer.Option(
        "--views",
        envvar="LASER_VIEWS",
        help="Where the read views are: embedded:DIRECTORY or postgresql://HOST/DATABASE. Default: beside an embedded "
        "log, else folded anew by each command.",
        show_default=False,
        show_envvar=True,
    ),
]

_Options = dict[str, tuple[Any, Any]]
_LOG: Final[_Options] = {"url": (Url, None), "stream": (Stream, None), "timeout": (Timeout, DEFAULT_TIMEOUT)}
_CONTENT: Final[_Options] = {"catalog": (Catalog, None), "objects": (Objects, None)}
_VIEWS: Final[_Options] = {"views": (Views, None)}


def on_log(work: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A command from an async function whose first argument is a client.

    The command has the function's other arguments, and the options that say where the log is.
    """
    return _command(work, _LOG)


def on_content(work: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """As ``on_log``, with the options that say where content is."""
    return _command(work, _LOG | _CONTENT)


def on_views(work: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """As ``on_log``, with the option that says where the read views are."""
    return _command(work, _LOG | _VIEWS)


def _command(work: Callable[..., Awaitable[None]], options: _Options) -> Callable[..., None]:
    @wraps(work)
    def command(**given: Any) -> None:
        places = {name: given.pop(name) for name in options}

        async def connected() -> None:
            async with ls.Laser.connect(places.pop("url"), **places) as laser:
                await work(laser, **given)

        run(connected)

    # Typer reads a command's options from its signature.
    hints = get_type_hints(work, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [each.replace(kind=kind, annotation=hints[name]) for name, each in inspect.signature(work).parameters.items()]
    added = [
        inspect.Parameter(name, kind, annotation=annotation, default=default)
        for name, (annotation, default) in options.items()
    ]
    parameters = [*own[1:], *added]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command
