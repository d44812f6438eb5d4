"""Zone data of several versions: folders of TZif files for ``PYTHONTZPATH``, made from tables, on any machine."""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

#: The instants, in UTC, from which on a zone has an offset, in hours.
Offsets = Sequence[tuple[str, float]]

#: The zones of which two releases of the IANA's data differ in 2026 and 2027: as the older one has them, ...
OLD: Mapping[str, Offsets] = {
    "America/Vancouver": [("2025-11-02 09", -8), ("2026-03-08 10", -7), ("2026-11-01 09", -8), ("2027-03-14 10", -7)],
    "America/Edmonton": [("2025-11-02 08", -7), ("2026-03-08 09", -6), ("2026-11-01 08", -7), ("2027-03-14 09", -6)],
    "America/Winnipeg": [("2025-11-02 07", -6), ("2026-03-08 08", -5), ("2026-11-01 07", -6), ("2027-03-14 08", -5)],
    "America/Inuvik": [("2025-11-02 08", -7), ("2026-03-08 09", -6), ("2026-11-01 08", -7), ("2027-03-14 09", -6)],
    "Africa/Casablanca": [("2025-04-06 02", 1), ("2026-02-15 02", 0), ("2026-03-22 02", 1), ("2027-02-07 02", 0)],
    "Africa/El_Aaiun": [("2025-04-06 02", 1), ("2026-02-15 02", 0), ("2026-03-22 02", 1), ("2027-02-07 02", 0)],
    "America/Havana": [("2025-11-02 05", -5), ("2026-03-08 05", -4), ("2026-11-01 05", -5), ("2027-03-14 05", -4)],
    "Europe/Chisinau": [("2025-10-26 00", 2), ("2026-03-29 00", 3), ("2026-10-25 00", 2), ("2027-03-28 00", 3)],
}  # fmt: skip

#: ... and as the newer one has them.
NEW: Mapping[str, Offsets] = {
    "America/Vancouver": [("2025-11-02 09", -8), ("2026-03-08 10", -7)],
    "America/Edmonton": [("2025-11-02 08", -7), ("2026-03-08 09", -6)],
    "America/Winnipeg": [("2025-11-02 07", -6), ("2026-03-08 08", -5)],
    "America/Inuvik": [("2025-11-02 08", -7), ("2026-03-08 09", -6)],
    "Africa/Casablanca": [("2025-04-06 02", 1), ("2026-02-15 02", 0), ("2026-03-22 02", 1), ("2026-09-20 01", 0)],
    "Africa/El_Aaiun": [("2025-04-06 02", 1), ("2026-02-15 02", 0), ("2026-03-22 02", 1), ("2026-09-20 01", 0)],
    "America/Havana": [("2025-11-02 05", -5), ("2026-03-08 05", -4), ("2027-11-07 05", -5)],
    "Europe/Chisinau": [("2025-10-26 01", 2), ("2026-03-29 01", 3), ("2026-10-25 01", 2), ("2027-03-28 01", 3)],
}  # fmt: skip

#: A zone that has one offset in the older data and another in the newer, at all times: for tests that run by the clock.
VANCOUVER = "America/Vancouver"
WEST: Mapping[str, Offsets] = {VANCOUVER: [("2020-01-01 00", -8)]}
EAST: Mapping[str, Offsets] = {VANCOUVER: [("2020-01-01 00", -7)]}


def write_zones(folder: Path, zones: Mapping[str, Offsets]) -> Path:
    """Write a TZif file for each zone, and return the folder; zones without a file are those of the package tzdata."""
    for name, offsets in zones.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_tzif(offsets))
    return folder


def _tzif(offsets: Offsets) -> bytes:
    kinds = sorted({hours for _, hours in offsets})
    shifts = [(datetime.fromisoformat(f"{at}:00").replace(tzinfo=timezone.utc), hours) for at, hours in offsets]
    first = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4) + struct.pack(">lBB", 0, 0, 0) + b"LMT\0"
    second = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, len(shifts), len(kinds), 4)
    times = b"".join(struct.pack(">q", int(at.timestamp())) for at, _ in shifts)
    indices = bytes(kinds.index(hours) for _, hours in shifts)
    infos = b"".join(struct.pack(">lBB", int(hours * 3600), 0, 0) for hours in kinds)
    return first + second + times + indices + infos + b"LMT\0" + b"\n\n"


@contextmanager
def zone_data(folder: Path) -> Iterator[None]:
    """Let this process be a host with the zone data of a folder until the block ends."""
    # These zones alone: zones are equal only if they are the same object, and other tests hold some.
    zones = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    zoneinfo.reset_tzpath(to=[str(folder)])
    zoneinfo.ZoneInfo.clear_cache(only_keys=zones)
    try:
        yield
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache(only_keys=zones)
