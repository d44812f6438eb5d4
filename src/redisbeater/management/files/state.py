"""The state of entries in a backup: what their hashes hold besides the definition, and their scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.meta import FINISHED, NEW, Meta, Score
from redisbeater.store import Snapshot

__all__ = ("restored_meta", "restored_score", "state_of")


def state_of(snapshot: Snapshot, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an entry that was read, with the fields of its definition that no file has."""
    texts = {
        "recorded_run": snapshot.recorded_run,
        "score": snapshot.score.to_text() if snapshot.score else "",
        "skipped": snapshot.skipped,
        "origin": snapshot.origin,
    }
    meta = json_text.from_text(snapshot.meta, "meta") if snapshot.meta else {}
    state = {"meta": meta, **texts, "extra": dict(extra)}
    return {name: value for name, value in state.items() if value}


def restored_meta(state: Mapping[str, Any]) -> Meta:
    """Return the meta of a backup.

    Raises:
        InvalidEntry: it cannot be read.
    """
    if not state.get("meta"):
        return NEW
    return Meta.from_text(json.dumps(state["meta"]), str(state.get("recorded_run", "")))


def restored_score(state: Mapping[str, Any]) -> Score:
    """Return the score of a backup; one in the past is a fire time that beat treats as missed.

    Raises:
        InvalidEntry: it cannot be read.
    """
    text = state.get("score")
    try:
        return Score.from_text(str(text)) if text else FINISHED
    except (ValueError, OverflowError) as exc:
        raise InvalidEntry("state.score", f"expected UNIX seconds, got {quoted(text)}") from exc
