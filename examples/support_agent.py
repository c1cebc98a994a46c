"""A whole agent: prompts, tools, memory, briefing, compaction, and going on after kill -9.

Run it with: python examples/support_agent.py. A scripted model answers on this machine, so it needs no key and no
network. The agent is a process of its own. It is killed while its tool is at work, started again, and goes on where it
was: all that it knows is on the log.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import anyio.to_thread

import laser as ls
import laser.prompt as lp
from laser.ports.summarizer import Summary, SummaryRequest

SESSIONS = ls.AgentTopic.Sessions
IDENTITY = "You are the support agent of a shoe shop. Be short. Never promise what a tool has not confirmed."
BRIEFING = lp.Briefing("order", "size")
USER_LINES = [
    "Hi, this is Ann. The shoes of order ORD-7731 are too small.",
    "I need size 42.",
    "Please exchange them.",
    *(f"While I wait, tell me about shoe number {number}." for number in range(1, 7)),
    "Which order was it, and which exchange?",
]


def tool(name: str, description: str, *parameters: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {one: {"type": "string"} for one in parameters}}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    tool("find_order", "Look an order up.", "order_id"),
    tool("reserve_exchange", "Reserve an exchange.", "order_id", "size"),
    tool("remember", "Keep a fact about the customer for later conversations.", "key", "value"),
    *BRIEFING.tools(),
]

# ------------------------------------------------------------------------------------------------- the agent's process


class Agent:
    """One session of the agent."""

    def __init__(self, laser: ls.Laser, session: ls.Session, port: int, *, pause: bool) -> None:
        self.laser = laser
        self.scope = session.scope()
        self.memory = laser.memory("support")
        self.port = port
        self.pause = pause
        providers = [
            lp.Identity(IDENTITY),
            lp.History(tool_output_compression=True),
            lp.MemoryFacts(self.memory),
            lp.BriefingKnown(BRIEFING),
            lp.Recitation(BRIEFING),
        ]
        self.builder = lp.PromptBuilder(laser, providers, agent="support")

    async def summarize(self, request: SummaryRequest) -> Summary:
        """The agent's own model makes the summaries, too."""
        asked = f"SUMMARISE\n{request.previous or ''}\n{request.text}"
        reply = await self.ask([{"role": "user", "content": asked}], [])
        return Summary(reply["message"]["content"])

    async def ask(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]]) -> dict[str, Any]:
        body = json.dumps({"model": "scripted", "messages": messages, "tools": tools})
        return await anyio.to_thread.run_sync(partial(post, self.port, body))

    async def run(self, lines: Sequence[str]) -> None:
        """Has the conversation, from wherever it stopped."""
        settings = lp.CompactionSettings(compact_after=14, keep_last=6)
        async with lp.SessionCompactor(self.laser, self, settings, on_compacted=compacted) as compactor:
            said = [value for value in await self.history() if value["role"] == "user"]
            if said:
                await self.answer(str(said[-1]["content"]))
            for line in lines[len(said) :]:
                await self.say({"role": "user", "content": line})
                await self.answer(line)
                compactor.turn_committed(self.scope)

    async def answer(self, line: str) -> None:
        """One turn: calls of the model until it answers in words."""
        while True:
            last = (await self.history())[-1]
            if last["role"] == "assistant" and not last.get("tool_calls"):
                return
            for call in await self.open_calls():
                await self.say({"role": "tool", "tool_call_id": call["id"], "content": await self.call(call)})
            prompt = await self.builder.build(self.scope, line, tools=TOOLS, customer="ann", tenant="shop")
            reply = await self.ask(prompt.chat_messages(), prompt.tool_schemas())
            await self.builder.record_usage(prompt, lp.TraceUsage(**reply["usage"]))
            await self.say(reply["message"])
            if reply["message"].get("content"):
                print(f"support: {reply['message']['content']}", flush=True)

    async def call(self, call: dict[str, Any]) -> str:
        """Carries out one call of the model."""
        name, text = call["function"]["name"], call["function"]["arguments"]
        if name in lp.BRIEFING_TOOLS:
            return await BRIEFING.call(self.laser, self.scope, name, text)
        arguments = json.loads(text)
        if name == "find_order":
            return json.dumps({"order_id": arguments["order_id"], "items": [{"sku": "SHOE-41", "size": "41"}]})
        if name == "remember":
            await self.memory.facts(tenant="shop", customer="ann").set(arguments["key"], arguments["value"])
            return '{"ok":true}'
        # After a kill it may run again: what must not happen twice is to be told the call's id, call["id"].
        print(f"at work: {name}", flush=True)
        if self.pause:
            await anyio.sleep_forever()
        return json.dumps({"exchange_id": "EX-204", **arguments})

    async def open_calls(self) -> list[dict[str, Any]]:
        """Calls on the log whose results are not there yet."""
        history = await self.history()
        answered = {value.get("tool_call_id") for value in history}
        return [call for value in history for call in value.get("tool_calls") or () if call["id"] not in answered]

    async def history(self) -> list[dict[str, Any]]:
        return [json.loads(message.payload) for message in await self.scope.fetch(n=1_000)]

    async def say(self, message: dict[str, Any]) -> None:
        await self.scope.append(SESSIONS, json.dumps(message), agent="support")


def compacted(conversation: str, what: lp.Compacted) -> None:
    print(f"summary {what.runs} stands for {what.messages} messages", flush=True)


def post(port: int, body: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/v1/chat/completions", body.encode(), {"Content-Type": "application/json"})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()


async def agent_process(directory: str, port: int, session_id: str, pause: bool) -> None:
    async with ls.Laser.connect(f"embedded:{directory}") as laser:
        session = await laser.sessions().open(session_id)
        lines = USER_LINES if (await session.status()).label == "first" else ["Which size do I wear?"]
        await Agent(laser, session, port, pause=pause).run(lines)


# --------------------------------------------------------------------------------------------------- the scripted model


def decide(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """What a model might do, by rules: it knows only what its prompt says."""
    text = json.dumps(messages, ensure_ascii=False)
    last = messages[-1]
    if str(last["content"]).startswith("SUMMARISE"):
        known = sorted(set(re.findall(r"ORD-\d+|EX-\d+|size 4\d", str(last["content"]))))
        return {"role": "assistant", "content": f"Ann wrote about {', '.join(known)}."}
    line = next(str(one["content"]) for one in reversed(messages) if is_spoken(one))
    number = sum(len(one.get("tool_calls") or ()) for one in messages[position(messages, line) :])
    script: dict[str, list[Any]] = {
        USER_LINES[0]: [
            ("find_order", {"order_id": "ORD-7731"}),
            ("update_briefing", {"field": "order", "value": "ORD-7731"}),
            "I found it. Which size do you need?",
        ],
        USER_LINES[1]: [
            ("update_briefing", {"field": "size", "value": "42"}),
            ("set_next_step", {"text": "offer the exchange"}),
            "Noted. Shall I exchange them?",
        ],
        USER_LINES[2]: [
            ("reserve_exchange", {"order_id": "ORD-7731", "size": "42"}),
            ("remember", {"key": "shoe_size", "value": "42"}),
            ("set_next_step", {"text": ""}),
            "Done: exchange EX-204 is reserved.",
        ],
        USER_LINES[-1]: [f"It was {found(text, 'ORD-[0-9]+')}, and the exchange is {found(text, 'EX-[0-9]+')}."],
        "Which size do I wear?": [f"You wear {found(text, 'shoe_size: ([0-9]+)')}."],
    }
    steps = script.get(line, ["It is a fine shoe."])
    step = steps[min(number, len(steps) - 1)]
    if isinstance(step, str):
        return {"role": "assistant", "content": step}
    name, arguments = step
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": f"call_{name}_{number}_{len(line)}", "type": "function", "function": function}],
    }


def is_spoken(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and not str(message["content"]).startswith("<")


def position(messages: list[dict[str, Any]], line: str) -> int:
    return max(place for place, one in enumerate(messages) if one["role"] == "user" and one["content"] == line)


def found(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return "unknown to me" if match is None else match[match.lastindex or 0]


class Model(BaseHTTPRequestHandler):
    """Answers as Chat Completions would, and tells how much of the prompt it had seen before."""

    seen: tuple[str, ...] = ()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = tuple(map(json.dumps, [request["tools"], *request["messages"]]))
        same = next((place for place, pair in enumerate(zip(parts, Model.seen, strict=False)) if len(set(pair)) > 1), 0)
        Model.seen = parts
        count = ls.tokens().count
        usage = {
            "input_tokens": count("".join(parts)),
            "output_tokens": 10,
            "cache_read_tokens": count("".join(parts[:same])),
        }
        body = json.dumps({"message": decide(request["messages"]), "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


# ---------------------------------------------------------------------------------------------------------- the example


async def start_session(directory: str, label: str) -> str:
    async with ls.Laser.connect(f"embedded:{directory}") as laser:
        for topic in (SESSIONS, ls.AgentTopic.Control, ls.AgentTopic.Audit):
            await laser.ensure_topic(topic)
        return (await laser.sessions().start(label)).id


async def look_back(directory: str, session_id: str) -> None:
    async with ls.Laser.connect(f"embedded:{directory}") as laser:
        scope = laser.context(session_id)
        traces = await lp.read_traces(scope, 1_000)
        state = await BRIEFING.read(laser, scope)
        print(f"briefing: {dict(state)}")
        print(f"prompts: {len(traces)}, stable prefix broken: {sum(one.invalidated is not None for one in traces)}")
        report = (await lp.PromptBuilder(laser, [lp.History()]).build(scope, record=False)).trace.history
        print(f"messages on the log: {len(await scope.fetch(n=1_000))}, of them in a summary: {report.summarised > 0}")


def run_agent(directory: str, port: int, session_id: str, *, kill: bool = False) -> None:
    command = [sys.executable, __file__, directory, str(port), session_id, "pause" if kill else "on"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - this very file
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="")
            if kill and line.startswith("at work"):
                process.kill()
                print("killed -9, and started again")
                break
    if not kill and process.returncode != 0:
        raise SystemExit(process.returncode)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        first = anyio.run(start_session, directory, "first")
        run_agent(directory, server.server_port, first, kill=True)
        run_agent(directory, server.server_port, first)
        anyio.run(look_back, directory, first)
        print("a new session, the same customer:")
        run_agent(directory, server.server_port, anyio.run(start_session, directory, "second"))
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    if len(sys.argv) == 5:
        anyio.run(agent_process, sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "pause")
    else:
        main()
