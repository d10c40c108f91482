"""The bundled target with the first two of its six layers, for tests of what is done with its rows.

Its rows are peaked, if less than the whole one's, and no test of how tokens are judged asks how
good the text is; the other four layers were most of what such tests cost.
"""

from simverify.models import transformer

LAYERS = 2
TARGET = str(transformer.BUNDLED / "target")


def cut_target(monkeypatch):
    """Let every pair that is loaded in this process have the shallow target."""
    load = transformer._load_model

    def shallow(name, device, dtype):
        model = load(name, device, dtype)
        if name == TARGET:
            model.model.layers = model.model.layers[:LAYERS]
            model.config.num_hidden_layers = LAYERS
        return model

    monkeypatch.setattr(transformer, "_load_model", shallow)
