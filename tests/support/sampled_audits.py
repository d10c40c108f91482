"""Short audits of callables by samples alone."""

from support.false_alarms import ALPHA

from simverify.auditing.sampled_runs import SampledInstance, default_sampled_instances
from simverify.auditing.sampled_tier import sample_callable
from simverify.models.base import compact
from simverify.verifiers import VERIFIERS

INSTANCES = default_sampled_instances()
SMALL = (SampledInstance(compact(), 2),)
token = VERIFIERS["token"].rule


def audit(rule, contract="verify", *, instances=INSTANCES, detect=0.03, alpha=ALPHA, **options):
    return sample_callable(
        rule, contract, instances=instances, seed=7, alpha=alpha, detect=detect, **options
    )
