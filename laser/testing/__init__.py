"""Shipped to users: conformance suites for engines, a real-server harness, faults for tests."""
