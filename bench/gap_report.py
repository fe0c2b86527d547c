"""Tables, verdicts and the plot of docs/benchmarks/gap.md, from the runs of bench/gap.py."""
import statistics

import gap_plot
from testbed import bits_per_s

PAYLOAD_SHARE = 0.956  # Of a link's rate, what TCP can carry over frames of 1,500 bytes.
TT2T_BOUND, THIRTY_SECOND_BOUND, INT4_BOUND, INT8_BOUND, UNLIMITED_BOUND = 1.10, 1.10, 1.05, 1.43, 1.05


def way(run: dict) -> str:
    return run["mode"] + (f", {run['gap']}" if run["gap"] else "")


def total_bytes(run: dict) -> int:
    return run["receipt"]["bytes"]["first"] + run["receipt"]["bytes"]["residual"]


def link_seconds(run: dict) -> float:
    """What its bytes take on a link that does nothing else."""
    return total_bytes(run) * 8 / (bits_per_s(run["rate"]) * PAYLOAD_SHARE) if run["rate"] else 0


def waits_for_link(run: dict) -> bool:
    """The mode's bytes take longer than the prefill that makes them."""
    return link_seconds(run) > run["ttft_s"]


def second_allowed(run: dict) -> float:
    return run["receipt"]["cache_s"] + run["step_s"]


def thirty_second_allowed(run: dict) -> float:
    """One pass confirms what was accepted and gives one token more; the rest is decoded."""
    return run["receipt"]["cache_s"] + run["step_s"] * (1 + max(0, 30 - run["receipt"]["accepted"]))


class Cell:
    """All runs of one rate and prompt length, by way and round."""

    def __init__(self, rate: str | None, length: int, runs: list[dict]):
        self.rate, self.length = rate, length
        self.by_way: dict[str, dict[int, dict]] = {}
        for run in runs:
            self.by_way.setdefault(way(run), {})[run["round"]] = run

    @property
    def name(self) -> str:
        return f"{self.rate or 'no limit'}, {self.length:,} tokens"

    def values(self, name: str, figure) -> list[float]:
        return [figure(run) for run in self.by_way.get(name, {}).values()]

    def ratios(self, name: str, figure, other: str, other_figure) -> list[float]:
        """Of two figures of the same round."""
        mine, others = self.by_way.get(name, {}), self.by_way.get(other, {})
        return [figure(mine[number]) / other_figure(others[number]) for number in mine if number in others]

    def link_bound(self, name: str) -> bool:
        runs = list(self.by_way[name].values())
        return sum(map(waits_for_link, runs)) * 2 > len(runs)


def second(run: dict) -> float:
    return run["committed_s"]["2"]


def first_provisional(run: dict) -> float:
    return run["shown_s"]["2"]


def end(run: dict) -> float:
    return run["end_s"]


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}…{max(values):.{digits}f})" if values else "–"


def middle(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f}" if values else "–"


def cells_of(data: dict) -> list[Cell]:
    keys = {(run["rate"], run["prompt_tokens"]) for run in data["runs"]}
    order = sorted(keys, key=lambda key: (bits_per_s(key[0]) if key[0] else float("inf"), key[1]))
    return [Cell(rate, length, [run for run in data["runs"] if (run["rate"], run["prompt_tokens"]) == (rate, length)]) for rate, length in order]


def cell_table(cell: Cell, ways: list[str]) -> list[str]:
    lines = [f"### {cell.name}", "", "| mode | MB | first | Anchors | cache (X) | **second** | of bf16's | first provisional | 8th | 16th | 32nd | 64th | end | accepted of drafted | runs |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for name in ways:
        if name not in cell.by_way:
            continue
        runs = list(cell.by_way[name].values())
        drafts = name.endswith("draft")
        marks = []
        for mark in ("8", "16", "32", "64"):
            committed = middle([run["committed_s"][mark] for run in runs])
            marks.append(committed + (f" / {middle([run['shown_s'][mark] for run in runs])}" if drafts else ""))
        anchors = [run["receipt"]["anchors_s"] for run in runs if run["receipt"]["anchors_s"] is not None]
        counted = f"{sum(run['receipt']['accepted'] for run in runs)} of {sum(run['receipt']['drafted'] for run in runs)}" if drafts else "–"
        lines.append(f"| {name} | {middle([total_bytes(run) / 1e6 for run in runs], 1)} | {middle([run['ttft_s'] for run in runs])} | {middle(anchors)} | "
                     f"{middle([run['receipt']['cache_s'] for run in runs])} | **{spread([second(run) for run in runs])}** | {middle(cell.ratios(name, second, 'bf16', second))} | "
                     f"{spread([first_provisional(run) for run in runs]) if drafts else '–'} | {' | '.join(marks)} | {spread([end(run) for run in runs])} | {counted} | {len(runs)} |")
    return lines + [""]


def verdict(line: str, ratios: list[float], bound: float, at_least: bool = False) -> str:
    value = statistics.median(ratios)
    reached = value >= bound if at_least else value <= bound
    return f"| {line} | {spread(ratios, 3)} | {'≥' if at_least else '≤'} {bound} | {'reached' if reached else '**not reached**'} |"


def limits_table(cells: list[Cell], ways: list[str]) -> list[str]:
    lines = ["## What the link allows", "",
             "Of every mode whose bytes take longer than the prefill that makes them (at 95.6 % of the link's rate). X: when the last byte had come, s: a decode step of the same run. Allowed: the "
             "second token at X + s; the 32nd at X + s and a step more for each token that neither a right draft nor the verification gave. For modes without drafts that is X + 31 s. X itself is held "
             "against the time that the mode's bytes alone take on the link, which cannot be reached: the first of them are there only when the first layer is computed.", "",
             "| link, prompt, mode | X, s | X / bytes alone | second token / allowed | 32nd token / allowed | s, ms | |", "|---|---:|---:|---:|---:|---:|---|"]
    missed = total = 0
    for cell in cells:
        for name in (name for name in ways if name in cell.by_way and cell.link_bound(name)):
            seconds = cell.values(name, lambda run: second(run) / second_allowed(run))
            thirties = cell.values(name, lambda run: run["committed_s"]["32"] / thirty_second_allowed(run))
            reached = statistics.median(seconds) <= TT2T_BOUND and statistics.median(thirties) <= THIRTY_SECOND_BOUND
            total += 1
            missed += not reached
            lines.append(f"| {cell.name}, {name} | {middle(cell.values(name, lambda run: run['receipt']['cache_s']))} | "
                         f"{middle(cell.values(name, lambda run: run['receipt']['cache_s'] / link_seconds(run)), 3)} | {spread(seconds, 3)} | {spread(thirties, 3)} | {middle(cell.values(name, lambda run: run['step_s'] * 1e3), 1)} | "
                         f"{'reached' if reached else '**not reached**'} |")
    return lines + ["", f"Both within {TT2T_BOUND}: {total - missed} of {total}.", ""]


def provisional_table(cells: list[Cell], ways: list[str]) -> list[str]:
    lines = ["## The first provisional token", "", "Against the second token of int4, which is there after as many bytes, and of int8, in the same round. `The bytes allow it` where int4's second token "
             f"is itself {INT8_BOUND} times sooner than int8's; elsewhere the prefill, not the link, decides, and the figure is shown without a verdict.", "", "| what | ratio | bound | |", "|---|---:|---:|---|"]
    for cell in cells:
        for name in (name for name in ways if name.endswith("draft") and name in cell.by_way and cell.link_bound(name)):
            against_int4 = cell.ratios(name, first_provisional, "int4", second)
            against_int8 = [1 / ratio for ratio in cell.ratios(name, first_provisional, "int8", second)]
            allowed = [1 / ratio for ratio in cell.ratios("int4", second, "int8", second)]
            if not against_int4 or not against_int8 or not allowed:
                continue
            lines.append(verdict(f"{cell.name}, {name}: over int4's second token", against_int4, INT4_BOUND))
            what = f"{cell.name}, {name}: int8's second token over it"
            if statistics.median(allowed) >= INT8_BOUND:
                lines.append(verdict(what, against_int8, INT8_BOUND, True))
            else:
                lines.append(f"| {what} | {spread(against_int8, 3)} | – | the bytes do not allow it: int4's own is {middle(allowed, 2)} |")
    return lines + [""]


def unlimited_table(cells: list[Cell], ways: list[str]) -> list[str]:
    lines = ["## A link that is no bottleneck", "", "End to end (80 tokens), over bf16's in the same round.", "", "| what | ratio | bound | |", "|---|---:|---:|---|"]
    for cell in (cell for cell in cells if cell.rate is None):
        for name in (name for name in ways if name != "bf16"):
            ratios = cell.ratios(name, end, "bf16", end)
            if ratios:
                lines.append(verdict(f"{cell.length:,} tokens, {name}", ratios, UNLIMITED_BOUND))
    return lines + [""]


def texts(data: dict, ways: list[str]) -> list[str]:
    lines = ["## Texts", "", "80 tokens each, greedy, held against `lynx-decode-node --aggregated` on the mode's full view; and how far they are those of bf16.", "",
             "| mode | runs | equal to the oracle | equal to bf16's text | first token that is not bf16's, median |", "|---|---:|---:|---:|---:|"]
    for name in ways:
        runs = [run for run in data["runs"] if way(run) == name]
        oracle = sum(run["differs_from_oracle_at"] is None for run in runs)
        differs = [run["differs_from_bf16_at"] + 1 for run in runs if run["differs_from_bf16_at"] is not None]
        lines.append(f"| {name} | {len(runs)} | {oracle if oracle == len(runs) else f'**{oracle}**'} | {len(runs) - len(differs)} | {middle(differs, 0)} |")
    return lines + [""]


def verdicts(tables: list[tuple[str, list[str]]], data: dict) -> list[str]:
    """How many lines of each table say that their bound was reached."""
    lines = ["| to be reached | lines that did |", "|---|---:|"]
    for what, table in tables:
        judged = [line for line in table if line.endswith("reached |") or line.endswith("reached** |")]
        missed = sum("not reached" in line for line in judged)
        lines.append(f"| {what} | {len(judged) - missed} of {len(judged)} |")
    equal = sum(run["differs_from_oracle_at"] is None for run in data["runs"])
    return [*lines, f"| texts equal to the oracle's | {equal} of {len(data['runs'])} |", ""]


def report(data: dict) -> tuple[str, str]:
    """(the page, the plot)"""
    cells = cells_of(data)
    seen = {way(run) for run in data["runs"]}
    order = ["bf16", "lossless", "int8", "int4", "progressive-int8, draft", "progressive-int8, wait", "progressive-exact, draft", "progressive-exact, wait"]
    ways = [name for name in order if name in seen]
    counts = [len(runs) for cell in cells for runs in cell.by_way.values()]
    dates = sorted({entry["date"] for entry in data["commands"]})
    lines = ["# The gap between Anchors and Residuals", "",
             "What a client sees while a prompt's KV cache crosses a slow link, by mode. Times are seconds at the client, streamed over HTTP, from the request on: medians, with ranges in brackets; where "
             "two stand in one field, of committed and of provisional tokens (shown as provisional or committed, whichever came first). Ratios are of the same round.", "",
             f"- {data['machine']}, {', '.join(dates)}; SmolLM2-135M-Instruct Q4_1; two cores: the prefill node on one, the decode node on the other, one thread each",
             *(f"- Command: `{entry['command']}` (load average at its start {entry['load']})" + (f". {entry['remark']}" if "remark" in entry else "") for entry in data["commands"]),
             "- The full one: `bench/gap.py --repeats 7 --first --out docs/benchmarks/gap.md`",
             f"- Runs a mode, rate and prompt length: {min(counts)}" + (f" … {max(counts)}" if max(counts) > min(counts) else "") + ("; fewer than the seven that were wanted" if min(counts) < 7 else ""),
             "- Two network namespaces, a veth pair, `tc tbf` each way (`bench/testbed.py`). Prompts are chats about this repository's own text, cut to length in tokens: four of each length, one a round, the same for all modes.", "",
             "![times of tokens by mode, link and prompt length](gap.svg)", ""]
    limits, provisional, unlimited = limits_table(cells, ways), provisional_table(cells, ways), unlimited_table(cells, ways)
    lines += verdicts([(f"second and 32nd token within {TT2T_BOUND} times what X and s allow, where the link is the bottleneck", limits),
                       (f"first provisional token within {INT4_BOUND} of int4's second token", [line for line in provisional if "over int4" in line]),
                       (f"and at least {INT8_BOUND} times sooner than int8's, where the bytes allow it", [line for line in provisional if "int8's second token over" in line]),
                       (f"on an unlimited link end to end within {UNLIMITED_BOUND} of bf16", unlimited)], data)
    lines += limits + provisional + unlimited + texts(data, ways)
    lines += ["## All figures", ""]
    for cell in cells:
        lines += cell_table(cell, ways)
    return "\n".join(lines).rstrip() + "\n", gap_plot.plot(cells, ways)
