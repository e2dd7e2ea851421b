"""Tools for agents over the Model Context Protocol: its messages, its transports, and the tools."""
