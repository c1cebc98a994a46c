"""The workspace room: versioned file trees of immutable content, with heads that move by revision."""
