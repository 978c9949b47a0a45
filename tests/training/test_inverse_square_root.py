import pytest

from cases.helpers import array
from keras_transformer.training import InverseSquareRoot


def test_the_rate_rises_to_its_peak_and_falls_as_the_paper_says():
    rate = InverseSquareRoot(peak=(512 * 4000) ** -0.5, warmup_steps=4000)
    for step in (1, 2000, 4000, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert float(array(rate(step - 1))) == pytest.approx(paper, rel=1e-5)
    copy = InverseSquareRoot.from_config(rate.get_config())
    assert float(array(copy(7))) == pytest.approx(float(array(rate(7))))
    with pytest.raises(ValueError, match="warmup_steps=0"):
        InverseSquareRoot(1e-3, 0)
