"""Settings of the server that are options of `pursuit serve`; importing them takes no time."""

from dataclasses import dataclass
from typing import Annotated

from pursuit.registry import Also, Option, Stop


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """Options of a server: access, limits and retention."""

    database: Annotated[
        str | None,
        Option(
            "Where sessions are kept: sqlite:///FILE or postgresql://USER@HOST/NAME; by default PURSUIT_DATABASE, or a "
            "file for these models in your user data folder.",
            metavar="URL",
        ),
    ] = None
    stop: Stop = None
    also: Also = None
    origins: Annotated[
        list[str] | None,
        Option(
            "A site whose pages may use the API: https://example.org; repeatable.", "--allow-origin", metavar="ORIGIN"
        ),
    ] = None
    embed: Annotated[
        list[str] | None,
        Option(
            "A site whose pages may show the interview in a frame: https://example.org; repeatable. One line puts it "
            "there: <script src=SERVER/embed.js></script>.",
            metavar="ORIGIN",
        ),
    ] = None
    webhook: Annotated[
        str | None,
        Option(
            "An address that is told the end of every interview, signed with the secret in PURSUIT_WEBHOOK_SECRET.",
            metavar="URL",
        ),
    ] = None
    hosts: Annotated[
        list[str] | None,
        Option("A name that the server goes by, besides localhost; repeatable.", "--allow-host", metavar="NAME"),
    ] = None
    lists_sessions: Annotated[
        bool,
        Option(
            "Whether a browser lists the sessions that it began; not where several people use the same one.",
            "--list/--no-list",
        ),
    ] = True
    keep_days: Annotated[
        float | None,
        Option("Delete sessions this many days after their last change; by default never.", min=0.01, max=36_500),
    ] = None
    most_sessions: Annotated[int, Option("How many sessions are kept at most.", min=1)] = 1_000_000
    rate: Annotated[
        float, Option("How many requests a second one address may make, over time; 0: any number.", min=0)
    ] = 200
    new_sessions: Annotated[
        float, Option("How many sessions a minute one address may begin; 0: any number.", min=0)
    ] = 600
    proxy: Annotated[
        str | None,
        Option(
            "The address of a proxy in front of the server, often 127.0.0.1: it is believed where requests come from "
            "(X-Forwarded-For).",
            "--behind-proxy",
            metavar="ADDRESS",
        ),
    ] = None
    logs_requests: Annotated[
        bool, Option("Write a line for every request; never answers, searched words or whole ids.", "--log/--no-log")
    ] = False
    fhir: Annotated[bool, Option("Answer $next-question of HL7 FHIR, too, at /fhir.", "--fhir")] = False
    words: Annotated[
        bool, Option("Propose answers to what people say in their own words, too; needs the extra words.", "--words")
    ] = False
