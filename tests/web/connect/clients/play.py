"""Plays an interview with a client that is generated from the description of the API, and prints the result."""

import json
import sys

from client import Client
from client.api.models import list_models
from client.api.sessions import begin_session, make_move
from client.models import Move, MoveMove, NewSession, Problem, Session

address, answers = sys.argv[1], json.loads(sys.argv[2])
with Client(base_url=address) as client:
    assert "illness" in [model.id for model in list_models.sync(client=client).models]
    session = begin_session.sync(client=client, body=NewSession(model="illness"))
    assert isinstance(session, Session)
    wrong = Move(move=MoveMove.TELL, revision=session.revision, query="season", answer="purple")
    refused = make_move.sync(session.id, client=client, body=wrong)
    assert isinstance(refused, Problem)
    assert "purple" in refused.message
    while session.state.question is not None:
        answer = answers[session.state.question.name]
        move = Move(move=MoveMove.TELL, revision=session.revision, answer=answer)
        session = make_move.sync(session.id, client=client, body=move)
        assert isinstance(session, Session), session
    print(json.dumps(session.state.result.to_dict()))
