"""Figures of chains say how much each question was expected to tell, where that is known."""

import torch

from pursuit.evaluation.figures import answer_chain, image_chain
from pursuit.inference.chain import Chain, ChainStep
from pursuit.queries import PatchQueries


def make_chain(*bits: float | None) -> Chain:
    belief = torch.tensor([0.3, 0.7])
    steps = tuple(ChainStep(i, f"q{i}", "Is it so?", "yes", belief, expected) for i, expected in enumerate(bits))
    return Chain(("cat", "dog"), belief, steps)


def test_bits_stand_beside_their_question() -> None:
    figure = answer_chain(make_chain(0.62, None, 0.001))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "start",
        "1. Is it so?  yes  0.62 bits",
        "2. Is it so?  yes",
        "3. Is it so?  yes  <0.01 bits",
    ]


def test_bits_stand_above_their_patch() -> None:
    figure = image_chain(make_chain(0.62, None), PatchQueries((1, 4, 4), 2, 2), torch.zeros(1, 4, 4))
    assert [axes.get_title() for axes in figure.axes[:3]] == ["the picture", "step 1\n0.62 bits", "step 2"]
    figure.draw_without_rendering()
    assert figure.get_tightbbox().y1 <= figure.get_size_inches()[1] + 0.01
