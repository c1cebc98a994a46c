"""The graph room: nodes and edges folded from a topic, with a read view."""
