"""OpenAI Responses: reading, folding streams, lowering."""
