"""Files thinned to some groups of lines."""

from evals.suite_definition import Thinning
from evals.thinning import thin

DATA = "".join(f"True\tgood {i}\nFalse\tbad {i}\n" for i in range(10)).encode()


def test_groups_stay_together_and_the_choice_is_fixed() -> None:
    thinned = thin(DATA, Thinning(groups=3, lines_per_group=2, seed=0)).decode().splitlines()
    assert [line.split()[-1] for line in thinned] == ["7", "7", "8", "8", "1", "1"]
    assert [line.split("\t")[0] for line in thinned] == ["True", "False"] * 3


def test_last_line_gets_an_end_and_blank_lines_go() -> None:
    options = Thinning(groups=100, lines_per_group=1, seed=0)
    assert sorted(thin(b"a\n\nb", options).split(b"\n")) == [b"", b"a", b"b"]
