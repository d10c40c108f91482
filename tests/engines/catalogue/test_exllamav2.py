import pytest
from support.engine_doubles import check_double, checkout, largest_deviation

pytest.importorskip("torch")

# Drafts greedily, samples the target at each place, and keeps the rest of the draft where the
# token is the drafted one. The caches are cut and go on a token a call.
DOUBLE = """
import random
import torch
from exllamav2.generator import ExLlamaV2Sampler


class ExLlamaV2StreamingGenerator:

    def _gen_single_token_speculative(self, gen_settings, prefix_token=None):
        if self.future_tokens is None:
            greedy, ids = gen_settings.greedy_clone(), self.sequence_ids
            for _ in range(self.num_speculative_tokens):
                row = self.draft_model.forward(ids[:, -1:], self.draft_cache, input_mask=None)
                drawn = ExLlamaV2Sampler.sample(row, greedy, ids, random.random(), self.tokenizer)
                ids = torch.cat((ids, drawn[0]), dim=1)
            self.draft_cache.current_seq_len -= self.num_speculative_tokens
            self.future_tokens = ids[:, -1 - self.num_speculative_tokens :]
            self.future_logits = self.model.forward(self.future_tokens, self.cache, loras=None)
            self.cache.current_seq_len -= self.num_speculative_tokens + 1
        row = self.future_logits[:, :1]
        token, _, _, prob, eos = ExLlamaV2Sampler.sample(
            row, gen_settings, self.sequence_ids, random.random(), self.tokenizer, prefix_token
        )
        self.future_logits = self.future_logits[:, 1:]
        self.future_tokens = self.future_tokens[:, 1:]
        self.cache.current_seq_len += 1
        self.draft_cache.current_seq_len += 1
        if self.future_tokens.shape[1] == 0 or self.future_tokens[0, 0] != token[0, 0]:
            self.future_tokens = None
        return token, None, None, prob, eos, row
"""


def test_the_adapter_gives_the_law_of_what_it_loads(tmp_path):
    check_double("exllamav2", tmp_path, DOUBLE, "self.future_tokens[0, 0] !=", "0 !=", gamma=2)


def test_a_target_cache_that_is_cut_too_short_is_seen(tmp_path):
    text = DOUBLE.replace("self.cache.current_seq_len -=", "self.cache.current_seq_len -= 1 +")
    assert text != DOUBLE
    folder = checkout(tmp_path, "exllamav2", text)
    assert largest_deviation("exllamav2", folder, gamma=2, length=4) > 1e-3
