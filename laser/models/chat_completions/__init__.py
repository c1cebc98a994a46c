"""Chat Completions, of OpenAI and of those who speak it: reading, folding streams, lowering."""
