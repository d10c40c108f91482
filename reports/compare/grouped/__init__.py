"""Ways of drafting in a comparison: their names, and layers in groups (EasySpec) reported."""
