"""Input made from what is declared: settings from the types of their fields, requests from the description of the API,
commands from their options. Every field, every type, and their extremes."""

import dataclasses
import hashlib
import io
import json
import logging
import os
import random
import signal
import types
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pursuit.methods  # noqa: F401  makes all that can be named known
from fuzz import models
from fuzz.judging import Wrong
from fuzz.models import Saved
from fuzz.mutations import NUMBERS, TEXTS, VALUES
from fuzz.served import Finding, judge, small_models
from fuzz.tables import LABEL, check_predictions, good_table
from fuzz.workers import Files, Target
from pursuit.estimators.saving import DESCRIPTION, WEIGHTS
from pursuit.inference.stopping import StoppingRule
from pursuit.methods import METHODS
from pursuit.registry import _known, find_class, from_config
from pursuit.training import Stage

WHOLE = (0, 1, 2, 3, 5, 8, 17, 100, -1, -3, 10**4, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30, -(2**63))
REAL = (
    0.0,
    0.5,
    1.0,
    0.05,
    0.999,
    2.0,
    10.0,
    -1.0,
    1e-9,
    1e-320,
    1e9,
    1e38,
    1e39,
    1e308,
    3,
    float("nan"),
    float("inf"),
)
SECONDS_TO_LEARN = 2.0
"""Settings may make learning as long as they like: after this it is enough that it had begun."""
MOST_DEPTH = 4


class Generator:
    """Values of declared types; `wrong` is how often something else comes in their place."""

    def __init__(self, rng: random.Random, wrong: float = 0.1):
        self.rng, self.wrong = rng, wrong

    def of_type(self, hint: Any, depth: int = 0) -> Any:
        """A JSON value of a type: objects of registered classes by their fields, and "type"."""
        rng = self.rng
        if rng.random() < self.wrong or depth > MOST_DEPTH:
            return rng.choice(VALUES)
        origin, parts = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.of_type(parts[0], depth)
        if origin in (Union, types.UnionType):
            return self.of_type(rng.choice(parts), depth)
        if origin is Literal:
            return rng.choice(parts)
        if hint is None or hint is type(None):
            return None
        if hint is bool:
            return rng.random() < 0.5
        if hint is int:
            return rng.choice(WHOLE) if rng.random() < 0.8 else rng.randrange(-5, 200)
        if hint is float:
            return rng.choice(REAL) if rng.random() < 0.8 else rng.uniform(-1, 3)
        if hint is str:
            return rng.choice(TEXTS)
        if origin is tuple and parts[1:] != (...,):
            return [self.of_type(part, depth + 1) for part in parts]
        if isinstance(origin, type) and issubclass(origin, Mapping):
            keys, values = parts or (str, Any)
            return {
                str(self.of_type(keys, depth + 1)): self.of_type(values, depth + 1) for _ in range(rng.randrange(3))
            }
        if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
            return [self.of_type(parts[0] if parts else Any, depth + 1) for _ in range(rng.choice((0, 1, 1, 2, 3, 40)))]
        if isinstance(hint, type) and (fitting := _subclasses(hint)):
            return self.of_class(rng.choice(fitting), depth + 1)
        return rng.choice(VALUES)

    def of_class(self, name: str, depth: int = 0, least: float = 0.5) -> dict[str, Any]:
        """The settings of a registered class: each field with at least this chance."""
        chance = self.rng.choice((least, 0.9, 1.0))
        found = {
            field: self.of_type(hint, depth) for field, hint in _fields(name).items() if self.rng.random() < chance
        }
        return {"type": name, **found}

    def of_schema(self, schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Any:
        """A value of a JSON schema, or of another one."""
        rng = self.rng
        if rng.random() < self.wrong or depth > 2 * MOST_DEPTH:
            return rng.choice(VALUES)
        if "$ref" in schema:
            found = root
            for key in schema["$ref"].removeprefix("#/").split("/"):
                found = found[key]
            return self.of_schema(found, root, depth + 1)
        if several := schema.get("anyOf") or schema.get("oneOf"):
            return self.of_schema(rng.choice(several), root, depth + 1)
        if "enum" in schema or "const" in schema:
            return rng.choice(schema.get("enum", [schema.get("const")]))
        match schema.get("type"):
            case "object":
                known, needed = schema.get("properties", {}), set(schema.get("required", ()))
                chosen = {k: v for k, v in known.items() if rng.random() < (0.97 if k in needed else 0.5)}
                made = {key: self.of_schema(value, root, depth + 1) for key, value in chosen.items()}
                if isinstance(more := schema.get("additionalProperties"), dict):
                    made |= {rng.choice(TEXTS): self.of_schema(more, root, depth + 1) for _ in range(rng.randrange(3))}
                return made
            case "array":
                n = rng.choice((0, 1, 1, 2, 5, 60))
                return [self.of_schema(schema.get("items", {}), root, depth + 1) for _ in range(n)]
            case "integer":
                return rng.choice(WHOLE)
            case "number":
                return rng.choice(REAL)
            case "boolean":
                return rng.random() < 0.5
            case "string":
                return rng.choice(TEXTS)
            case "null":
                return None
        return rng.choice(VALUES)


@cache
def _subclasses(cls: type) -> list[str]:
    """The names of the registered classes that are of a type, sorted."""
    found = [(name, value) for known in _known.values() for name, value in known.items() if isinstance(value, type)]
    try:
        return sorted(name for name, value in found if issubclass(value, cls) and dataclasses.is_dataclass(value))
    except TypeError:  # a protocol of attributes
        return []


@cache
def _fields(name: str) -> dict[str, Any]:
    """The declared types of what a class is made from."""
    cls = find_class(name)
    try:
        hints = get_type_hints(cls, include_extras=True)
    except NameError:
        hints = {}
    return {field.name: hints.get(field.name, Any) for field in dataclasses.fields(cls) if field.init}


# ----------------------------------------------------------------------------------------------------------------------
# Model folders, in which whole objects are made anew


def _make_description(rng: random.Random, good: list[Saved]) -> Files:
    number = rng.randrange(len(good))
    description, weights = json.loads(json.dumps(good[number].description)), good[number].weights
    generator = Generator(rng, wrong=rng.choice((0.0, 0.05, 0.2)))
    objects = list(_objects(description))
    for _ in range(rng.choice((1, 1, 2))):
        inside, key = rng.choice(objects)
        made = generator.of_class(inside[key]["type"])
        keep = rng.random() < 0.7  # most fields as they were
        inside[key] = {**inside[key], **dict(rng.sample(sorted(made.items()), min(2, len(made))))} if keep else made
        objects = list(_objects(description))
        if not objects:
            break
    description["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    rest = {key: value for key, value in description.items() if key != "description_sha256"}
    description["description_sha256"] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    text = json.dumps(description).encode("utf-8", errors="surrogatepass")
    return {f"{number}/{DESCRIPTION}": text, f"{number}/{WEIGHTS}": weights}


def _objects(value: Any) -> Any:
    """Where in a description an object of a known dataclass stands."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        inner = value[key]
        if isinstance(inner, dict) and isinstance(inner.get("type"), str) and _is_class(inner["type"]):
            yield value, key
        yield from _objects(inner)


def _is_class(name: str) -> bool:
    try:
        return dataclasses.is_dataclass(find_class(name))
    except ValueError:
        return False


# ----------------------------------------------------------------------------------------------------------------------
# Settings of methods, as they are written in Python: of the right types, at their extremes


LEFT_OUT = {"query_set", "verbose", "device", "devices", "precision", "num_nodes"}


def _prepare_table(folder: Path) -> Any:
    return good_table(40)


def _make_settings(rng: random.Random, frame: Any) -> Files:
    name = rng.choice(sorted(METHODS))
    method, generator = METHODS[name], Generator(rng, wrong=0.0)
    declared = _fields(method.estimator.__name__) if _is_class(method.estimator.__name__) else {}
    names = sorted(set(declared) - LEFT_OUT)
    chosen = rng.sample(names, min(len(names), rng.choice((1, 1, 2, 3))))
    settings = {field: generator.of_type(declared[field]) for field in chosen}
    return {"settings.json": json.dumps({"method": name, "settings": settings}).encode("utf-8", errors="replace")}


class Enough(BaseException):
    """It has learnt for long enough to be taken for fine."""


def _read_settings(folder: Path, frame: Any) -> None:
    wanted = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    method = METHODS[wanted["method"]]
    try:
        values = {name: _as_declared(from_config(value)) for name, value in wanted["settings"].items()}
    except TypeError as error:  # of a class that cannot be made: files refuse it in a sentence of their own
        raise ValueError(f"It cannot be made: {error}") from None
    if method.accepts("stages"):
        values = {"network": models.SHORT["network"], "stages": [Stage(2, batch_size=16)], **values}
    if method.accepts("teachers"):
        values = {"teachers": None, **values}
    X = frame.drop(columns=[LABEL, "seen"])
    y = frame["weight"] if method.predicts_numbers else frame[LABEL]
    with _for_a_while(), _refusing_types():
        model = method.build(None, **{"random_state": 0, **values}).fit(X, y)
        if hasattr(model, "predict_proba"):
            check_predictions(model, X)


@contextmanager
def _for_a_while() -> Any:
    def stop(_: int, frame: types.FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename == "<frozen importlib._bootstrap>":  # half a module would fail later inputs
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_TO_LEARN)
                return
            frame = frame.f_back
        raise Enough

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_TO_LEARN)
    try:
        yield
    except Enough:
        pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _refusing_types() -> Any:
    """In Python, a setting of the wrong type may be refused by a TypeError, if it is a sentence."""
    try:
        yield
    except TypeError as error:
        if not str(error).endswith("."):
            raise
        raise ValueError(str(error)) from None


def _as_declared(value: Any) -> Any:
    return tuple(map(_as_declared, value)) if isinstance(value, list) else value


# ----------------------------------------------------------------------------------------------------------------------
# Stopping rules, as they are written on the command line


def _prepare_rules(folder: Path) -> Any:
    frame = good_table(60)
    X = frame.drop(columns=[LABEL, "seen"])
    return METHODS["naive-bayes"].build(None, random_state=0).fit(X, frame[LABEL]), X


def _make_rule(rng: random.Random, prepared: Any) -> Files:
    words = sorted({find_class(name).keyword_of() for name in _subclasses(StoppingRule)} | {"", "x", "=", ","})
    numbers = [str(one) for one in (*WHOLE, *REAL, *NUMBERS)]
    parts = []
    for _ in range(rng.choice((1, 1, 2, 3, 50))):
        value = rng.choice(numbers) if rng.random() < 0.9 else rng.choice(TEXTS)
        parts.append(rng.choice((f"{rng.choice(words)}={value}", rng.choice(words))))
    return {"rule": ",".join(parts).encode("utf-8", errors="replace")}


def _read_rule(folder: Path, prepared: Any) -> None:
    model, X = prepared
    rule = model.stopping_rule((folder / "rule").read_text(encoding="utf-8"))
    if str(model.stopping_rule(str(rule))) != str(rule):
        raise Wrong(f"{rule} is not read as it is written")
    str(model.explain(X[:3], rule))


# ----------------------------------------------------------------------------------------------------------------------
# Requests, from the description of the API, to an application in this process


@dataclasses.dataclass
class App:
    """An application, and the sessions that most requests are about."""

    client: Any
    described: dict[str, Any]
    sessions: list[str]

    def begin(self, n: int) -> str:
        model = {"model": "digits", "sample": n % 3} if n % 2 else {"model": "illness"}
        found: str = self.client.post("/api/sessions", json=model).json()["id"]
        return found


def _prepare_app(folder: Path) -> App:
    from fastapi.testclient import TestClient

    from pursuit.web.serving.app import make_app
    from pursuit.web.serving.auth import Rates
    from pursuit.web.serving.store import Store

    logging.disable(logging.CRITICAL)
    folder.mkdir(parents=True, exist_ok=True)
    app = make_app(small_models(folder), Store(f"sqlite:///{folder / 'sessions.sqlite'}"), rates=Rates(0, 0, 0))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    found = App(client, client.get("/api/openapi.json").json(), [])
    found.sessions = [found.begin(n) for n in range(8)]
    return found


def _make_request(rng: random.Random, app: App) -> Files:
    generator = Generator(rng, wrong=rng.choice((0.0, 0.02, 0.2)))
    path = rng.choice(sorted(app.described["paths"]))
    method = rng.choice(sorted(app.described["paths"][path]))
    operation = app.described["paths"][path][method]
    query = {
        one["name"]: str(generator.of_schema(one["schema"], app.described))
        for one in operation.get("parameters", ())
        if one["in"] == "query" and rng.random() < 0.5
    }
    content = operation.get("requestBody", {}).get("content", {})
    body = None
    if "application/json" in content:
        body = generator.of_schema(content["application/json"]["schema"], app.described)
        if isinstance(body, dict):
            if "model" in body and rng.random() < 0.9:
                body["model"] = rng.choice(("illness", "digits"))
            if "revision" in body and rng.random() < 0.9:
                body["revision"] = "now"
            if rng.random() < 0.5:
                body |= {key: rng.choice(KNOWN[key]) for key in KNOWN if key in body}
    n = rng.randrange(8) if rng.random() < 0.95 else -1
    sent = {
        "method": method,
        "path": path,
        "query": query,
        "body": body,
        "n": n,
        "model": rng.choice(("illness", "digits")),
    }
    return {"request.json": json.dumps(sent).encode("utf-8", errors="surrogatepass")}


KNOWN = {
    "query": ("temperature", "sneezing", "season", "since", 0),
    "answer": ("yes", "no", "winter", 37.5, 375, True, None, "2024-02-03", [0.0] * 4, [17.0] * 4),
    "label": ("cold", "flu", "3"),
}


def _read_request(folder: Path, app: App) -> None:
    sent = json.loads((folder / "request.json").read_bytes().decode("utf-8", errors="surrogatepass"))
    session = app.sessions[sent["n"]] if sent["n"] >= 0 else "none"
    path = sent["path"].replace("{session_id}", session).replace("{model_id}", sent["model"]).replace("{n}", "1")
    body = sent["body"]
    if isinstance(body, dict) and body.get("revision") == "now":
        body["revision"] = app.client.get(f"/api/sessions/{session}").json().get("revision", 0)
    content = json.dumps(body).encode("utf-8", errors="surrogatepass")
    headers = {"content-type": "application/json"}
    try:
        answer = app.client.request(sent["method"], path, params=sent["query"], content=content, headers=headers)
    except Exception as error:
        if type(error).__name__ in ("InvalidURL", "UnicodeEncodeError"):  # of the client: this cannot be sent at all
            return
        raise
    if sent["method"] == "delete" and answer.status_code == 204:
        app.sessions[sent["n"]] = app.begin(sent["n"])
    try:
        judge(answer.status_code, answer.headers, answer.content)
    except Finding as error:
        raise Wrong(str(error)) from None
    if answer.status_code == 500:
        raise Wrong(f"the server fails: {sent['method']} {path}")
    if answer.status_code >= 400:
        raise ValueError(answer.json()["message"])


# ----------------------------------------------------------------------------------------------------------------------
# Options of commands, in this process


COMMANDS = ("train", "predict", "explain", "evaluate", "questions", "show", "report", "export")
KEPT_FROM = {"engine", "plugin", "device", "devices", "help", "resume", "address"}
"""What starts other processes, or is no option."""


def _prepare_commands(folder: Path) -> dict[str, Any]:
    import typer.main

    from pursuit.cli.app import app, load_command

    folder.mkdir(parents=True, exist_ok=True)
    good_table(40).to_csv(folder / "table.csv", index=False)
    frame = good_table(60)
    METHODS["naive-bayes"].build(None, random_state=0).fit(frame.drop(columns=LABEL), frame[LABEL]).save(
        folder / "model"
    )
    group = typer.main.get_command(app)
    commands = {name: load_command(name) for name in COMMANDS}
    options = {
        name: sorted(
            (one.opts[0], _kind(one), bool(one.is_flag))
            for one in command.params
            if one.opts[-1].startswith("--") and one.name not in KEPT_FROM
        )
        for name, command in commands.items()
    }
    return {"folder": folder, "options": options, "group": group}


def _kind(option: Any) -> str:
    """Of a number, as far as typer says."""
    declared = getattr(option, "type_descriptor", None)
    return "integer" if getattr(declared, "annotation", None) is int else "other"


def _make_command(rng: random.Random, prepared: dict[str, Any]) -> Files:
    name = rng.choice(COMMANDS)
    given = []
    for option, kind, is_flag in rng.sample(
        prepared["options"][name], min(len(prepared["options"][name]), rng.choice((1, 1, 2, 3)))
    ):
        numbers = WHOLE if kind.startswith("integer") else REAL
        value = (
            str(rng.choice(numbers)) if rng.random() < 0.6 else rng.choice((*TEXTS[:20], "x", "a=b", "weight", "fever"))
        )
        given += [option] if is_flag else [option, value.replace("/", "-").replace("\0", "0")]
    return {"command.json": json.dumps([name, *given]).encode("utf-8", errors="surrogatepass")}


def _read_command(folder: Path, prepared: dict[str, Any]) -> None:
    from pursuit.cli.console import in_words

    name, *given = json.loads((folder / "command.json").read_bytes().decode("utf-8", errors="surrogatepass"))
    table, model = str(prepared["folder"] / "table.csv"), str(prepared["folder"] / "model")
    basic = {
        "train": [table, "--target", LABEL, "--method", "naive-bayes", "--out", str(folder / "out")],
        "predict": [model, "--data", table],
        "explain": [model, "--data", table],
        "evaluate": [model, "--data", table, "--target", LABEL],
        "questions": [table, "--target", LABEL],
        "show": [model],
        "report": [model, "--data", table, "--target", LABEL, "--out", str(folder / "report.html")],
        "export": [model, str(folder / "page.html")],
    }[name]
    said = io.StringIO()
    before = Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(said), redirect_stderr(said), _for_a_while():
            prepared["group"].main([name, *basic, *given])
    except SystemExit as error:
        if error.code:
            raise ValueError(f"The command ends with {error.code}: {said.getvalue()[-200:]}") from None
    except (OSError, ValueError, ModuleNotFoundError) as error:
        raise ValueError(in_words(error)) from None
    finally:
        os.chdir(before)


TARGETS = (
    Target(
        "descriptions",
        "model folders with parts regenerated from their declared fields",
        models._prepare_models,
        _make_description,
        models._read_model,
        weight=30,
    ),
    Target(
        "settings",
        "settings of all methods from their declared types, learnt with",
        _prepare_table,
        _make_settings,
        _read_settings,
        weight=10,
    ),
    Target(
        "rules",
        "stopping rules as they are written, predicted with",
        _prepare_rules,
        _make_rule,
        _read_rule,
        weight=500,
    ),
    Target(
        "requests",
        "requests made from the description of the API, in the same process",
        _prepare_app,
        _make_request,
        _read_request,
        weight=500,
    ),
    Target(
        "options",
        "every option of every command, with extremes of its type",
        _prepare_commands,
        _make_command,
        _read_command,
        weight=15,
    ),
)
