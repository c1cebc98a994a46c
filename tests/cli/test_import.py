"""``laser import``: everything in, everything out, once, whatever dies on the way."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import laser as ls
from laser.cli.importing import imported_id
from laser.cli.transcripts import Transcript, read_transcripts
from laser.limits import MAX_BATCH_BYTES
from tests.commands import ROOT, run_laser, start_laser

SAMPLE = ROOT / "examples" / "data" / "support.jsonl"
pytestmark = pytest.mark.anyio


def import_json(*args: str, cwd: Path, **extra: str) -> dict[str, Any]:
    done = run_laser("import", *args, "--json", cwd=cwd, **extra)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


async def stored(url: str, stream: str, transcript: Transcript) -> list[ls.ContextMessage]:
    async with ls.Laser.connect(url, stream=stream) as laser:
        return await laser.context(transcript.conversation_id).fetch(n=10_000)


@pytest.mark.parametrize("engine_url", ["embedded", "iggy"], indirect=True)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_killed_resumed_and_repeated(engine_url: str, stream_name: str, tmp_path: Path) -> None:
    """An agent is killed half-way and replaced; later the whole import is repeated: nothing is lost or doubled."""
    transcripts = read_transcripts(SAMPLE)
    total = sum(len(one.messages) for one in transcripts)
    at = {"LASER_CONNECTION_STRING": engine_url, "LASER_STREAM": stream_name}

    report = import_json(str(SAMPLE), "--agents", "2", "--budget", "600", "--kill-one", cwd=tmp_path, **at)
    killed = report["killed"]
    assert (report["conversations"], report["messages"]) == (len(transcripts), total)
    assert report["written"] + report["found"] == total
    assert killed["messages"] // 2 <= killed["reported"] <= killed["resumed_at"] < killed["messages"]
    # The batch that the killed process was at when it died is on the log or not; all it had told of is.
    assert report["found"] == killed["resumed_at"] - killed["reported"]
    assert (report["agents"], report["others"]) == (2, 0)
    assert report["kept"] + report["dropped"] == report["tokens"]
    assert 0 < report["kept"] <= 600 * len(transcripts)
    assert report["dropped"] > 0

    again = import_json(str(SAMPLE), "--agents", "3", "--budget", "600", cwd=tmp_path, **at)
    assert (again["written"], again["found"], again["killed"]) == (0, total, None)
    assert again["kept"] == report["kept"]

    for one in transcripts:
        messages = await stored(engine_url, stream_name, one)
        assert [message.text for message in messages] == [message.payload for message in one.messages]
        assert [message.provenance.agent for message in messages] == [message.role for message in one.messages]
        assert [message.record_id for message in messages] == [
            imported_id(one.conversation_id, index) for index in range(len(messages))
        ]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_goes_on_after_what_is_there(tmp_path: Path) -> None:
    """An import that died with a part written goes on from the log; what others appended does not disturb it."""
    url = f"embedded:{tmp_path / 'log'}"
    (transcript, *_) = read_transcripts(SAMPLE)
    async with ls.Laser.connect(url) as laser:
        await laser.ensure_topic(ls.AgentTopic.Sessions)
        scope = laser.context(transcript.conversation_id)
        for index, message in enumerate(transcript.messages[:9]):
            await scope.append(
                ls.AgentTopic.Sessions,
                message.payload,
                agent=message.role,
                id=imported_id(transcript.conversation_id, index),
            )
        await scope.append(ls.AgentTopic.Sessions, "a word in between", agent="user")
    report = import_json(str(SAMPLE), "--url", url, cwd=tmp_path)
    assert (report["found"], report["others"]) == (9, 1)
    assert report["written"] == report["messages"] - 9
    messages = await stored(url, "laser", transcript)
    assert [message.text for message in messages] == [
        *[message.payload for message in transcript.messages[:9]],
        "a word in between",
        *[message.payload for message in transcript.messages[9:]],
    ]


async def put(url: str, index: int, payload: str, agent: str = "user") -> None:
    """Puts a message where an import would put message ``index`` of conversation ``a``."""
    conversation = ls.derive_conversation_id("a")
    async with ls.Laser.connect(url) as laser:
        await laser.ensure_topic(ls.AgentTopic.Sessions)
        await laser.context(conversation).append(
            ls.AgentTopic.Sessions, payload, agent=agent, id=imported_id(conversation, index)
        )


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ([(0, '{"role":"user","content":"other"}')], "message 1 of 2 is not what the file holds now"),
        ([(1, '{"role":"user","content":"two"}')], "message 1 of 2 is not where it belongs; message 2 stands there"),
        (
            [(1, '{"role":"user","content":"two"}'), (0, '{"role":"user","content":"one"}')],
            "message 1 of 2 is not where it belongs",
        ),
    ],
)
async def test_a_log_that_disagrees_is_reported(planted: list[tuple[int, str]], said: str, tmp_path: Path) -> None:
    """Reading back really compares: with planted messages the import fails and names the place."""
    url = f"embedded:{tmp_path / 'log'}"
    for index, payload in planted:
        await put(url, index, payload)
    file = tmp_path / "chat.jsonl"
    file.write_text('{"id":"a","messages":[{"role":"user","content":"one"},{"role":"user","content":"two"}]}')
    done = run_laser("import", str(file), "--url", url, "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C in the middle ends every agent process, and the next import goes on from what is there."""
    file = tmp_path / "many.jsonl"
    with file.open("w") as out:
        for number in range(300):
            messages = [{"role": ("user", "assistant")[n % 2], "content": f"word {n}"} for n in range(40)]
            out.write(json.dumps({"id": f"c{number}", "messages": messages}) + "\n")
    with start_laser("import", str(file), "--json", cwd=tmp_path, start_new_session=True) as command:
        async with ls.Laser.connect(f"embedded:{tmp_path / '.laser'}") as laser:
            with anyio.fail_after(200):
                while sum(topic.records for topic in await laser.topics()) < 500:
                    await anyio.sleep(0.01)
        # As a terminal does it: the signal goes to every process of the group.
        os.killpg(command.pid, signal.SIGINT)
        said, complained = await anyio.to_thread.run_sync(command.communicate)
    assert (command.returncode, said, complained) == (130, "", "")
    # Agents get the signal too, and each of them needs its own moment to end.
    with anyio.fail_after(60):
        while any(_runs_in(pid, tmp_path) for pid in Path("/proc").glob("[0-9]*")):
            await anyio.sleep(0.05)
    report = import_json(str(file), cwd=tmp_path)
    assert 0 < report["found"] < 12_000
    assert (report["written"] + report["found"], report["others"]) == (12_000, 0)


def _runs_in(process: Path, directory: Path) -> bool:
    try:
        return (process / "cwd").resolve() == directory
    except OSError:
        return False


def test_for_people(tmp_path: Path) -> None:
    done = run_laser("import", str(SAMPLE), "--budget", "600", "--kill-one", cwd=tmp_path, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    for words in (
        "messages",
        "all read back, equal in bytes and order",
        "by 3 agent processes",
        "kept",
        "dropped",
        "of 4",
        "was killed (kill -9)",
        "lost 0, doubled 0.",
        "Next:",
        "fetch @wrong-charger --budget 600 --pairs",
    ):
        assert words in done.stdout
    assert "63/63 messages" in done.stderr


def test_the_password_is_not_repeated(tmp_path: Path) -> None:
    """What to type next names no URL that holds a password."""
    from laser.cli.import_ import next_options

    assert next_options("iggy://user:s3cret@host:1", "laser", ls.AgentTopic.Sessions) == " --url URL"
    assert next_options("user:s3cret@host:1", "app", "notes") == " --stream app --url URL --topic notes"
    assert next_options("embedded:./my data", "laser", ls.AgentTopic.Sessions) == " --url 'embedded:./my data'"
    assert next_options(None, "laser", ls.AgentTopic.Sessions) == ""


def test_memory(tmp_path: Path) -> None:
    """``memory:`` lives in one process, so the import writes by itself and nobody can be killed."""
    report = import_json(str(SAMPLE), "--url", "memory:", "--kill-one", cwd=tmp_path)
    assert (report["agents"], report["killed"]) == (0, None)
    assert report["written"] == report["messages"]


def test_messages_larger_than_one_batch_may_be(tmp_path: Path) -> None:
    """All of a conversation's messages together are more than an append takes."""
    large = "x" * 9_000_000
    messages = [{"role": role, "content": f"{number} {large}"} for number, role in enumerate(["user", "assistant"] * 4)]
    (tmp_path / "large.json").write_text(json.dumps({"messages": messages}))
    assert sum(len(message["content"]) for message in messages) > MAX_BATCH_BYTES
    report = import_json("large.json", "--url", "memory:", cwd=tmp_path)
    assert (report["messages"], report["written"]) == (8, 8)


@pytest.mark.parametrize("agents", ["1", "5"])
def test_few_conversations(agents: str, tmp_path: Path) -> None:
    """One message, killed half-way: half of one is none."""
    file = tmp_path / "one.jsonl"
    file.write_text('{"role":"user","content":"hi"}')
    report = import_json(str(file), "--agents", agents, "--kill-one", cwd=tmp_path)
    assert (report["agents"], report["messages"], report["kept_messages"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["absent.jsonl"], "FILE: absent.jsonl: No such file"),
        (["garbage.jsonl"], "FILE: line 2, column 1: not JSON"),
        (["sample", "--budget", "-1"], "max_tokens: -1"),
        (["sample", "--partitions", "0"], "partitions: 0"),
        (["sample", "--topic", "x\n"], "topic: "),
    ],
)
def test_refused(args: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "garbage.jsonl").write_text('{"role":"user"}\nnot json\n')
    done = run_laser("import", *[str(SAMPLE) if arg == "sample" else arg for arg in args], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_failing_agent_is_reported(tmp_path: Path) -> None:
    """An agent process that cannot write says why, and its word becomes the command's one line."""
    many = tmp_path / "many.jsonl"
    many.write_text('{"role":"user","content":"hi"}\n')
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'laser.cli.worker' in sys.orig_argv:\n"
        "    import laser.cli.importing as importing, laser\n"
        "    async def fail(*args): raise laser.StorageError('the disk is full', path='/data')\n"
        "    importing.write_share = fail\n"
    )
    done = run_laser("import", str(many), "--json", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "laser: the disk is full\n"


@pytest.mark.slow
def test_all_of_tau(tmp_path: Path) -> None:
    """All 5,308 messages of 200 real conversations in, all out, in well under a minute."""
    file = ROOT.parent / "shared" / "data" / "tau_airline_gpt4o.jsonl"
    if not file.exists():
        pytest.skip("no ../shared/data beside this clone; the conversations are not ours to ship")
    report = import_json(str(file), "--kill-one", "--budget", "2000", cwd=tmp_path)
    assert (report["conversations"], report["messages"], report["partitions"]) == (200, 5308, 4)
    assert report["written"] + report["found"] == 5308
    assert report["seconds"] < 30
