"""Fuzz the API: schemathesis makes requests from its OpenAPI description, right and wrong ones, and every answer is
judged.

python fuzz/api.py                                   # 50 requests of each kind for every operation, a minute
python fuzz/api.py --examples 1000 --seed 7          # many more
python fuzz/api.py --operation "POST /api/sessions"  # one operation alone
python fuzz/api.py --examples 300 --record           # written down as docs/results/api-fuzzing.md

An answer is a finding if it is an error of the server, if the description does not say that it may come, if a wrong
request is accepted, if it tells of the inside of the machine, lacks a header, or holds what is not a number.
"""

import argparse
import json
import logging
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, strategies
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pursuit.web.serving.app import make_app
from pursuit.web.serving.auth import Rates
from pursuit.web.serving.models import ServedModels
from pursuit.web.serving.running import OPTIONS, bound
from pursuit.web.serving.store import Store

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT))  # as a program, it is not part of a package
from fuzz.served import Finding, judge, small_models  # noqa: E402

EXAMPLES, SEED, SECONDS = 50, 0, 30.0
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
SECONDS_TO_START = 300
TOO_LARGE = 413
"""A refusal as good as others, which schemathesis does not know as one."""
N_SESSIONS = 20
"""How many there are at first; those that are deleted are begun again."""
MOST_SHOWN = 20


@contextmanager
def served(models: ServedModels, folder: Path) -> Iterator[str]:
    """The address of a server without limits of rates."""
    app = make_app(models, Store(f"sqlite:///{folder / 'sessions.sqlite'}"), rates=Rates(0, 0, 0))
    listening = bound("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, **{**OPTIONS, "log_level": "critical"}))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class Fuzzer:
    """Sends requests and counts what comes of them."""

    def __init__(self, address: str):
        self.address, self.client = address, requests.Session()
        self.client.trust_env = False
        described = self.client.get(f"{address}/api/openapi.json", timeout=SECONDS_TO_START).json()
        self.schema = schemathesis.openapi.from_dict(described)
        self.outcomes: Counter[str] = Counter()
        self.findings: dict[str, str] = {}
        self.slowest = 0.0
        self._sessions = [self._begin(n) for n in range(N_SESSIONS)]

    def operations(self) -> list[Any]:
        return [found.ok() for found in self.schema.get_all_operations()]

    def run(self, operation: Any, mode: GenerationMode, n_examples: int, seed: int) -> None:
        """Try so many requests of one kind."""
        try:
            cases = operation.as_strategy(generation_mode=mode)
        except Exception:  # of what takes no input nothing can be wrong
            return
        answers = strategies.sampled_from(["yes", "no", "winter", 37.5, 375, True, None, "2024-02-03", [0.0] * 4])

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=n_examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(case=cases, n=strategies.integers(0, 10**6), answer=answers)
        def try_one(case: Any, n: int, answer: Any) -> None:
            self._aim(case, n, answer, is_right=mode is GenerationMode.POSITIVE)
            self.outcomes[self._try(case, mode)] += 1

        try:
            try_one()
        except hypothesis.errors.Unsatisfiable:
            return

    def _aim(self, case: Any, n: int, answer: Any, is_right: bool) -> None:
        """Let most requests be about something that exists: nobody guesses an id."""
        places = case.path_parameters
        if "session_id" in places and n % 8:
            place = n % N_SESSIONS
            if self.client.get(f"{self.address}/api/sessions/{self._sessions[place]}").status_code == 404:
                self._sessions[place] = self._begin(place)
            places["session_id"] = self._sessions[place]
        if "model_id" in places and n % 8:
            places["model_id"] = ("illness", "digits")[n % 2]
        if is_right and isinstance(case.body, dict):
            if "model" in case.body and n % 8:
                case.body["model"] = ("illness", "digits")[n % 2]
            if "revision" in case.body and n % 8:
                found = self.client.get(f"{self.address}/api/sessions/{places['session_id']}").json()
                case.body["revision"] = found.get("revision", 0)
                if n % 3:
                    case.body["answer"] = answer

    def _begin(self, n: int) -> str:
        body = {"model": ("illness", "digits")[n % 2], **({"sample": n % 3} if n % 2 else {})}
        found: str = self.client.post(f"{self.address}/api/sessions", json=body).json()["id"]
        return found

    def _try(self, case: Any, mode: GenerationMode) -> str:
        name = f"{case.method} {case.path}"
        began = time.perf_counter()
        try:
            response = case.call(base_url=self.address, session=self.client, timeout=SECONDS)
            self.slowest = max(self.slowest, time.perf_counter() - began)
            is_settled = mode is GenerationMode.POSITIVE or response.status_code == TOO_LARGE
            checks = CHECKS[:-1] if is_settled else CHECKS
            case.validate_response(response, checks=checks)
            judge(response.status_code, response.headers, response.content)
        except (Failure, FailureGroup, Finding, requests.RequestException) as error:
            reasons = getattr(error, "exceptions", [error])
            for one in reasons:
                kind = f"{name}: {type(one).__name__}: {str(one).splitlines()[0] if str(one) else ''}"[:300]
                self.findings.setdefault(kind, f"{case.as_curl_command()[:2000]}\n{one}"[:4000])
            return "finding"
        return f"{response.status_code // 100}xx"


def main(n_examples: int = EXAMPLES, seed: int = SEED, only: str | None = None) -> dict[str, Any]:
    """Try so many right and so many wrong requests of every operation, and count."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name, served(small_models(Path(name)), Path(name)) as address:
        fuzzer = Fuzzer(address)
        for operation in fuzzer.operations():
            if only is None or operation.label == only:
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    fuzzer.run(operation, mode, n_examples, seed)
    return {
        "seed": seed,
        "examples": n_examples,
        "operations": len(fuzzer.operations()),
        "requests": sum(fuzzer.outcomes.values()),
        "outcomes": dict(sorted(fuzzer.outcomes.items())),
        "slowest_seconds": fuzzer.slowest,
        "seconds": time.perf_counter() - began,
        "findings": fuzzer.findings,
    }


def page(measured: dict[str, Any]) -> str:
    outcomes = measured["outcomes"]
    said = "There was no finding." if not measured["findings"] else f"{len(measured['findings'])} kinds of findings."
    return (
        "# Requests that nobody means well\n\n"
        f"[schemathesis](https://schemathesis.readthedocs.io) made {measured['requests']:,} requests from the OpenAPI "
        f"description of the server, up to {measured['examples']} right and as many wrong ones for each of the "
        f"{measured['operations']} operations, most of them about models and sessions that exist. {said}\n\n"
        "| answered | requests |\n| --- | --- |\n"
        + "".join(f"| {kind} | {n:,} |\n" for kind, n in outcomes.items())
        + "\nAn answer is a finding if it is an error of the server, if the description does not say that it may "
        "come, if a wrong request is accepted, if it tells of the inside of the machine (paths, traces, libraries), "
        "lacks one of the security headers, or holds what is not a number. The slowest took "
        f"{measured['slowest_seconds']:.2f} s.\n\nSeed {measured['seed']}. Written by "
        f"`python fuzz/api.py --examples {measured['examples']} --record`.\n\n"
        + "\n".join(f"- {key}: {value}" for key, value in measured["where"].items())
        + "\n"
    )


def _record(found: dict[str, Any]) -> None:
    from benchmarks.report import RESULTS, where

    from fuzz.page import save

    save({**found, "where": where()}, page, "api-fuzzing", RESULTS)


def _command() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="right and wrong requests of each operation")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--operation", help="only this one, such as 'GET /api/models'")
    parser.add_argument("--record", action="store_true", help="write the counts into docs/results")
    parser.add_argument("--out", type=Path, help="where to write the counts as JSON")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what the server refuses is counted, and need not be read
    try:
        found = main(given.examples, given.seed, given.operation)
    except Exception:
        traceback.print_exc()
        return 2
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if given.record:
        _record(found)
    findings = found.pop("findings")
    print(json.dumps(found))
    for kind, example in list(findings.items())[:MOST_SHOWN]:
        print(f"\n--- {kind}\n{example}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(_command())
