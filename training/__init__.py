"""From documents to an exported encoder directory. The only package that imports torch."""

import os

# As in purlin.index.encoder, which exports may not have imported before onnxruntime.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
