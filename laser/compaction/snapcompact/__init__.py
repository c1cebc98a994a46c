"""The strategy ``snapcompact``: what is folded is kept as text, and shown as pictures of it."""
