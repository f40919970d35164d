"""Bounds of LLRs: from the command line, from a validation's JSON, and what they do to scores."""

import json

import numpy as np
import pytest

from dcaplda.runtime.errors import DcapldaError
from dcaplda.runtime.trials.bounds import Bounds


def test_values_beyond_become_the_bounds_and_are_counted():
    llrs = np.array([-9.0, -2.0, -1.5, 0.0, 3.0, 3.1, np.inf, -np.inf], np.float32)
    found, n_below, n_above = Bounds(-2.0, 3.0).applied(llrs)
    assert found.tolist() == [-2.0, -2.0, -1.5, 0.0, 3.0, 3.0, 3.0, -2.0]
    assert (n_below, n_above) == (2, 2) and found.dtype == np.float32


def test_a_written_score_is_never_beyond():
    """float32 of 2.3 and of -0.1 lie farther out; the next towards 0 do not."""
    bounds = Bounds(-0.1, 2.3)
    found, _, _ = bounds.applied(np.array([-5.0, 5.0], np.float32))
    assert -0.1 <= float(found[0]) < -0.0999999 and 2.2999 < float(found[1]) <= 2.3
    again, n_below, n_above = bounds.applied(found)
    assert (n_below, n_above) == (0, 0) and np.array_equal(again, found)


def test_bounds_are_two_numbers_or_a_file(tmp_path):
    assert Bounds.named("-4.5,6") == Bounds(-4.5, 6.0)
    record = {"format": "dcaplda-validation", "bounds": {"lower_llr": -3.0, "upper_llr": 5.5}}
    path = tmp_path / "a,b.json"
    path.write_text(json.dumps(record | {"model": None}))
    assert Bounds.named(str(path)) == Bounds(-3.0, 5.5, str(path))
    path.write_text(json.dumps(record | {"model": {"fingerprint": "abc"}}))
    found = Bounds.named(str(path))
    found.check_model("abc")
    with pytest.raises(DcapldaError, match="was made of another model"):
        found.check_model("xyz")
    Bounds(-1.0, 1.0).check_model("any")


@pytest.mark.parametrize("ends", [(1.0, 2.0), (-2.0, -1.0), (-np.inf, 1.0), (np.nan, 1.0)])
def test_bounds_that_leave_out_no_evidence_are_refused(ends):
    with pytest.raises(DcapldaError, match="expected one at most 0 and one at least 0"):
        Bounds(*ends)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "neither LOW,HIGH nor a file"),
        ("{", "not the JSON file of a validation"),
        ("[]", "not the JSON file of a validation"),
        ('{"format": "other"}', "not the JSON file of a validation"),
        ('{"format": "dcaplda-validation", "model": null, "bounds": {}}', "not the JSON file"),
    ],
)
def test_files_that_are_no_validation_are_refused(tmp_path, content, words):
    path = tmp_path / "v.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DcapldaError, match=words):
        Bounds.named(str(path))
