"""The context room: scopes, assembly of a conversation's history, and the policies that cut it."""
