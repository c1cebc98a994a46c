"""Every limit of laser as a named constant, with its unit and where it comes from."""

from __future__ import annotations

from typing import Final

CONTEXT_READ_WINDOW: Final = 10_000
"""Raw records of a partition that one context read examines, newest first (the context guide, "Read window")."""

COPY_DISTANCE: Final = 128
"""Raw records of a partition within which two records of one id count as copies of the same append. A retry looks for
its record on the log before it writes again, so copies stand close together."""

DEFAULT_LAST_N: Final = 50
"""Messages that a fetch keeps when neither a count nor a policy is given."""

MAX_PAYLOAD_BYTES: Final = 64_000_000
"""Bytes of one record's payload (Apache Iggy)."""

MAX_HEADER_BYTES: Final = 255
"""Bytes of one header's key, and of its value (Apache Iggy)."""

MAX_PROVENANCE_BYTES: Final = 1_024
"""Bytes of all provenance headers of a record, counted as key + value + ``HEADER_FRAMING_BYTES`` each."""

HEADER_FRAMING_BYTES: Final = 9
"""Bytes that a header costs beside its key and value in ``MAX_PROVENANCE_BYTES``."""

MAX_NAME_BYTES: Final = 255
"""UTF-8 bytes of a stream's or topic's name (Apache Iggy)."""

MAX_PARTITIONS: Final = 1_000
"""Partitions of one topic (Apache Iggy)."""

MAX_BATCH_RECORDS: Final = 10_000
"""Records of one ``append_many`` call."""

MAX_BATCH_BYTES: Final = 64_000_000
"""Payload bytes of one ``append_many`` call."""

MAX_OFFSET: Final = 2**64 - 1
"""The largest offset a checkpoint can hold (unsigned 64 bits)."""

MAX_TIMEOUT_SECONDS: Final = 86_400.0
"""The longest deadline that a client accepts."""

MAX_KV_KEY_BYTES: Final = 512
"""UTF-8 bytes of a key of the key-value store."""

MAX_KV_VALUE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a value of the key-value store."""

MAX_KV_NAMESPACE_BYTES: Final = 128
"""UTF-8 bytes of a namespace of the key-value store."""

MAX_SCAN_LIMIT: Final = 1_000
"""Entries of one page of a key-value scan."""

MAX_SCAN_BYTES: Final = 32 * 1024 * 1024
"""Bytes of values at which a page of a key-value scan ends, whatever its limit; the value that reaches it is on it."""

MAX_KV_TTL_MICROS: Final = 100 * 365 * 86_400 * 1_000_000
"""The longest time to live of a key-value entry, microseconds: 100 years. Its end is a whole number in every store."""

MAX_LABEL_BYTES: Final = 1_024
"""UTF-8 bytes of a session's label."""

DEFAULT_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of records that a client keeps to answer reads of a remote log."""

MAX_GRAPH_NAME_BYTES: Final = 128
"""UTF-8 bytes of a graph's name."""

MAX_GRAPH_LABEL_BYTES: Final = 255
"""UTF-8 bytes of a node's label, an edge's type, and an attribute's name."""

MAX_GRAPH_VALUE_BYTES: Final = 1_024
"""UTF-8 bytes of a node's value."""

MAX_GRAPH_ATTRIBUTES_BYTES: Final = 16_384
"""Bytes of all attributes of a node or an edge in one write, as CBOR."""

MAX_GRAPH_WRITE: Final = 1_000
"""Nodes and edges of one write."""

MAX_GRAPH_DEPTH: Final = 8
"""Hops of a traversal."""

MAX_GRAPH_RESULTS: Final = 1_000
"""Results of one read of a graph."""

MAX_GRAPH_EDGES: Final = 20_000
"""Edges that one traversal may look at."""

MAX_MEMORY_BODY_BYTES: Final = 1_048_576
"""Bytes of one remembered item."""

MAX_MEMORY_RESULTS: Final = 10_000
"""Items that one recall gives."""

DEFAULT_MEMORY_RESULTS: Final = 50
"""Items that a recall gives when no limit is given."""

MAX_FACT_KEY_BYTES: Final = 128
"""UTF-8 bytes of a fact's key."""

MAX_LCM_PAGE: Final = 200
"""Nodes, hits or rows on one page of the ``lcm`` tools."""

MAX_LCM_PAGE_BYTES: Final = 32_768
"""UTF-8 bytes of rows on one page of ``lcm_expand``."""

MAX_LCM_QUERY_BYTES: Final = 1_024
"""UTF-8 bytes of the text that ``lcm_grep`` looks for."""

MAX_FRAMES: Final = 80
"""Pictures that ``snapcompact`` shows in one request."""

MAX_INLINE_FRAMES: Final = 60
"""Pictures of these that stand in the request itself: about 3 MB, at 50 KB each."""

MAX_KEPT_FRAMES: Final = 256
"""Pictures that one ``snapcompact`` keeps in memory, over all sessions."""

MAX_ENTRY_BYTES: Final = 1_048_576
"""Bytes of an entry of an active context that stand in its event; larger ones are kept as content."""

MAX_ENTRY_KEY_BYTES: Final = 255
"""UTF-8 bytes of an entry's key, call id and other names."""

MAX_ENTRY_PREVIEW_BYTES: Final = 1_024
"""UTF-8 bytes of an entry's preview."""

MAX_SUPERSEDED_VERSIONS: Final = 5
"""Superseded versions of a catalog that an active context keeps beside the current one."""

MAX_INLINE_BYTES: Final = 65_536
"""Bytes of content that the catalog itself keeps; more goes to object storage (the storage guide, "Keep large bytes
outside")."""

CONTENT_PART_BYTES: Final = 1_048_576
"""Bytes of content whose hash the catalog keeps apart, so that a range can be checked without reading all."""

MAX_CONTENT_BYTES: Final = 64 * 1024**3
"""Bytes of one content: 64 GiB, in parts of 8 MiB within the 10,000 that S3 allows an upload."""

MAX_TENANT_BYTES: Final = 128
"""UTF-8 bytes of a tenant's name."""

MAX_HOLDER_BYTES: Final = 2_048
"""UTF-8 bytes of a holder's name."""

MAX_PLACE_BYTES: Final = 512
"""UTF-8 bytes of a place that a catalog keeps with a hold."""

MAX_CONTENT_REFS: Final = 10_000
"""References of one call: children of one content, contents of one hold or release."""

MAX_MEDIA_TYPE_BYTES: Final = 255
"""Bytes of a media type."""

MAX_ENTRY_TEXT_BYTES: Final = 255
"""UTF-8 bytes of a content's provider kind, and of the kind, source, id and origin of an entry."""

MAX_PREVIEW_BYTES: Final = 1_024
"""UTF-8 bytes of an entry's preview."""

CONTENT_GRACE_SECONDS: Final = 7 * 86_400
"""How long content stays that nothing holds, counted from its last put or admission (the storage guide, "Retain bytes
through recorded ownership")."""

DEFAULT_COMPACTION_LEASE_SECONDS: Final = 600.0
"""Seconds, by the log's clock, after which another request may take over a compaction that is still under way."""

MAX_TRANSCRIPT_PAGE: Final = 10_000
"""Messages of one page of a transcript."""

MAX_COMPACTION_LEASE_SECONDS: Final = 86_400.0
"""The longest such time that a request may ask for."""

MAX_REPLY_BYTES: Final = 64_000_000
"""Bytes of a model provider's answer, whole or streamed."""

MAX_CACHE_KEY_CHARS: Final = 64
"""Characters of a ``prompt_cache_key`` (OpenAI)."""

MAX_TOOL_NAME_CHARS: Final = 64
"""Characters of a tool's name (OpenAI; Anthropic allows twice as many)."""

MAX_PROVIDER_CHARS: Final = 16 * 1024 * 1024
"""Characters that one provider may give to one prompt, the bytes of images left out."""

MAX_PROVIDER_FRAGMENTS: Final = 10_000
"""Fragments that one provider may give to one prompt: as many as the messages of a read window."""

MAX_BRIEFING_FIELDS: Final = 64
"""Fields that a briefing may declare."""

MAX_BRIEFING_VALUE_BYTES: Final = 2_048
"""UTF-8 bytes of a briefing's value and of its next step."""

MAX_PATH_BYTES: Final = 4_096
"""UTF-8 bytes of a path in a workspace."""

MAX_PATH_PART_BYTES: Final = 255
"""UTF-8 bytes of one part of a path, as file systems allow."""

MAX_PATH_DEPTH: Final = 64
"""Parts of a path in a workspace."""

MAX_WORKSPACE_NAME_BYTES: Final = 128
"""UTF-8 bytes of a workspace's name."""

MAX_NOTE_BYTES: Final = 1_024
"""UTF-8 bytes of the note on a version of a workspace."""

MAX_FOLDER_ENTRIES: Final = 10_000
"""Entries of one folder that a discovery lists."""

MAX_INSTRUCTION_BYTES: Final = 65_536
"""Bytes of one file of instructions; a larger one is left out whole."""

MAX_INSTRUCTIONS_BYTES: Final = 262_144
"""Bytes of all instructions of one discovery; what goes over it is left out, file by file."""

MAX_SKILL_BYTES: Final = 262_144
"""Bytes of one ``SKILL.md``."""

MAX_SKILL_DESCRIPTION_CHARS: Final = 1_024
"""Characters of a skill's description."""

MAX_SKILLS: Final = 500
"""Skills of one catalog."""
