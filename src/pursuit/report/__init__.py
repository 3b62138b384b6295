"""Reports for people: pages that explain predictions, and pages that show a model before it is used."""

from pursuit.report.chains import ChainsReport, ExplainedRow
from pursuit.report.facts import ModelFacts
from pursuit.report.model import ModelReport

__all__ = ["ChainsReport", "ExplainedRow", "ModelFacts", "ModelReport"]
