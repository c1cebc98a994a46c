"""What laser asks of the world: small Protocols whose docstrings are the contract. Nothing here does I/O."""
