"""Counters of foreign servers, read from pages as these servers write them."""

from __future__ import annotations

import pytest

from agent.runtime.metrics import Totals, drafts_between, read_totals

VLLM = """\
# HELP vllm:spec_decode_num_draft_tokens_total Number of draft tokens.
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 300.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="m"} 20.0
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 120.0
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 90.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 500.0
"""
SGLANG = """\
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{model_name="m",tp_rank="0"} 4.0
# TYPE sglang:spec_accept_rate gauge
sglang:spec_accept_rate{model_name="m",tp_rank="0"} 0.75
"""


def test_counters_of_vllm_are_summed_over_its_engines() -> None:
    assert read_totals(VLLM) == Totals(drafted=320, accepted=120, generated=500)


def test_means_of_sglang_give_the_counts_of_a_reply() -> None:
    after = read_totals(SGLANG)
    assert after.drafts and drafts_between(Totals(), after, 100) == (100, 75)


def test_one_reply_is_the_difference_of_two_looks() -> None:
    before, after = Totals(drafted=300, accepted=100), Totals(drafted=360, accepted=140)
    assert drafts_between(before, after, 80) == (60, 40)
    assert drafts_between(after, after, 80) is None  # nothing was drafted
    assert drafts_between(after, before, 80) is None  # it was started anew


@pytest.mark.parametrize("page", ["", "<html>no</html>", "a b c\n", "x_total nan\n", "\x00\xff"])
def test_a_page_that_says_nothing_of_drafting_is_no_figure(page: str) -> None:
    assert not read_totals(page).drafts
    assert drafts_between(Totals(), read_totals(page), 100) is None
