"""The compaction room: what a request shows of a long session. The log, forks and transcripts keep everything."""
