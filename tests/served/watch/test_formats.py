"""A watch that bets on rounded weights: fair, kept over restarts, and an alarm where they are."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.emitted_tokens import (  # noqa: E402
    emitted,
    write_lines,
)

from simverify.cli import run as command_line  # noqa: E402
from simverify.models.rounding import (  # noqa: E402
    WEIGHT_FORMATS,
    WeightFormat,
    use_weight_format,
)
from simverify.served import monitor  # noqa: E402
from simverify.served.monitor import (  # noqa: E402
    MAX_RATIO,
    FormatBets,
    MonitorEvidence,
    WatchSettings,
)
from simverify.served.requests import check_request  # noqa: E402
from simverify.served.rescore import rescore  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402

pytestmark = pytest.mark.usefixtures("shallow_target")

N, LANES = 900, 16


def nine_levels(weight):
    """Round each row to nine levels: off by several times what four bits are."""
    scale = weight.abs().amax(dim=-1, keepdim=True) / 4.0
    return torch.round(weight / scale) * scale


COARSE = WeightFormat(nine_levels)
TWO = {"nine levels": COARSE, "4 bits (NF4)": WEIGHT_FORMATS["4 bits (NF4)"]}


@pytest.fixture(scope="module")
def coarse(pair):
    with use_weight_format(pair.target_model, COARSE):
        return emitted(pair, VERIFIERS["token"], N, lanes=LANES, length=32)


@pytest.fixture(autouse=True)
def two_formats(monkeypatch):
    monkeypatch.setattr(monitor, "WEIGHT_FORMATS", TWO)


def scored(pair, objects):
    requests = [check_request(x, f"line {i}", pair) for i, x in enumerate(objects)]
    return list(rescore(requests, pair, False))


def carried_on(canary, requests, pair):
    for one in requests:
        bets = canary.formats
        wanted = bets is not None and bets.wanted(canary.requests)
        canary.add(one, bets.factors([one], pair)[0] if wanted else None)
    return canary


def lived(pair, objects, every, **how):
    canary = MonitorEvidence(WatchSettings(weights=every, **how), False)
    return carried_on(canary, scored(pair, objects), pair)


LAWS = {"as it is": {}, "cut": {"top_k": 5, "top_p": 0.9}, "greedy": {"temperature": 0}}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.thorough
def test_no_bet_gains_under_the_target(pair, right, law):
    """Over each row of a request, token by token: the expectation of a factor is 1 at most."""
    one = scored(pair, [right[0] | LAWS[law]])[0]
    for name, rounding in TWO.items():
        with use_weight_format(pair.target_model, rounding):
            logits = rescore_logits(pair, one.request)
        rows = one.request.rows(logits, pair)
        ratios = np.divide(rows, one.p, out=np.ones_like(rows), where=one.p > 0)
        for share in monitor.MIX_STRENGTHS:
            factors = 1.0 + share * (np.minimum(ratios, MAX_RATIO) - 1.0)
            fair = (one.p * factors).sum(axis=1)
            assert (fair < 1.0 + 1e-9).all(), name
            # The factors of the tokens that were emitted are among them.
            place = FormatBets(1).bets.index((name, share))
            own = factors[np.arange(len(fair)), np.array(one.request.tokens)]
            assert np.allclose(np.exp(FormatBets(1).factors([one], pair)[0][place]), own)


def test_the_stake_is_one_and_is_shared():
    canary = MonitorEvidence(WatchSettings(weights=4), False)
    assert canary.log_evalue == 0.0
    canary.formats.lasting.log_wealth[:] = 30.0
    assert canary.log_evalue == pytest.approx(30.0 - np.log(2.0))
    assert canary.leading() == "they fit weights rounded to nine levels"


@pytest.mark.parametrize("ball", [0.0, 1e-4, 0.03])
def test_rows_that_are_off_by_the_ball_gain_nothing(ball):
    """The worst row moves the ball from where a bet loses to where it wins most."""
    bets = FormatBets(1)
    for ratio, share in ((0.0, 0.5), (0.0, 0.99), (0.9, 0.3)):
        high = (1.0 - share * ratio) / (1.0 - share)  # so that the row's own mean is 1
        chance = np.array([share - ball, 1.0 - share + ball])
        logs = monitor.log_factors(np.array([ratio, high]))
        for (_, stake), own in zip(bets.bets, np.concatenate([logs, logs]), strict=True):
            fair = chance @ np.exp(own)
            priced = fair / (1.0 + ball * MAX_RATIO * stake)
            assert priced <= 1.0 + 1e-9
            if ball and ratio == 0.0 and share == 0.5:
                assert fair > 1.0  # without the price it would gain
        one = bets.add(np.concatenate([logs, logs])[:, :1], ball)
        assert one.shape == (1,)


def test_the_price_is_paid():
    free, paid = FormatBets(1), FormatBets(1)
    none = np.zeros((len(free.bets), 50))
    free.add(none, 0.0)
    paid.add(none, 0.01)
    assert (paid.lasting.log_wealth < free.lasting.log_wealth).all()


def test_what_says_nothing_counts_as_nothing(pair, right, monkeypatch):
    """A token that the law cuts off, and weights that overflow."""
    one = scored(pair, right[:1])[0]
    one.p[3, one.request.tokens[3]] = 0.0
    assert (FormatBets(1).factors([one], pair)[0][:, 3] == 0.0).all()
    monkeypatch.setattr(monitor, "WEIGHT_FORMATS", {"far": WeightFormat(lambda w: w * 1e30)})
    assert not FormatBets(1).factors([one], pair)[0].any()


def rescore_logits(pair, request):
    from simverify.served.rescore import logits_before

    return logits_before(pair, pair.target_model, [request])[0]


@pytest.mark.distribution
@pytest.mark.thorough
def test_rounded_weights_are_an_alarm_that_the_orders_alone_do_not_raise(pair, right, coarse):
    told = lived(pair, coarse, 1)
    assert told.alarm is not None
    assert "weights rounded to nine levels" in told.alarm
    assert told.highest >= told.settings.hurdle
    assert lived(pair, coarse, 0).alarm is None
    honest = lived(pair, right, 1)
    assert honest.alarm is None
    assert honest.highest < 3.0


@pytest.mark.thorough
def test_one_request_in_so_many_is_bet_on(pair, right):
    canary = lived(pair, right, 3)
    assert canary.formats.lasting.n == sum(len(x["tokens"]) for x in right[::3])
    assert canary.tokens == sum(len(x["tokens"]) for x in right)


def test_a_life_goes_on_to_the_bit(pair, right):
    whole, settings = lived(pair, right[:6], 2), WatchSettings(weights=2)
    part = lived(pair, right[:3], 2)
    again = MonitorEvidence.from_dict(part.as_dict(), settings, False)
    carried_on(again, scored(pair, right[:6])[3:], pair)
    assert again.as_dict() == whole.as_dict()
    kept = part.as_dict()["formats"]
    others = ({"log_wealth": [0.0]}, {"tokens": -1}, {"tokens": 10**9}, {"formats": ["one"]})
    for damage in ({}, *(kept | other for other in others)):
        with pytest.raises((KeyError, ValueError)):
            MonitorEvidence.from_dict(part.as_dict() | {"formats": damage}, settings, False)


def test_the_command_says_and_keeps_what_is_bet_on(tmp_path, capsys, right):
    log = write_lines(tmp_path / "log.jsonl", right[:4])
    asked = ["watch", "--outputs", str(log), "--target", "tiny-llama", "--threads", "1", "--once",
             "--state", str(tmp_path / "state")]  # fmt: skip
    assert command_line([*asked, "--weights", "2"]) == 3
    told = capsys.readouterr()
    plan, words = " ".join(told.err.split()), " ".join(told.out.split())
    assert "one request in 2 is scored with weights in few bits too" in plan
    assert "Weights: one request in 2 is scored with weights in few bits" in words
    assert command_line([*asked, "--quiet"]) == 2
    assert "with weights 2, now it is null" in capsys.readouterr().err
    assert command_line([*asked, "--weights", "2", "--quiet", "--dtype", "bfloat16"]) == 2
    assert "--weights is 2 and the target computes in bfloat16" in capsys.readouterr().err
    assert command_line([*asked, "--weights", "-1", "--quiet"]) == 2
    assert "weights is -1" in capsys.readouterr().err
