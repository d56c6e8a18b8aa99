"""`help()` of what a policy is given and gives says what its fields are."""

import inspect
import pydoc
from dataclasses import fields

import numpy as np
import pytest

from headgate.control import AdmissionRequest, Candidates, Losses, Orders, PolicyContext, Report, System, View
from headgate.control.policies import Headgate
from headgate.field_docs import field_docs


@pytest.mark.parametrize(
    "kind", [AdmissionRequest, View, Candidates, PolicyContext, Losses, Orders, Report, System], ids=lambda kind: kind.__name__
)
def test_help_names_every_field_with_its_words(kind):
    said = pydoc.plain(pydoc.render_doc(kind))
    for name, words in field_docs(kind).items():
        assert (f"{name}: {words}" if words else name) in said
    names = getattr(kind, "_fields", None) or list(kind.__dataclass_fields__)
    assert list(field_docs(kind)) == list(names)


def test_words_are_found_in_the_classes_above_too():
    said = field_docs(Headgate)
    assert said["turnover"].startswith("the share of the places that a round may renew")
    assert said["rule"] == "what clients drop"
    assert set(said) == {each.name for each in fields(Headgate)}


def test_the_docstring_is_the_same_text_however_it_is_asked_for():
    assert inspect.getdoc(AdmissionRequest) == AdmissionRequest.__doc__
    assert AdmissionRequest.__doc__.startswith("What a policy wants in a round.")
    assert AdmissionRequest(np.zeros(1)).__doc__ == AdmissionRequest.__doc__
