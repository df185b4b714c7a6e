"""Facts as the text of a file: what `envdoctor collect` writes and ``--facts`` reads."""

import json
import reprlib
from dataclasses import dataclass

from envdoctor import __version__
from envdoctor.model.codec import CodecError, from_json, to_json
from envdoctor.model.facts import Facts

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsFile:
    """The document: facts, and what wrote them."""

    schema: int
    envdoctor: str  # version
    facts: Facts


def dump_facts(facts: Facts) -> str:
    """Write facts as JSON; `load_facts` reads it back."""
    return json.dumps(to_json(FactsFile(schema=SCHEMA, envdoctor=__version__, facts=facts)), indent=1) + "\n"


def load_facts(text: str) -> Facts:
    """Read what `dump_facts` wrote, here or on another machine, by this or an older envdoctor.

    Raises:
        CodecError: *text* is something else; the message starts with the path to the fault.

    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise CodecError(f"not JSON: {exc}") from exc
    if not isinstance(document, dict) or "schema" not in document:
        raise CodecError("$.schema: missing: not what `envdoctor collect` writes")
    if document["schema"] != SCHEMA:
        named = document.get("envdoctor")
        writer = named[:20] if isinstance(named, str) else "of unknown version"
        found = reprlib.repr(document["schema"])
        raise CodecError(f"$.schema: {found}, written by envdoctor {writer}; this one reads {SCHEMA}")
    return from_json(FactsFile, document).facts
