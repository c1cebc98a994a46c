"""Assembly: a conversation's history under a policy, with every read control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio.to_thread

from laser.context.history import HistoryQuery, read_history
from laser.context.policies import (
    Chain,
    ContextPolicy,
    LastN,
    PolicyLike,
    RoleFilter,
    TokenBudget,
    as_policy,
    check_budget,
    check_count,
    check_names,
    newest_needed,
    select,
)
from laser.context.telemetry import observe
from laser.errors import InvalidError
from laser.limits import DEFAULT_LAST_N
from laser.model.checkpoint import Checkpoint
from laser.model.checks import check_offsets, check_topics
from laser.model.messages import Messages
from laser.model.topics import AgentTopic
from laser.ports.log import Log

__all__ = ["apply_policy", "assemble", "choose_policy"]

# Above this many messages a policy runs in a worker thread: parsing or counting that many takes milliseconds.
_INLINE_MESSAGES = 128


def choose_policy(
    *,
    last_n: int | None,
    roles: Sequence[str] | None,
    token_budget: int | None,
    policy: PolicyLike | None,
    count_name: str = "last_n",
) -> ContextPolicy:
    """The policy that the keywords ask for: roles first, then the count, then the budget.

    ``last_n`` defaults to 50, and to no limit with ``roles``. ``count_name`` is what the caller calls it.

    Raises:
        InvalidError: ``policy`` together with any other, or a bad value.
    """
    if policy is not None:
        if not (last_n is None and roles is None and token_budget is None):
            raise InvalidError(
                "policy: replaces last_n, roles and token_budget; put them into the policy, "
                "as in Chain([LastN(20), TokenBudget(4000)])",
                argument="policy",
            )
        return as_policy(policy)
    steps: list[PolicyLike] = []
    if roles is not None:
        steps.append(RoleFilter(check_names(roles, "roles")))
    elif last_n is None:
        last_n = DEFAULT_LAST_N
    if last_n is not None:
        steps.append(LastN(check_count(last_n, count_name)))
    if token_budget is not None:
        steps.append(TokenBudget(check_budget(token_budget, "token_budget")))
    return as_policy(steps[0]) if len(steps) == 1 else Chain(steps)


async def assemble(
    log: Log,
    stream: str,
    conversation_id: str,
    policy: ContextPolicy,
    *,
    topics: Sequence[str] | None = None,
    across_subconversations: bool = False,
    from_offsets: Mapping[int, int] | None = None,
    from_checkpoint: Checkpoint | None = None,
    to_checkpoint: Checkpoint | None = None,
) -> Messages:
    """The conversation's messages that the policy keeps, oldest first.

    Args:
        conversation_id: canonical.
        topics: names; ``None`` reads ``agent.sessions``. Repeats count once.
        across_subconversations: also messages of conversations whose parent or root this one is.
        from_offsets: first offset by partition, the same map for every topic.
        from_checkpoint: resume there; overrides ``from_offsets``. A partition that it lacks starts at 0.
        to_checkpoint: stop there. A partition that it lacks reads as empty.

    Raises:
        InvalidError: a bad argument; nothing was read.
        StaleCheckpointError: the log is not the one of a checkpoint. RetentionGapError: records of the read window
            that come after ``from_checkpoint`` are gone.
    """
    for name, value in (("from_checkpoint", from_checkpoint), ("to_checkpoint", to_checkpoint)):
        if value is not None and not isinstance(value, Checkpoint):
            raise InvalidError(
                f"{name}: expected a Checkpoint, got {type(value).__name__}; read one with Checkpoint.from_json(text)",
                argument=name,
            )
    newest = newest_needed(policy)
    query = HistoryQuery(
        conversation_id,
        [AgentTopic.Sessions] if topics is None else check_topics(topics),
        across_subconversations,
        None if from_offsets is None else check_offsets(from_offsets, "from_offsets"),
        from_checkpoint,
        to_checkpoint,
        newest,
    )
    if newest == 0:
        return Messages()
    with observe("fetch", stream, conversation_id, query.topics) as observed:
        kept = await apply_policy(policy, await read_history(log, stream, query))
        observed.note(messages=len(kept), skipped=len(kept.skipped))
    return kept


async def apply_policy(policy: ContextPolicy, history: Messages) -> Messages:
    """What the policy keeps of a history, with the history's report of skipped records."""
    if type(policy) is LastN and len(history) <= policy.n:
        return history
    if len(history) > _INLINE_MESSAGES and type(policy) is not LastN:
        selection = await anyio.to_thread.run_sync(select, policy, list(history))
    else:
        selection = select(policy, history)
    return Messages(selection.kept, history.skipped)
