"""Commands about engines that serve: ``triage``, ``watch``."""
