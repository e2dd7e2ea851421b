"""Purlin beside other search services, each in an environment of its own."""
