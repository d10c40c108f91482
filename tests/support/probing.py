"""What the edge probes say of a rule, by their names."""

from simverify.auditing.probes import run_probes


def by_name(rule, contract="verify", seconds=2.0):
    return {probe.name: probe for probe in run_probes(rule, contract, seconds=seconds)}


def outcomes(rule, contract="verify"):
    return {name: probe.outcome for name, probe in by_name(rule, contract).items()}
