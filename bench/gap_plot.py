"""The plot of docs/benchmarks/gap.md: for every link and prompt length a row a mode, on which the stations of a request lie. Plain SVG."""
import statistics

WIDTH, LABELS, MARGIN = 1180, 170, 16
PANEL_COLUMNS = 2
ROW, HEAD, FOOT = 17, 26, 26
COLOURS = {"first token": "#555555", "first provisional": "#d9822b", "second token": "#1f6fb2", "32nd token": "#3a9a5b", "end": "#999999"}


def stations(runs: list[dict], drafts: bool) -> dict[str, float]:
    """Medians."""
    figures = {"first token": lambda run: run["ttft_s"], "second token": lambda run: run["committed_s"]["2"], "32nd token": lambda run: run["committed_s"]["32"], "end": lambda run: run["end_s"]}
    if drafts:
        figures["first provisional"] = lambda run: run["shown_s"]["2"]
    return {name: statistics.median(map(figure, runs)) for name, figure in figures.items()}


def mark(name: str, x: float, y: float) -> str:
    colour = COLOURS[name]
    shapes = {"first token": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="white" stroke="{colour}" stroke-width="1.5"/>',
              "first provisional": f'<path d="M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z" fill="{colour}"/>',
              "second token": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>',
              "32nd token": f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>',
              "end": f'<path d="M{x:.1f} {y - 5:.1f}v10" stroke="{colour}" stroke-width="2"/>'}
    return shapes[name]


def text(x: float, y: float, words: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{words}</text>'


def tick_step(longest: float) -> float:
    return next(step for step in (0.5, 1, 2, 5, 10, 20, 50, 100) if longest / step <= 8)


def panel(cell, ways: list[str], left: float, top: float, width: float) -> list[str]:
    rows = [(name, stations(list(cell.by_way[name].values()), name.endswith("draft"))) for name in ways if name in cell.by_way]
    longest = max(station["end"] for _, station in rows) * 1.02
    begin, span = left + LABELS, width - LABELS - MARGIN
    bottom = top + HEAD + ROW * len(ways)
    lines = [text(begin, top + 16, cell.name, extra=' font-weight="bold"')]
    step = tick_step(longest)
    for i in range(int(longest / step) + 1):
        x = begin + i * step / longest * span
        lines += [f'<path d="M{x:.1f} {top + HEAD:.1f}V{bottom:.1f}" stroke="#e4e4e4"/>', text(x, bottom + 14, f"{i * step:g} s", "middle", ' fill="#666666"')]
    for index, (name, station) in enumerate(rows):
        y = top + HEAD + ROW * (index + 0.5)
        lines += [text(begin - 8, y + 4, name, "end"), f'<path d="M{begin:.1f} {y:.1f}H{begin + station["end"] / longest * span:.1f}" stroke="#cccccc"/>']
        lines += [mark(what, begin + station[what] / longest * span, y) for what in reversed(COLOURS) if what in station]
    return lines


def plot(cells: list, ways: list[str]) -> str:
    """The SVG's text."""
    height = HEAD + ROW * len(ways) + FOOT
    rows = -(-len(cells) // PANEL_COLUMNS)
    width = WIDTH / PANEL_COLUMNS
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {30 + rows * height}" font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>']
    x = LABELS
    for name in COLOURS:
        lines += [mark(name, x, 15), text(x + 10, 19, name)]
        x += 150
    for index, cell in enumerate(cells):
        lines += panel(cell, ways, index % PANEL_COLUMNS * width, 30 + index // PANEL_COLUMNS * height, width)
    return "\n".join([*lines, "</svg>"]) + "\n"
