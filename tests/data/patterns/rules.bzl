def harbor_library(name, srcs):
    """Declares a library of the harbour."""
    native.cc_library(name = name)
