"""The decoding loop over real models: many requests, one draft and one target call at a time.

The simulators beside it have rows in tables; here they come out of neural networks.
"""
