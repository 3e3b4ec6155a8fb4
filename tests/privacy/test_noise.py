"""Noise is as large as its privacy needs, never smaller, and comes from the operating system."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from intarsia.exceptions import ReleaseError, SettingError
from intarsia.privacy.noise import (
    LARGEST_SCALE,
    OpenDPNoise,
    _measurement,
    _scale,
    add_noise,
    epsilon_of,
    rho_of,
)  # what OpenDP is asked

FALSE_ALARM = 1e-7
EPSILONS = st.floats(1e-3, 50)
DELTAS = st.floats(1e-12, 0.1)


@pytest.mark.parametrize(("epsilon", "rho"), [(0.5, 0.0066), (1, 0.0244), (2, 0.0882), (4, 0.311), (8, 1.05)])
def test_rho_of_known_epsilons(epsilon, rho):
    assert rho_of(epsilon, 1e-6) == pytest.approx(rho, rel=0.01)


@settings(max_examples=25)
@given(EPSILONS, DELTAS)
def test_rho_is_rounded_down_and_epsilon_up(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert rho > 0
    assert epsilon_of(rho, delta) <= epsilon < epsilon_of(rho * (1 + 1e-9), delta) * (1 + 1e-9)


@given(st.floats(1e-9, 100), DELTAS)
def test_epsilon_is_at_most_that_of_the_textbook(rho, delta):
    """Bun and Steinke 2016, proposition 1.3: ρ-zCDP implies (ρ + 2 √(ρ ln 1/δ), δ)-DP; OpenDP's conversion is tighter."""
    assert epsilon_of(rho, delta) <= (rho + 2 * np.sqrt(rho * np.log(1 / delta))) * (1 + 1e-9)


@settings(max_examples=40)
@given(st.floats(1e-9, 10), st.floats(1e-9, 10), DELTAS)
def test_more_rho_is_more_epsilon_and_two_releases_cost_less_than_their_sum(one, other, delta):
    both = epsilon_of(one + other, delta)
    assert both >= max(epsilon_of(one, delta), epsilon_of(other, delta)) * (1 - 1e-9)
    assert both <= (epsilon_of(one, delta / 2) + epsilon_of(other, delta / 2)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-6), (-1, 1e-6), (np.nan, 1e-6), (np.inf, 1e-6), (1, 0), (1, 1), (1, np.nan)]
)
def test_impossible_epsilons_are_refused(epsilon, delta):
    with pytest.raises(SettingError, match="must be"):
        rho_of(epsilon, delta)


@given(st.floats(1e-3, 1e9), st.floats(1e-6, 100))
def test_opendp_confirms_the_scale_and_it_is_not_larger_than_needed(sensitivity, rho):
    scale = _scale(sensitivity, rho)
    assert _measurement(scale).map(sensitivity) <= rho
    assert scale <= sensitivity / np.sqrt(2 * rho) * (1 + 1e-12)


@pytest.mark.parametrize(("sensitivity", "rho"), [(1, 0.5), (40_000.5, 0.0244), (2.0**30, 1e-3)])
def test_the_variance_is_that_of_the_scale(sensitivity, rho):
    """Exact bounds: the sum of squares over σ² has a χ² distribution, up to the discreteness, which σ ≥ 1 hides."""
    n, sigma = 20_000, sensitivity / np.sqrt(2 * rho)
    noise = OpenDPNoise().draw(n, sensitivity, rho).astype(float)
    low, high = stats.chi2(n).ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
    assert low < ((noise / sigma) ** 2).sum() < high
    assert abs(noise.mean()) < sigma / np.sqrt(n) * stats.norm.isf(FALSE_ALARM / 2)


def test_half_the_noise_would_be_noticed():
    low = stats.chi2(20_000).ppf(FALSE_ALARM / 2)
    noise = OpenDPNoise().draw(20_000, 1000, 0.5) / 2
    assert ((noise / 1000) ** 2).sum() < low


def test_small_noise_has_the_probabilities_of_the_discrete_gaussian():
    n, sigma = 20_000, 1.5
    noise = OpenDPNoise().draw(n, 1.0, 1 / (2 * sigma**2))
    support = np.arange(-60, 61)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    for k, p in zip(support, weights / weights.sum(), strict=True):
        count = int((noise == k).sum())
        alarm = FALSE_ALARM / len(support) / 2
        assert stats.binom(n, p).ppf(alarm) <= count <= stats.binom(n, p).isf(alarm)


def test_no_sums_need_no_noise():
    assert OpenDPNoise().draw(0, 1, 1).shape == (0,)


def test_numpy_s_seed_and_a_fork_do_not_repeat_noise():
    draws = []
    for _ in range(2):
        np.random.seed(0)
        draws.append(OpenDPNoise().draw(20, 1e6, 0.5).tolist())
    code = """
        import os
        from intarsia.privacy.noise import OpenDPNoise
        OpenDPNoise().draw(20, 1e6, 0.5)
        child = os.fork()
        line = " ".join(map(str, OpenDPNoise().draw(20, 1e6, 0.5).tolist())) + "\\n"
        os.write(1, line.encode())
        if child:
            os.wait()
    """
    if "fork" in multiprocessing.get_all_start_methods():
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
        draws += [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len({tuple(draw) for draw in draws}) == len(draws) in {2, 4}


@pytest.mark.parametrize(
    ("sensitivity", "rho"), [(0, 1), (-1, 1), (1, 0), (1, -1), (np.nan, 1), (1, np.nan), (np.inf, 1), (1, np.inf)]
)
def test_noise_without_meaning_is_refused(sensitivity, rho):
    with pytest.raises(SettingError, match="must be above 0"):
        OpenDPNoise().draw(1, sensitivity, rho)
    with pytest.raises(SettingError, match="at least 0"):
        OpenDPNoise().draw(-1, 1, 1)


def test_noise_that_could_leave_64_bits_is_refused():
    with pytest.raises(SettingError, match="64 bits"):
        OpenDPNoise().draw(1, 2 * LARGEST_SCALE, 0.5)
    assert OpenDPNoise().draw(100, LARGEST_SCALE * 0.99, 0.5).any()


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**61) + 1, 2**61 - 1))
def test_noisy_sums_are_exact_or_refused(value, noise):
    arrays = np.array([value], dtype=np.int64), np.array([noise], dtype=np.int64)
    if abs(value + noise) < 2**62:
        assert add_noise(*arrays).tolist() == [value + noise]
    else:
        with pytest.raises(ReleaseError, match="64 bits"):
            add_noise(*arrays)


def test_only_integers_get_noise():
    with pytest.raises(TypeError, match="int64"):
        add_noise(np.zeros(2), np.zeros(2, dtype=np.int64))
    with pytest.raises(TypeError, match="one shape"):
        add_noise(np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64))


def test_ten_thousand_numbers_take_less_than_a_second():
    """A fifth of a second of an idle processor; the best of three, so that a busy machine does not decide."""
    OpenDPNoise().draw(1, 1, 1)
    fastest = np.inf
    for _ in range(3):
        start = time.process_time()
        OpenDPNoise().draw(10_000, 1e6, 0.01)
        fastest = min(fastest, time.process_time() - start)
    assert fastest < 1


def test_without_opendp_the_error_says_what_to_install():
    code = """
        import sys
        sys.modules["opendp"] = None
        from intarsia.privacy.noise import rho_of
        from intarsia.exceptions import SettingError
        try:
            rho_of(1, 1e-6)
        except SettingError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "differential privacy needs opendp, which is not installed. "
        "Hint: pip install '.[private]' in a clone of the repository."
    )


def test_importing_the_module_does_not_import_opendp():
    code = "import sys, intarsia.privacy.noise; print('opendp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_no_other_module_names_opendp_and_no_class_of_the_package_draws_but_this_one():
    source = Path(__file__).parents[2] / "src" / "intarsia"
    importing = [path.name for path in source.rglob("*.py") if "import opendp" in path.read_text()]
    drawing = [path.name for path in source.rglob("*.py") if "def draw(" in path.read_text()]
    assert (importing, drawing) == (["noise.py"], ["noise.py"])
