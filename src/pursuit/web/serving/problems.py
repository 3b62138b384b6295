"""What may go wrong for a client: each has a sentence that says what, and what to do."""

from typing import Any


class Problem(Exception):
    """The client asked for what cannot be done. `parts` are sent beside the message, as `schemas.Problem` says."""

    status = 422

    def __init__(self, message: str, **parts: Any):
        super().__init__(message)
        self.body = {"message": message, **parts}


class Refused(Problem):
    """An answer or a move that cannot be used; perhaps with a `doubt` about a number that is hardly meant."""


class NotFound(Problem):
    """There is no such thing."""

    status = 404


class NotOperator(Problem):
    """Only the operator may do that."""

    status = 401


class NotYet(Problem):
    """It is being made."""

    status = 503


class Full(Problem):
    """The server keeps as many sessions as it may."""

    status = 507


class Outdated(Problem):
    """Somebody else moved meanwhile, and this is the `session` now; or it needs a model that is not served any more."""

    status = 409
