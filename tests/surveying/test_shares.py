"""How much of the optimum an engine of the table accepts, and of which engines that is told."""

from msgspec.structs import replace
from support.many_versions import TEXTS

from simverify.surveying.table import least_share


def test_code_that_hands_its_tokens_out_one_by_one_has_no_share(documents):
    """How many a call of the target made is not seen; a verifier that accepts none has a share."""
    right = documents[TEXTS["right"]]
    none = tuple(replace(one, expected_accepted=0.0) for one in right.instances)
    assert least_share(right).share > 0
    assert least_share(replace(right, instances=none)).share == 0
    assert least_share(replace(right, instances=none, contract="step")) is None
    some = (replace(none[0], expected_accepted=0.5), *none[1:])
    assert least_share(replace(right, instances=some, contract="step")).share == 0
