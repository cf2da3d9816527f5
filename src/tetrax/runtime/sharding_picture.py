"""A table in plain text of which device holds which part of an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tetrax.runtime.devices import Device
from tetrax.runtime.shardings import Sharding, shard_layout

# Of a picture of the whole array: its height in lines, and how much wider than high a line is.
_LINES = 10
_LINE_RATIO = 2.5
_PALETTE = (
    *((57, 59, 121), (82, 84, 163), (99, 121, 57), (140, 162, 82), (140, 109, 49), (189, 158, 57)),
    *(
        (132, 60, 57),
        (173, 73, 74),
        (123, 65, 115),
        (165, 81, 148),
        (49, 130, 189),
        (116, 196, 118),
    ),
)
ColorMap = Callable[[float], Sequence[float]]


def picture_of_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    use_color: bool = False,
    color_map: ColorMap | None = None,
) -> str:
    """The parts of an array of one or two dimensions, each with the devices that hold it.

    `color_map` takes a number from 0 to 1 to red, green and blue. Raises ValueError for other
    numbers of dimensions, and for shapes that the sharding does not fit.
    """
    shape = tuple(shape)
    if len(shape) not in (1, 2):
        raise ValueError(
            f"`visualize_sharding` only works for shapes with 1 and 2 dimensions, got {shape}"
        )
    shard_layout(sharding, shape)
    tiling = sharding.tiling(len(shape))
    rows, columns = (1, *tiling.counts)[-2:]
    holders: dict[tuple[int, ...], list[Device]] = {}
    for device, position in zip(sharding.device_tuple, tiling.positions, strict=True):
        holders.setdefault((0, *position)[-2:], []).append(device)
    labels = {place: _label(devices) for place, devices in holders.items()}
    # The borders left and right belong to the width that the caller limits.
    width, height = min_width - 2, 1
    if len(shape) == 2:
        ratio = shape[1] / shape[0] if shape[0] else 1.0
        wanted = _LINES * scale * ratio * _LINE_RATIO / columns
        width = max(width, int(min(wanted, max_width / columns)) - 2)
        height = max(1, int(_LINES * scale / rows) - 1)
    width = max(width, *map(len, labels.values()))
    paint = _painter(holders, color_map) if use_color else _plain
    return _table(rows, columns, width, height, labels, paint)


def _label(devices: Sequence[Device]) -> str:
    return f"{devices[0].platform.upper()} {','.join(map(str, sorted(map(_id, devices))))}"


def _id(device: Device) -> int:
    return device.id


_Paint = Callable[[tuple[int, ...], str], str]


def _table(rows: int, columns: int, width: int, height: int, labels: dict, paint: _Paint) -> str:
    def border(left: str, middle: str, right: str) -> str:
        return left + middle.join(["─" * width] * columns) + right

    lines = [border("┌", "┬", "┐")]
    for row in range(rows):
        if row:
            lines.append(border("├", "┼", "┤"))
        for line in range(height):
            cells = []
            for column in range(columns):
                text = labels[row, column] if line == (height - 1) // 2 else ""
                left = (width - len(text)) // 2
                cell = " " * left + text + " " * (width - len(text) - left)
                cells.append(paint((row, column), cell))
            lines.append(f"│{'│'.join(cells)}│")
    lines.append(border("└", "┴", "┘"))
    return "\n".join(lines)


def _plain(place: tuple[int, ...], cell: str) -> str:
    return cell


def _painter(holders: dict[tuple[int, ...], list[Device]], color_map: ColorMap | None) -> _Paint:
    """What gives cells the colour of the first device that holds them, for terminals."""
    first = {place: min(map(_id, devices)) for place, devices in holders.items()}
    most = max(max(map(_id, devices)) for devices in holders.values()) or 1

    def paint(place: tuple[int, ...], cell: str) -> str:
        number = first[place]
        if color_map is None:
            red, green, blue = _PALETTE[number % len(_PALETTE)]
        else:
            red, green, blue = (round(255 * part) for part in tuple(color_map(number / most))[:3])
        # Dark letters on light colours, weighted as eyes do.
        ink = 30 if 0.3 * red + 0.6 * green + 0.1 * blue > 128 else 97
        return f"\x1b[{ink};48;2;{red};{green};{blue}m{cell}\x1b[0m"

    return paint
