"""laser keeps an agent's context on a durable, partitioned, replayable log.

``import laser as ls``; start with ``ls.Laser.connect``.
"""

from laser.client import Laser, context_checkpoint
from laser.client.directory import Directory
from laser.compaction.compaction import Compaction
from laser.compaction.inputs import ContextObservation, ContextSection, PreparedInput, PreparedRequest
from laser.compaction.lcm.copying import copy_nodes
from laser.compaction.lcm.folds import LcmFolds
from laser.compaction.lcm.strategy import Lcm
from laser.compaction.lcm.tools import FoldInfo, FoldPage, GrepHit, GrepPage, LcmTools, RowText, TextPage
from laser.compaction.prior import FoldProvider, Prior, StoredFold
from laser.compaction.registry import StrategyRegistry
from laser.compaction.rolling import Rolling
from laser.compaction.saved import CompactionStep
from laser.compaction.strategy import (
    CompactionLimits,
    CompactionProgress,
    CompactionStrategy,
    CompactionView,
    CompactionWork,
)
from laser.compaction.summarizers.extractive import ExtractiveSummarizer
from laser.compaction.summarizers.models import ModelSummarizer
from laser.compaction.tools import RecoveryTool
from laser.content.collecting import CollectReport
from laser.content.content import Content
from laser.context.batching import Batching, PendingReceipt
from laser.context.catching_up import CatchUpProgress
from laser.context.chat_policies import ChatRoles, ToolPairs
from laser.context.following import CaughtUp, Follow
from laser.context.kv import KvNamespace
from laser.context.policies import Chain, ContextPolicy, LastN, RoleFilter, Selection, TokenBudget
from laser.context.referencing import record_holder
from laser.context.resuming import AutoSave
from laser.context.scope import ConversationState
from laser.context.snapshots import checkpoint_from_snapshot, snapshot_from_checkpoint
from laser.context.state import FoldProgress
from laser.context.stores import KvSnapshotStore, SnapshotBackend, SnapshotStore, TopicSnapshotStore
from laser.context.tokens import Tokenizer, tokens
from laser.errors import (
    AppendIndeterminateError,
    AuthenticationError,
    BudgetError,
    BusyError,
    ClosedError,
    CodecError,
    CompactionError,
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
    ProviderError,
    RetentionGapError,
    StaleCheckpointError,
    StorageError,
    SummaryError,
    TransportError,
    UnsupportedError,
)
from laser.graph.graph import Graph
from laser.limits import CONTEXT_READ_WINDOW
from laser.memory.consolidation import ConsolidationReport
from laser.memory.facts import Fact, FactCell
from laser.memory.hits import MemoryItem
from laser.memory.memory import Memory
from laser.memory.reranking import Rerank
from laser.memory.scoped import ScopedMemory
from laser.model.checkpoint import Checkpoint
from laser.model.content import ContentEntry, ContentHead, ContentRef
from laser.model.graph import Edge, GraphAssertion, GraphSource, Node
from laser.model.graph_walks import GraphExport, GraphHit, GraphPath, Hop, Triplet
from laser.model.ids import derive_conversation_id, new_conversation_id
from laser.model.memory import MemoryKind
from laser.model.messages import AppendReceipt, ContextMessage, Messages, SkippedRecord
from laser.model.provenance import Provenance, Usage
from laser.model.snapshot import Folded, Snapshot, resume_offsets
from laser.model.topics import AgentTopic, Durability, PartitionInfo, TopicInfo, TopicRetention
from laser.model.transcript import SourceRef
from laser.ports.embedder import Embedder, Reranker
from laser.ports.estimator import estimate_tokens
from laser.ports.files import FileEntry, Files
from laser.ports.kv import ABSENT, KvEntry, KvPage
from laser.ports.log import EngineInfo
from laser.ports.summarizer import Summarizer, Summary, SummaryRequest
from laser.session.active.active import ActiveContext
from laser.session.active.compacting import Account, Compactor
from laser.session.active.entries import ContextEntry, NewEntry
from laser.session.active.events import Add, Remove, Replace
from laser.session.active.state import (
    ActiveState,
    PendingCompaction,
    RunState,
    compactable,
    compactable_tokens,
    compaction_due,
)
from laser.session.active.turns import Run, Turn
from laser.session.active.lowering import item_entries, lowering_entries, reply_entries, usage_counts
from laser.session.discovery.discovering import catalog_entry, discover, skill_entry
from laser.session.discovery.reports import Discovery, DiscoveryReport, Skill, SourceReport
from laser.session.forking import MessageOrigin
from laser.session.lifecycle import ForkOrigin, SessionState, SessionStatus
from laser.session.manifest import AssembledContext, ContextManifest, MessageRef
from laser.session.runs import RunDetail, TurnDetail
from laser.session.scope import ContextScope
from laser.session.session import Session, SessionReading
from laser.session.sessions import Sessions
from laser.session.transcript import TranscriptPage
from laser.wire.snapshot import decode_snapshot, encode_snapshot
from laser.workspace.directories import ImportReport
from laser.workspace.heads import Version
from laser.workspace.workspace import Change, FileInfo, Head, TreeView, Workspace
from laser.workspace.workspaces import Workspaces

__version__ = "0.1.0"

__all__ = [
    "ABSENT",
    "CONTEXT_READ_WINDOW",
    "Account",
    "ActiveContext",
    "ActiveState",
    "Add",
    "AgentTopic",
    "AppendIndeterminateError",
    "AppendReceipt",
    "AssembledContext",
    "AuthenticationError",
    "AutoSave",
    "Batching",
    "BudgetError",
    "BusyError",
    "CatchUpProgress",
    "CaughtUp",
    "Chain",
    "Change",
    "ChatRoles",
    "Checkpoint",
    "ClosedError",
    "CodecError",
    "CollectReport",
    "Compaction",
    "CompactionError",
    "CompactionLimits",
    "CompactionProgress",
    "CompactionStep",
    "CompactionStrategy",
    "CompactionView",
    "CompactionWork",
    "Compactor",
    "ConfigError",
    "ConflictError",
    "ConsolidationReport",
    "Content",
    "ContentEntry",
    "ContentHead",
    "ContentRef",
    "ContextEntry",
    "ContextManifest",
    "ContextMessage",
    "ContextObservation",
    "ContextPolicy",
    "ContextScope",
    "ContextSection",
    "ConversationState",
    "DeadlineError",
    "Directory",
    "DisconnectedError",
    "Discovery",
    "DiscoveryReport",
    "Durability",
    "Edge",
    "Embedder",
    "EngineInfo",
    "ExtractiveSummarizer",
    "Fact",
    "FactCell",
    "FileEntry",
    "FileInfo",
    "Files",
    "FoldInfo",
    "FoldPage",
    "FoldProgress",
    "FoldProvider",
    "Folded",
    "Follow",
    "ForkOrigin",
    "Graph",
    "GraphAssertion",
    "GraphExport",
    "GraphHit",
    "GraphPath",
    "GraphSource",
    "GrepHit",
    "GrepPage",
    "Head",
    "Hop",
    "IdError",
    "ImportReport",
    "InvalidError",
    "KvEntry",
    "KvNamespace",
    "KvPage",
    "KvSnapshotStore",
    "Laser",
    "LaserError",
    "LastN",
    "Lcm",
    "LcmFolds",
    "LcmTools",
    "LimitError",
    "Memory",
    "MemoryItem",
    "MemoryKind",
    "MessageOrigin",
    "MessageRef",
    "Messages",
    "ModelSummarizer",
    "NewEntry",
    "Node",
    "NotFoundError",
    "PartitionInfo",
    "PendingCompaction",
    "PendingReceipt",
    "PreparedInput",
    "PreparedRequest",
    "Prior",
    "Provenance",
    "ProvenanceError",
    "ProviderError",
    "RecoveryTool",
    "Remove",
    "Replace",
    "Rerank",
    "Reranker",
    "RetentionGapError",
    "RoleFilter",
    "Rolling",
    "RowText",
    "Run",
    "RunDetail",
    "RunState",
    "ScopedMemory",
    "Selection",
    "Session",
    "SessionReading",
    "SessionState",
    "SessionStatus",
    "Sessions",
    "Skill",
    "SkippedRecord",
    "Snapshot",
    "SnapshotBackend",
    "SnapshotStore",
    "SourceRef",
    "SourceReport",
    "StaleCheckpointError",
    "StorageError",
    "StoredFold",
    "StrategyRegistry",
    "Summarizer",
    "Summary",
    "SummaryError",
    "SummaryRequest",
    "TextPage",
    "TokenBudget",
    "Tokenizer",
    "ToolPairs",
    "TopicInfo",
    "TopicRetention",
    "TopicSnapshotStore",
    "TranscriptPage",
    "TransportError",
    "TreeView",
    "Triplet",
    "Turn",
    "TurnDetail",
    "UnsupportedError",
    "Usage",
    "Version",
    "Workspace",
    "Workspaces",
    "catalog_entry",
    "checkpoint_from_snapshot",
    "compactable",
    "compactable_tokens",
    "compaction_due",
    "context_checkpoint",
    "copy_nodes",
    "decode_snapshot",
    "derive_conversation_id",
    "discover",
    "encode_snapshot",
    "estimate_tokens",
    "item_entries",
    "lowering_entries",
    "new_conversation_id",
    "record_holder",
    "reply_entries",
    "resume_offsets",
    "skill_entry",
    "snapshot_from_checkpoint",
    "tokens",
    "usage_counts",
]
