"""laser keeps an agent's context on a durable, partitioned, replayable log.

``import laser as ls``; start with ``ls.Laser.connect``.
"""

from laser.client import Laser, context_checkpoint
from laser.context.chat_policies import ChatRoles, ToolPairs
from laser.context.policies import Chain, ContextPolicy, LastN, RoleFilter, Selection, TokenBudget
from laser.context.scope import ContextScope
from laser.errors import (
    AppendIndeterminateError,
    AuthenticationError,
    BudgetError,
    ClosedError,
    CodecError,
    ConfigError,
    ConflictError,
    DeadlineError,
    DisconnectedError,
    IdError,
    InvalidError,
    LaserError,
    LimitError,
    NotFoundError,
    ProvenanceError,
    RetentionGapError,
    StaleCheckpointError,
    StorageError,
    TransportError,
    UnsupportedError,
)
from laser.limits import CONTEXT_READ_WINDOW
from laser.model.checkpoint import Checkpoint
from laser.model.ids import derive_conversation_id, new_conversation_id
from laser.model.messages import AppendReceipt, ContextMessage, Messages, SkippedRecord
from laser.model.provenance import Provenance
from laser.model.topics import AgentTopic, Durability, PartitionInfo, TopicInfo, TopicRetention
from laser.ports.estimator import estimate_tokens
from laser.ports.log import EngineInfo

__version__ = "0.1.0"

__all__ = [
    "CONTEXT_READ_WINDOW",
    "AgentTopic",
    "AppendIndeterminateError",
    "AppendReceipt",
    "AuthenticationError",
    "BudgetError",
    "Chain",
    "ChatRoles",
    "Checkpoint",
    "ClosedError",
    "CodecError",
    "ConfigError",
    "ConflictError",
    "ContextMessage",
    "ContextPolicy",
    "ContextScope",
    "DeadlineError",
    "DisconnectedError",
    "Durability",
    "EngineInfo",
    "IdError",
    "InvalidError",
    "Laser",
    "LaserError",
    "LastN",
    "LimitError",
    "Messages",
    "NotFoundError",
    "PartitionInfo",
    "Provenance",
    "ProvenanceError",
    "RetentionGapError",
    "RoleFilter",
    "Selection",
    "SkippedRecord",
    "StaleCheckpointError",
    "StorageError",
    "TokenBudget",
    "ToolPairs",
    "TopicInfo",
    "TopicRetention",
    "TransportError",
    "UnsupportedError",
    "context_checkpoint",
    "derive_conversation_id",
    "estimate_tokens",
    "new_conversation_id",
]
