"""Prompts: what each call of a model reads, put together from providers under a budget.

``import laser.prompt as lp``; start with ``PromptBuilder``. The system text has a stable layer that a provider's cache
can hold, contextual material stands behind fences, the history is trimmed without losing exact values, and each build
is explained by a trace on the log.
"""

from laser.context.tokens import TOKENIZERS, Tokenizer
from laser.models.selection import ModelSelection
from laser.prompt.briefing import BRIEFING_TOOLS, Briefing, BriefingState
from laser.prompt.builder import PromptBuilder, read_traces
from laser.prompt.built import BuiltPrompt, PromptSection
from laser.prompt.compacting import Compacted, CompactionSettings, NativeCompact, SessionCompactor
from laser.prompt.discovered import discovered_skills, discovered_texts
from laser.prompt.doctor import Finding, check_builder, check_compaction, check_engine, check_extras, check_traces
from laser.prompt.fencing import FENCE_NOTICE, escape, fence, unescape
from laser.prompt.fingerprints import Fingerprints
from laser.prompt.fragments import Fragment, Layer, Place
from laser.prompt.notes import NOTES_TOPIC, repair_message
from laser.prompt.provider import BaseProvider, ContextProvider, FunctionProvider, Provided, TurnContext
from laser.prompt.providers.briefing import BriefingKnown, Recitation
from laser.prompt.providers.configured import ActiveSkills, FenceNotice, Identity, Request, Skill, Skills, ToolSearch
from laser.prompt.providers.history import History
from laser.prompt.providers.knowledge import Concept, Knowledge, KnowledgeSource
from laser.prompt.providers.knowledge_sources import DirectoryKnowledge, GraphKnowledge
from laser.prompt.providers.memory import MemoryFacts
from laser.prompt.reports import HistoryReport
from laser.prompt.settings import PromptBudget, PromptProfile
from laser.prompt.trace import (
    BudgetReport,
    CategoryReport,
    EvictionReport,
    PromptTrace,
    ProviderReport,
    TraceUsage,
    decode_trace,
)

__all__ = [
    "BRIEFING_TOOLS",
    "FENCE_NOTICE",
    "NOTES_TOPIC",
    "TOKENIZERS",
    "ActiveSkills",
    "BaseProvider",
    "Briefing",
    "BriefingKnown",
    "BriefingState",
    "BudgetReport",
    "BuiltPrompt",
    "CategoryReport",
    "Compacted",
    "CompactionSettings",
    "Concept",
    "ContextProvider",
    "DirectoryKnowledge",
    "EvictionReport",
    "FenceNotice",
    "Finding",
    "Fingerprints",
    "Fragment",
    "FunctionProvider",
    "GraphKnowledge",
    "History",
    "HistoryReport",
    "Identity",
    "Knowledge",
    "KnowledgeSource",
    "Layer",
    "MemoryFacts",
    "ModelSelection",
    "NativeCompact",
    "Place",
    "PromptBudget",
    "PromptBuilder",
    "PromptProfile",
    "PromptSection",
    "PromptTrace",
    "Provided",
    "ProviderReport",
    "Recitation",
    "Request",
    "SessionCompactor",
    "Skill",
    "Skills",
    "Tokenizer",
    "ToolSearch",
    "TraceUsage",
    "TurnContext",
    "check_builder",
    "check_compaction",
    "check_engine",
    "check_extras",
    "check_traces",
    "decode_trace",
    "discovered_skills",
    "discovered_texts",
    "escape",
    "fence",
    "read_traces",
    "repair_message",
    "unescape",
]
