"""The history of a conversation as a prompt has it."""
