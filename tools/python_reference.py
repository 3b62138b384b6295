"""The pages of all public names, from their docstrings: docs/reference/python.md, and a page a topic beside it.

python tools/python_reference.py
"""

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pursuit

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "python.md"
ABOUT = """\
# Python

All public names, from their docstrings. They are imported from `pursuit` itself: `from pursuit import VIPClassifier`.
Estimators follow scikit-learn: settings are arguments of the class, `fit` learns, and what was learnt ends in `_`. What
is not on these pages (`pursuit.report`, `pursuit.research`, `pursuit.methods` …) is in the how-to that needs it, and in
[Design](../design.md). Written by `python tools/python_reference.py`.
"""
SECTION = re.compile(r"^([A-Z][a-z]+)\n-{3,}\n", flags=re.M)
ENTRY = re.compile(r"^(\S[^:\n]*?)(?: : (.*))?\n((?:(?: +.*)?(?:\n|$))*)", flags=re.M)
TOPICS = {
    "Estimators": "VIPClassifier VIPRegressor PursuitClassifier PursuitRegressor PursuitEstimator load export Exported",
    "Other methods": "AllAnswersClassifier FixedOrderClassifier RandomOrderClassifier TreeClassifier TreeSettings "
    "NaiveBayesIPClassifier NaiveBayesSettings GDFSClassifier GDFSSettings DIMEClassifier DIMESettings RAMClassifier "
    "RAMSettings REFUELClassifier REFUELSettings SEFAClassifier SEFASettings PartialVAEClassifier PartialVAESettings "
    "GIPClassifier GIPSettings Langevin ConvLayers",
    "Asking": "Session Chain Chains DoubtfulAnswer",
    "Stopping rules": "Budget Confidence NothingWorthAsking CostBudget IntervalWidth Stability RiskControlled "
    "ConformalSet AnyOf StoppingRule Standing",
    "Questions": "ColumnQueries Choice Number Date yes_no Questions PatchQueries WordQueries ConceptQueries Query "
    "QuerySet",
    "Measuring": "evaluate Evaluation RegressionEvaluation",
    "Networks": "MLP SetNetwork Conv PaperConv Residual DLA DenseNet NetworkSettings",
    "Training": "Stage TrainingRun CarriedHistories RandomHistories RolledOutHistories AnswerSettings Unreliable Tuned",
    "Inside": "VIP InformationVIP ModelSpec History Pursuer Rows TargetBins",
    "Models of other methods": "AllAnswers FixedOrder RandomOrder DecisionTree NaiveBayesIP GDFS DIME RAM REFUEL SEFA "
    "PartialVAE GIP",
    "Extending": "register method Method METHODS method_of",
}
BASES = ("PursuitClassifier", "PursuitRegressor", "PursuitEstimator", "StoppingRule", "QuerySet", "NetworkSettings")
"""What these define is described with them, and not again with every class that derives from them. Fields are: they are
arguments."""
ONLY_ARGUMENTS = (
    *("VIPClassifier", "VIPRegressor"),
    *f"{TOPICS['Other methods']} {TOPICS['Models of other methods']}".split(),
)
"""What these define themselves is for the training loop."""


def pages() -> dict[Path, str]:
    """All pages, by the path of their files."""
    return {PAGE: page(), **{path_of(topic): _page_of(topic) for topic in TOPICS}}


def path_of(topic: str) -> Path:
    return PAGE.with_name(f"python-{topic.lower().replace(' ', '-')}.md")


def page() -> str:
    """The page that says where each name is."""
    listed = [name for names in TOPICS.values() for name in names.split()]
    public = [name for name in pursuit.__all__ if name != "__version__"]
    if sorted(listed) != sorted(public):
        missing, gone = set(public) - set(listed), set(listed) - set(public)
        raise ValueError(f"TOPICS lacks {sorted(missing)} and has {sorted(gone)}, which are not public.")
    parts = [ABOUT]
    for topic, names in TOPICS.items():
        links = ", ".join(map(_link, names.split()))
        parts.append(f"**[{topic}]({path_of(topic).name})**: {links}\n")
    return "\n".join(parts)


def _page_of(topic: str) -> str:
    described = [_described(name) for name in TOPICS[topic].split()]
    return "\n".join(
        [f"# Python: {topic}\n", "From [Python](python.md): all of it is imported from `pursuit`.\n", *described]
    )


def _link(name: str) -> str:
    topic, names = next((topic, names.split()) for topic, names in TOPICS.items() if name in names.split())
    is_only = sum(other.lower() == name.lower() for other in names) == 1  # method and Method have one anchor
    return f"[{name}]({path_of(topic).name}{f'#{name.lower()}' if is_only else ''})"


def _described(name: str) -> str:
    found = getattr(pursuit, name)
    if inspect.isclass(found):
        return "\n".join([f"## {name}\n", *_class(found)])
    if callable(found):
        return "\n".join([f"## {name}\n", _code(f"{name}{_arguments(found)}"), _docs(found)])
    return f"## {name}\n\nAll of them, by name: `{'`, `'.join(found)}`.\n"


def _class(cls: type) -> Iterator[str]:
    fields = _fields(cls)
    own = "__init__" in vars(cls) and not dataclasses.is_dataclass(cls)
    yield _code(f"class {cls.__name__}{_arguments(vars(cls)['__init__'], skip_self=True) if own else _bases(cls)}")
    yield _docs(cls, with_sections=not fields)
    if fields:
        described = {name: text for section in _sections(cls).values() for name, _, text in section}
        for name, kind, default, docs in fields:
            yield f"- **{name}**: `{kind}`{_default(default)}{_said(docs or described.get(name, ''))}"
        yield ""
    bases = [base.__name__ for base in cls.__mro__[1:] if base.__name__ in BASES]
    if bases:
        links, have = " and ".join(map(_link, bases)), "have" if len(bases) > 1 else "has"
        yield f"It also has everything that {links} {have}.\n"
    for name, member in _members(cls).items():
        yield f"**`{_signature(name, member)}`**{_said(inspect.getdoc(member) or '')}\n"


def _bases(cls: type) -> str:
    names = [base.__name__ for base in cls.__bases__ if base.__name__ in pursuit.__all__]
    return f"({', '.join(names)})" if names else ""


def _members(cls: type) -> dict[str, Any]:
    """Methods and properties for users that are not described with a base."""
    own = [owner for owner in cls.__mro__ if owner.__module__.startswith("pursuit")]
    bases = {name for owner in own[1:] if owner.__name__ in BASES for name in vars(owner)}
    found: dict[str, Any] = {}
    for name, member in (
        [] if cls.__name__ in ONLY_ARGUMENTS else [item for owner in own for item in vars(owner).items()]
    ):
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        is_shown = inspect.isfunction(plain) or isinstance(plain, property | functools.cached_property)
        if is_shown and not name.startswith("_") and name not in bases and inspect.getdoc(plain):
            found.setdefault(name, member)
    return found


def _signature(name: str, member: Any) -> str:
    if isinstance(member, property | functools.cached_property):
        return name
    is_static = isinstance(member, staticmethod)
    plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    return f"{name}{_arguments(plain, skip_self=not is_static)}"


def _arguments(function: Any, skip_self: bool = False) -> str:
    node = _parsed(function)
    assert isinstance(node, ast.FunctionDef)
    if skip_self:
        node.args.args = node.args.args[1:]
    returned = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"({ast.unparse(node.args)}){returned}".replace('"', "")


def _fields(cls: type) -> list[tuple[str, str, str | None, str]]:
    """Name, type, default and docstring of each argument of a dataclass."""
    if not dataclasses.is_dataclass(cls):
        return []
    written: dict[str, tuple[str, str | None, str]] = {}
    for owner in reversed([owner for owner in cls.__mro__ if owner.__module__.startswith("pursuit")]):
        node = _parsed(owner)
        assert isinstance(node, ast.ClassDef)
        for line, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                docs = after.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
                default = ast.unparse(line.value) if line.value else None
                said = inspect.cleandoc(str(docs.value)) if docs else written.get(line.target.id, ("", None, ""))[2]
                written[line.target.id] = ast.unparse(line.annotation).strip("'"), default, said
    shown = [field.name for field in dataclasses.fields(cls) if field.init and not field.name.startswith("_")]
    return [(name, *written[name]) for name in shown]


def _parsed(thing: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _docs(thing: Any, with_sections: bool = True) -> str:
    """The docstring; its sections, such as Parameters, as lists."""
    text = inspect.cleandoc(thing.__doc__ or "")
    if text.startswith(f"{thing.__name__}("):  # which a dataclass without a docstring is given
        return ""
    lines = [SECTION.split(text)[0].strip(), ""]
    for title, entries in _sections(thing).items() if with_sections else ():
        lines += [f"{title}:", "", *(f"- **{name}**: `{kind}`{_said(said)}" for name, kind, said in entries), ""]
    return "\n".join(lines)


def _sections(thing: Any) -> dict[str, list[tuple[str, str, str]]]:
    """Name, type and text of each entry of the sections of a docstring, which are underlined."""
    parts = SECTION.split(inspect.cleandoc(thing.__doc__ or ""))[1:]
    found = {}
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        entries = ENTRY.findall(body)
        found[title] = [(name, kind or name, " ".join(said.split())) for name, kind, said in entries]
    return found


def _said(docs: str) -> str:
    return f": {' '.join(docs.split())}" if docs else ""


def _default(default: str | None) -> str:
    return f" = `{default}`" if default is not None else ""


def _code(line: str) -> str:
    return f"```text\n{line}\n```\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    print(f"Written: {PAGE}, and a page a topic beside it")
