"""Looking through files for instructions and skills."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Sequence
from typing import Final, Literal

from laser.errors import CodecError, InvalidError, LaserError, LimitError, NotFoundError
from laser.limits import (
    MAX_ENTRY_KEY_BYTES,
    MAX_INSTRUCTION_BYTES,
    MAX_INSTRUCTIONS_BYTES,
    MAX_SKILL_BYTES,
    MAX_SKILL_DESCRIPTION_CHARS,
    MAX_SKILLS,
)
from laser.ports.estimator import estimate_tokens
from laser.ports.files import FileEntry, Files
from laser.session.active.entries import NewEntry
from laser.session.discovery.front_matter import read_front_matter
from laser.session.discovery.reports import Discovery, DiscoveryReport, Skill, SourceReport

__all__ = ["SKILL_CATALOG", "catalog_entry", "decode_text", "discover", "read_head", "skill_entry"]

SKILL_CATALOG: Final = "skills"
"""The key of the catalog of skills."""

_PROMPTS: Final = ".agents/prompts"
_MAIN: Final = "instructions.md"
_MORE: Final = "instructions.d"
_SKILLS: Final = ".agents/skills"
_SKILL: Final = "SKILL.md"
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME: Final = 64
_OTHER_ENCODINGS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Look:
    """One look through some files, and its report."""

    def __init__(self) -> None:
        self.sources: list[SourceReport] = []
        self.warnings: list[str] = []
        self.size = 0

    async def entries(self, files: Files, path: str) -> list[FileEntry]:
        """What stands in a folder, by name; what cannot be listed is a warning."""
        try:
            found = await files.entries(path)
        except LaserError as error:
            self.warnings.append(f"{files.name}: {path}: {error}")
            return []
        return sorted(found, key=lambda entry: entry.name)

    async def read(
        self, files: Files, path: str, kind: Literal["instruction", "skill"], limit: int
    ) -> tuple[str, bytes] | None:
        """A file's text and bytes, ``None`` for one that is left out: whole or not at all."""
        try:
            data = await files.read(path, limit)
        except LimitError as error:
            self.leave_out(files, path, kind, f"has {error.size} bytes, allowed are {error.limit}", error.size)
            return None
        except LaserError as error:
            self.leave_out(files, path, kind, str(error))
            return None
        text, reason = decode_text(data)
        if text is None:
            self.leave_out(files, path, kind, reason, len(data))
            return None
        return text, data

    def take(self, files: Files, path: str, kind: Literal["instruction", "skill"], data: bytes) -> str:
        """Notes a file that was taken, and returns its digest."""
        digest = hashlib.sha256(data).hexdigest()
        self.sources.append(SourceReport(files.name, path, kind, len(data), digest))
        return digest

    def leave_out(
        self, files: Files, path: str, kind: Literal["instruction", "skill"], reason: str, size: int = 0
    ) -> None:
        """Notes a file that was left out."""
        path, reason = _clean(path), _clean(reason)
        self.sources.append(SourceReport(files.name, path, kind, size, None, reason))
        self.warnings.append(f"{files.name}: {path}: left out: {reason}")


async def discover(files: Files | Sequence[Files]) -> Discovery:
    """Looks for ``.agents/prompts/instructions.md``, then ``.agents/prompts/instructions.d/*.md`` by name, and for
    ``.agents/skills/*/SKILL.md``.

    A file over its limit, or that is no UTF-8 text, is left out whole, and the report says so. Links are not followed.

    Args:
        files: a directory, or several; earlier ones come first.

    Raises:
        InvalidError: no files, or two of one name.
    """
    trees = _checked(files)
    look = _Look()
    instructions: list[NewEntry] = []
    skills: dict[str, Skill] = {}
    for place, tree in enumerate(trees):
        instructions += await _instructions(look, tree, place)
    for tree in trees:
        await _skills(look, tree, skills)
    report = DiscoveryReport(tuple(look.sources), tuple(look.warnings))
    return Discovery(tuple(instructions), tuple(skills[name] for name in sorted(skills)), report)


def catalog_entry(skills: Sequence[Skill]) -> NewEntry | None:
    """The catalog of skills for a model, sorted by name; ``None`` when there are none."""
    if not skills:
        return None
    lines = ["Skills that can be activated, by name:"]
    lines += [
        f"- {skill.name}: {skill.description} ({skill.files}/{skill.path})"
        for skill in sorted(skills, key=lambda skill: skill.name)
    ]
    payload = "\n".join(lines).encode()
    return NewEntry("catalog", payload, key=SKILL_CATALOG, tokens=estimate_tokens(payload))


async def skill_entry(
    files: Files | Sequence[Files], skill: Skill, scope: Literal["session", "run"] = "run"
) -> NewEntry:
    """The entry that activates a skill: for a run, or for the session.

    Raises:
        NotFoundError: its file, or the files that it was found in, are not there. LimitError: it is over
            ``MAX_SKILL_BYTES`` by now. CodecError: it is no skill any more.
    """
    tree = next((tree for tree in _checked(files) if tree.name == skill.files), None)
    if tree is None:
        raise NotFoundError(f"files: none is called {skill.files!r}, where skill {skill.name} was found")
    data = await tree.read(skill.path, MAX_SKILL_BYTES)
    text, reason = decode_text(data)
    if text is None:
        raise CodecError(f"skill {skill.name}: {reason}")
    _, body = read_front_matter(text)
    payload = (body.strip() or skill.description).encode()
    return NewEntry(
        "skill",
        payload,
        key=skill.name,
        tokens=estimate_tokens(payload),
        scope=scope,
        source="activation",
        provenance=hashlib.sha256(data).hexdigest(),
        preview=skill.description[:200],
    )


async def _instructions(look: _Look, files: Files, place: int) -> list[NewEntry]:
    paths: list[tuple[str, str]] = []
    for entry in await look.entries(files, _PROMPTS):
        if entry.name == _MAIN:
            if entry.kind == "file":
                paths.append(("0", f"{_PROMPTS}/{_MAIN}"))
            else:
                look.leave_out(files, f"{_PROMPTS}/{_MAIN}", "instruction", "is a link, or no file")
    for entry in await look.entries(files, f"{_PROMPTS}/{_MORE}"):
        path = f"{_PROMPTS}/{_MORE}/{entry.name}"
        if entry.name.endswith(".md") and entry.kind == "file":
            paths.append(("1", path))
        elif entry.name.endswith(".md") and entry.kind == "other":
            look.leave_out(files, path, "instruction", "is a link, or no file")
    made: list[NewEntry] = []
    for rank, path in paths:
        instruction = await _instruction(look, files, path, f"{place:03d}/{rank}/{path.rpartition('/')[2]}")
        if instruction is not None:
            made.append(instruction)
    return made


async def _instruction(look: _Look, files: Files, path: str, key: str) -> NewEntry | None:
    if not _fits(key):
        look.leave_out(files, path, "instruction", "its name is too long, or holds what cannot be shown")
        return None
    found = await look.read(files, path, "instruction", MAX_INSTRUCTION_BYTES)
    if found is None:
        return None
    text, data = found
    if not text.strip():
        look.leave_out(files, path, "instruction", "is empty", len(data))
        return None
    if look.size + len(data) > MAX_INSTRUCTIONS_BYTES:
        total = look.size + len(data)
        reason = f"all instructions together would have {total} bytes, allowed are {MAX_INSTRUCTIONS_BYTES}"
        look.leave_out(files, path, "instruction", reason, len(data))
        return None
    look.size += len(data)
    payload = text.encode()
    return NewEntry(
        "instruction",
        payload,
        key=key,
        tokens=estimate_tokens(payload),
        provenance=look.take(files, path, "instruction", data),
        preview=f"{files.name}/{path}"[:200],
    )


async def _skills(look: _Look, files: Files, skills: dict[str, Skill]) -> None:
    for entry in await look.entries(files, _SKILLS):
        path = f"{_SKILLS}/{entry.name}/{_SKILL}"
        if entry.kind == "other":
            look.leave_out(files, path, "skill", "its folder is a link, or no folder")
        if entry.kind != "folder":
            continue
        if not entry.name.isprintable():
            # It would stand in the catalog, which a model reads.
            look.leave_out(files, path, "skill", "its folder's name holds what cannot be shown")
            continue
        if not any(inner.name == _SKILL for inner in await look.entries(files, f"{_SKILLS}/{entry.name}")):
            continue
        found = await look.read(files, path, "skill", MAX_SKILL_BYTES)
        if found is None:
            continue
        text, data = found
        try:
            name, description = read_head(text)
        except CodecError as error:
            look.leave_out(files, path, "skill", str(error), len(data))
            continue
        if name in skills:
            where = f"{skills[name].files}/{skills[name].path}"
            look.leave_out(files, path, "skill", f"skill {name} is known already, from {where}", len(data))
            continue
        if len(skills) == MAX_SKILLS:
            look.leave_out(files, path, "skill", f"there are {MAX_SKILLS} skills already", len(data))
            continue
        if name != entry.name:
            look.warnings.append(_clean(f"{files.name}: {path}: the skill is called {name}, its folder {entry.name}"))
        skills[name] = Skill(name, description, files.name, path, look.take(files, path, "skill", data))


def read_head(text: str) -> tuple[str, str]:
    """The name and description in the head of a ``SKILL.md``.

    Raises:
        CodecError: there is no head, or one of them is not what it may be.
    """
    values, _ = read_front_matter(text)
    name, description = values.get("name", ""), " ".join(values.get("description", "").split())
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise CodecError(f"its name {name!r:.40} is not 1 to {_MAX_NAME} of a-z, 0-9 and single hyphens between them")
    if not 1 <= len(description) <= MAX_SKILL_DESCRIPTION_CHARS:
        raise CodecError(
            f"its description has {len(description)} characters, allowed are 1 to {MAX_SKILL_DESCRIPTION_CHARS}"
        )
    if any(char < " " or "\x7f" <= char <= "\x9f" for char in description):
        raise CodecError("its description holds control characters")
    return name, description


def decode_text(data: bytes) -> tuple[str | None, str]:
    """The text in a file, or why there is none."""
    if data.startswith(_OTHER_ENCODINGS):
        return None, "is UTF-16, not UTF-8"
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        return None, f"is not UTF-8 at byte {error.start}"
    if "\0" in text:
        return None, "holds a NUL character, so it is no text"
    return text, ""


def _fits(key: str) -> bool:
    return key.isprintable() and len(key.encode()) <= MAX_ENTRY_KEY_BYTES


def _clean(text: str) -> str:
    """Text that can be shown and written: names of files can hold anything."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _checked(files: Files | Sequence[Files]) -> list[Files]:
    trees = [files] if isinstance(files, Files) else list(files) if isinstance(files, Sequence) else []
    if not trees or not all(isinstance(tree, Files) for tree in trees):
        raise InvalidError("files: expected a Directory, or several", argument="files")
    names = [tree.name for tree in trees]
    if not all(name.isprintable() and name for name in names):
        raise InvalidError("files: a name is empty, or holds what cannot be shown; give name=…", argument="files")
    if len(set(names)) < len(names):
        raise InvalidError(f"files: two of them are called {max(names, key=names.count)!r:.80}", argument="files")
    return trees
