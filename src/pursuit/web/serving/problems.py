"""What may go wrong for a client: each has a sentence that says what, and what to do."""

from pursuit.queries.doubts import Doubt
from pursuit.web.serving import schemas


class Problem(Exception):
    """The client asked for what cannot be done."""

    status = 422

    def __init__(self, message: str):
        super().__init__(message)
        self.message = message

    def body(self) -> schemas.Problem:
        return schemas.Problem(message=self.message)


class Refused(Problem):
    """An answer or a move that cannot be used."""


class NotFound(Problem):
    """There is no such thing."""

    status = 404


class NotYet(Problem):
    """It is being made."""

    status = 503


class Full(Problem):
    """The server keeps as many sessions as it may."""

    status = 507


class Outdated(Problem):
    """The session needs a model that is not served any more."""

    status = 409


class Doubtful(Problem):
    """A number that is hardly meant."""

    def __init__(self, doubt: Doubt):
        super().__init__(str(doubt))
        self.doubt = doubt

    def body(self) -> schemas.Problem:
        return schemas.Problem(message=self.message, doubt=schemas.Doubt(**self.doubt.to_dict()))


class Moved(Problem):
    """Somebody else moved meanwhile."""

    status = 409

    def __init__(self, session: schemas.Session):
        super().__init__("This session went on in another window. Here is where it stands now.")
        self.session = session

    def body(self) -> schemas.Problem:
        return schemas.Problem(message=self.message, session=self.session)
