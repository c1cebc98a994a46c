"""The public names of the rooms, for ``laser.__getattr__``."""

from laser.client.directory import Directory
from laser.compaction.active import strategy_compactor
from laser.compaction.compaction import Compaction
from laser.compaction.coverage import Coverage
from laser.compaction.inputs import ContextObservation, ContextSection, PreparedInput, PreparedRequest
from laser.compaction.lcm.copying import copy_nodes
from laser.compaction.lcm.folds import LcmFolds
from laser.compaction.lcm.pages import FoldInfo, FoldPage, GrepHit, GrepPage, RowText, TextPage
from laser.compaction.lcm.strategy import Lcm
from laser.compaction.lcm.tools import LcmTools
from laser.compaction.prior import FoldProvider, Prior, StoredFold
from laser.compaction.registry import StrategyRegistry
from laser.compaction.requests import CompactionLimits
from laser.compaction.rolling import Rolling
from laser.compaction.saved import CompactionStep
from laser.compaction.snapcompact.archive import ArchiveFolds
from laser.compaction.snapcompact.strategy import Snapcompact
from laser.compaction.snapcompact.tools import TranscriptTools
from laser.compaction.strategy import CompactionProgress, CompactionStrategy, CompactionWork
from laser.compaction.summarizers.extractive import ExtractiveSummarizer
from laser.compaction.summarizers.models import ModelSummarizer
from laser.compaction.tools import RecoveryTool
from laser.compaction.view import CompactionView
from laser.content.collecting import CollectReport
from laser.content.content import Content
from laser.context.tokens import Tokenizer, tokens
from laser.graph.graph import Graph
from laser.memory.consolidation import ConsolidationReport
from laser.memory.facts import Fact, FactCell
from laser.memory.hits import MemoryItem
from laser.memory.memory import Memory
from laser.memory.reranking import Rerank
from laser.memory.scoped import ScopedMemory
from laser.session.active.active import ActiveContext
from laser.session.active.compacting import Account, Compactor
from laser.session.active.entries import ContextEntry, NewEntry
from laser.session.active.events import Add, Remove, Replace
from laser.session.active.lowering import item_entries, lowering_entries, reply_entries, usage_counts
from laser.session.active.provider_compaction import provider_compactor
from laser.session.active.state import (
    ActiveState,
    PendingCompaction,
    RunState,
    compactable,
    compactable_tokens,
    compaction_due,
)
from laser.session.active.turns import Run, Turn
from laser.session.copying import MessageOrigin
from laser.session.discovery.discovering import catalog_entry, discover, skill_entry
from laser.session.discovery.reports import Discovery, DiscoveryReport, Skill, SourceReport
from laser.session.discovery.trees import TreeFiles
from laser.session.runs import RunDetail, TurnDetail
from laser.session.session import Session
from laser.session.sessions import Sessions
from laser.session.transcript import TranscriptPage
from laser.session.views import SessionReading
from laser.workspace.heads import Version
from laser.workspace.importing import ImportReport
from laser.workspace.tree_view import Change, FileInfo, TreeView
from laser.workspace.workspace import Head, Workspace
from laser.workspace.workspaces import Workspaces

__all__ = [
    "Account",
    "ActiveContext",
    "ActiveState",
    "Add",
    "ArchiveFolds",
    "Change",
    "CollectReport",
    "Compaction",
    "CompactionLimits",
    "CompactionProgress",
    "CompactionStep",
    "CompactionStrategy",
    "CompactionView",
    "CompactionWork",
    "Compactor",
    "ConsolidationReport",
    "Content",
    "ContextEntry",
    "ContextObservation",
    "ContextSection",
    "Coverage",
    "Directory",
    "Discovery",
    "DiscoveryReport",
    "ExtractiveSummarizer",
    "Fact",
    "FactCell",
    "FileInfo",
    "FoldInfo",
    "FoldPage",
    "FoldProvider",
    "Graph",
    "GrepHit",
    "GrepPage",
    "Head",
    "ImportReport",
    "Lcm",
    "LcmFolds",
    "LcmTools",
    "Memory",
    "MemoryItem",
    "MessageOrigin",
    "ModelSummarizer",
    "NewEntry",
    "PendingCompaction",
    "PreparedInput",
    "PreparedRequest",
    "Prior",
    "RecoveryTool",
    "Remove",
    "Replace",
    "Rerank",
    "Rolling",
    "RowText",
    "Run",
    "RunDetail",
    "RunState",
    "ScopedMemory",
    "Session",
    "SessionReading",
    "Sessions",
    "Skill",
    "Snapcompact",
    "SourceReport",
    "StoredFold",
    "StrategyRegistry",
    "TextPage",
    "Tokenizer",
    "TranscriptPage",
    "TranscriptTools",
    "TreeFiles",
    "TreeView",
    "Turn",
    "TurnDetail",
    "Version",
    "Workspace",
    "Workspaces",
    "catalog_entry",
    "compactable",
    "compactable_tokens",
    "compaction_due",
    "copy_nodes",
    "discover",
    "item_entries",
    "lowering_entries",
    "provider_compactor",
    "reply_entries",
    "skill_entry",
    "strategy_compactor",
    "tokens",
    "usage_counts",
]
