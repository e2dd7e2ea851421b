"""From a checkpoint to a directory that is served: graphs, 8 bits, checks and model cards."""
