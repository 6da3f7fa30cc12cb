"""A run as one HTML file that opens without a network: figures over the steps, and the verdicts beside the source lines.

Drawn by plotly.js, which stands in the file. Whatever comes from the person's project is escaped, and the page's own
policy lets no script run but the two that are written here.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t4lint.record.picture import ATTENTION, COPIES_IN, COPIES_OUT, RESIDENT, REST, WAITS, Moment, Picture
from t4lint.report.frame import visible
from t4lint.report.screen import MARKS, WORDS
from t4lint.report.text import chain, gpu, measured, place, sorted_findings
from t4lint.sources.positions import split_lines

if TYPE_CHECKING:
    from t4lint.findings import Finding, Report

FOLDER = Path(__file__).parent
NEEDED = "a page of the run is drawn with plotly: pip install 't4lint[report]'"
AROUND = 3  # lines shown before and after a finding
GIB, MIB = 2**30, 2**20
APART = 0.08  # of the width: a name of a step that stands nearer to the next one is left out
NEAR = 0.1  # of the limit: below, the chart shows the memory itself at first, and not the whole card

# Colours that people with any kind of colour vision tell apart (Okabe and Ito), on light and dark.
KINDS = {
    "weights": ("weights", "#0072B2"),
    "gradients": ("gradients", "#56B4E9"),
    "optimizer": ("optimizer state", "#009E73"),
    "activations": ("activations", "#E69F00"),
    "temporary": ("temporary", "#D55E00"),
    "workspace": ("workspaces of libraries", "#CC79A7"),
    "other": ("inputs and others", "#999999"),
    REST: (REST, "#E69F00"),
    RESIDENT: ("this process", "#999999"),
}
DTYPES = {"float16": "#009E73", "bfloat16": "#CC79A7", "float32": "#0072B2", "float64": "#999999"}
KERNELS = {"efficient": "#009E73", "math": "#D55E00", "flash": "#0072B2", "cudnn": "#56B4E9"}
COUNTS = {COPIES_IN: "#0072B2", COPIES_OUT: "#56B4E9", WAITS: "#D55E00"}
UNNAMED = "#999999"

BASES = {
    "phantom": "an {gpu} that is not there: shapes, dtypes and memory are known, values and time are not",
    "t4": "a real {gpu}",
    "gpu": "another GPU than the {gpu}, held to its memory",
    "cpu": "the CPU of this machine: what only a GPU shows is not known",
}


class NoPlotly(Exception):  # noqa: N818
    """The library that draws is not installed; the message says how to get it."""


def check() -> None:
    """Raises NoPlotly where the page could not be drawn: to be asked before the run."""
    try:
        import plotly  # noqa: F401
    except ImportError:
        raise NoPlotly(NEEDED) from None


def render(report: Report, picture: Picture, *, version: str) -> str:
    """The page."""
    from plotly.offline import get_plotlyjs

    figures = dict(_figures(picture))
    script = (FOLDER / "run_page.js").read_text(encoding="utf-8")
    library = get_plotlyjs()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {_hash(library)} {_hash(script)}"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>t4lint verify: {_safe(picture.command)}</title>
<style>{(FOLDER / "run_page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<p class="tool">t4lint {_safe(version)} verify</p>
<h1><code>{_safe(picture.command)}</code></h1>
<p>{_safe(_basis(report, picture))}</p>
<p>{_safe(_ended(picture))}</p>
</header>
<main>
{_tiles(report, picture)}
{_messages(report)}
{_memory_section(report, picture)}
<div class="halves">
{_math_section(picture)}
{_attention_section(picture)}
{_traffic_section(picture)}
</div>
{_verdict_section(report)}
</main>
<footer><p>Made by t4lint {_safe(version)}; drawn by plotly.js, which stands in this file. Nothing is loaded from elsewhere.</p></footer>
<script type="application/json" id="figures">{_data(figures)}</script>
<script>{library}</script>
<script>{script}</script>
</body>
</html>
"""


# --- figures -----------------------------------------------------------------------------------------------------


def _figures(picture: Picture) -> Iterator[tuple[str, Any]]:
    """Figures as JSON, by the id of the element that they are drawn in."""
    if picture.moments:
        yield "memory", _plain(memory_figure(picture))
    if any(step.flops for step in picture.steps):
        yield "math", _plain(shares_figure(picture))
    if any(_by_kernel(step.counts) for step in picture.steps):
        yield "attention", _plain(kernels_figure(picture))
    if any(name in step.counts for step in picture.steps for name in COUNTS):
        yield "traffic", _plain(traffic_figure(picture))


def _plain(figure: Any) -> Any:
    return json.loads(figure.to_json())


def memory_figure(picture: Picture) -> Any:
    """Memory in GiB over the moments of the run, stacked by what it is, with the limit."""
    import plotly.graph_objects as go

    moments, unit = picture.moments, GIB
    figure = go.Figure()
    there = {kind for moment in moments for kind in moment.held}
    for kind in [*(kind for kind in KINDS if kind in there), *sorted(there - set(KINDS))]:
        name, colour = KINDS.get(kind, (kind, UNNAMED))
        figure.add_scatter(
            x=list(range(len(moments))), y=[moment.held.get(kind, 0) / unit for moment in moments], name=_label(name),
            stackgroup="memory", mode="lines", line={"width": 0.5, "color": colour, "shape": _shape(picture)},
            fillcolor=colour, customdata=[_when(moment) for moment in moments],
            hovertemplate="%{customdata}: %{y:.3f} GiB<extra>" + _label(name) + "</extra>",
        )  # fmt: skip
    starts = _starts(moments)
    if len(starts) > 1 and starts[1][0] - starts[0][0] < len(moments) * APART:
        del starts[0]
    figure.update_xaxes(tickvals=[index for index, _ in starts], ticktext=[name for _, name in starts], showgrid=True)
    figure.update_yaxes(title="GiB", rangemode="tozero")
    if picture.limit:
        figure.add_hline(
            y=picture.limit / unit, line={"dash": "dash", "width": 2, "color": "#D00000"},
            annotation={"text": f"limit {picture.limit / unit:.2f} GiB", "font": {"color": "#D00000"}},
            annotation_position="top left",
        )  # fmt: skip
    peak = picture.peak
    most = sum(peak.held.values()) / unit if peak else 0.0
    limit = picture.limit / unit
    whole = max(most, limit) * 1.08
    own = most * 1.15 or 1.0
    figure.update_layout(yaxis_range=[0, whole if most >= limit * NEAR else own], meta={"whole": whole, "own": own})
    return _dressed(figure)


def shares_figure(picture: Picture) -> Any:
    """For each step the share of FLOPs by dtype."""
    import plotly.graph_objects as go

    figure = go.Figure()
    steps = [step for step in picture.steps if step.flops]
    names = [f"step {step.number}" for step in steps]
    totals = [sum(step.flops.values()) for step in steps]
    for dtype in sorted({dtype for step in steps for dtype in step.flops}):
        shares = [step.flops.get(dtype, 0.0) / total for step, total in zip(steps, totals, strict=True)]
        figure.add_bar(
            y=names, x=shares, orientation="h", name=_label(dtype), marker_color=DTYPES.get(dtype, UNNAMED),
            customdata=[step.flops.get(dtype, 0.0) / 1e9 for step in steps],
            hovertemplate="%{y}: %{x:.1%}, %{customdata:.3g} GFLOP<extra>" + _label(dtype) + "</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", xaxis={"tickformat": ".0%", "range": [0, 1]}, yaxis={"autorange": "reversed"})
    return _dressed(figure, height=_bars_height(len(steps)))


def kernels_figure(picture: Picture) -> Any:
    """For each step how often each kernel of attention was called."""
    steps = [step for step in picture.steps if _by_kernel(step.counts)]
    series = {
        name: [_by_kernel(step.counts).get(name, 0) for step in steps]
        for step in steps
        for name in _by_kernel(step.counts)
    }
    return _counted([f"step {step.number}" for step in steps], series, KERNELS, "calls", "stack")


def traffic_figure(picture: Picture) -> Any:
    """For each step copies each way, and how often the program waits for the GPU."""
    steps = picture.steps
    series = {name: [step.counts.get(name, 0) for step in steps] for name in COUNTS}
    return _counted([f"step {step.number}" for step in steps], series, COUNTS, "times", "group")


def _counted(
    names: Sequence[str], series: Mapping[str, Sequence[int]], colours: Mapping[str, str], unit: str, mode: str
) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, values in series.items():
        figure.add_bar(
            x=list(names), y=list(values), name=_label(name), marker_color=colours.get(name, UNNAMED),
            hovertemplate="%{x}: %{y}<extra>" + _label(name) + "</extra>",
        )  # fmt: skip
    figure.update_layout(barmode=mode, yaxis={"title": unit, "rangemode": "tozero"})
    return _dressed(figure)


def _dressed(figure: Any, height: int = 340) -> Any:
    """What all figures share; the colours of text and lines are the page's, set by its script."""
    figure.update_layout(
        template="none", height=height, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 8, "r": 12, "t": 12, "b": 8}, hovermode="closest",
        legend={"orientation": "h", "y": -0.18, "x": 0, "yanchor": "top"},
    )  # fmt: skip
    figure.update_layout(showlegend=True, bargap=0.35)
    figure.update_xaxes(automargin=True, zeroline=False, fixedrange=True, tickangle=0)
    figure.update_yaxes(automargin=True, zeroline=False, fixedrange=True)
    return figure


def _bars_height(count: int) -> int:
    return 120 + 34 * count


def _shape(picture: Picture) -> str:
    """A phantom's moments are levels; high-water marks are read at points."""
    return "hv" if picture.memory == "held" else "linear"


def _when(moment: Moment) -> str:
    return "setup" if moment.phase == "setup" else f"step {moment.step + 1}, {moment.phase}"


def _starts(moments: Sequence[Moment]) -> list[tuple[int, str]]:
    """The moment from which on it is another step, and its name."""
    found: list[tuple[int, str]] = []
    for index, moment in enumerate(moments):
        name = "setup" if moment.phase == "setup" and moment.step == 0 else f"step {moment.step + 1}"
        if not found or found[-1][1] != name:
            found.append((index, name))
    return found


def _by_kernel(counts: Mapping[str, int]) -> dict[str, int]:
    return {name.removeprefix(ATTENTION): count for name, count in counts.items() if name.startswith(ATTENTION)}


def _label(text: str) -> str:
    """plotly takes tags in its texts."""
    return html.escape(visible(text), quote=False)


# --- sections ----------------------------------------------------------------------------------------------------


def _basis(report: Report, picture: Picture) -> str:
    return f"It ran on {BASES.get(picture.basis, picture.basis).format(gpu=gpu(report.target))}."


def _ended(picture: Picture) -> str:
    outcome = picture.outcome
    how = f"{WORDS[outcome.how]}: " if outcome.how in WORDS else ""
    where = f" at {outcome.path}:{outcome.line}" if outcome.path else ""
    return f"Its end: {how}{outcome.detail}{where}, after {picture.seconds:.1f} s."


def _tiles(report: Report, picture: Picture) -> str:
    """The few numbers that people come for."""
    tiles = [_peak_tile(report, picture)] if picture.peak else []
    counts = dict.fromkeys(MARKS, 0)
    for finding in report.findings:
        if finding.verdict is not None:
            counts[finding.verdict.verdict] += 1
    for name, (mark, meaning) in MARKS.items():
        tiles.append(
            f'<div class="tile {_class(name)}"><b>{counts[name]}</b> <span class="mark">{mark}</span> {name}'
            f"<small>{_safe(meaning)}</small></div>"
        )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _peak_tile(report: Report, picture: Picture) -> str:
    peak = picture.peak
    assert peak is not None
    size = sum(peak.held.values())
    if not picture.limit:
        return f'<div class="tile wide"><b>{_bytes(size)}</b> at most, of this machine<small>not the memory of a GPU</small></div>'
    share = size / picture.limit
    fits = "fits" if size <= picture.limit else "does not fit"
    return (
        f'<div class="tile wide"><b>{_bytes(size)}</b> at most, in {_safe(_when(peak))}: {fits}'
        f'<span class="gauge" role="img" aria-label="{share:.0%} of the limit">'
        f'<span class="{"full" if share > 1 else "part"}" style="width:{min(share, 1):.1%}"></span></span>'
        f"<small>{share:.0%} of the {_bytes(picture.limit)} that {_safe(gpu(report.target))} leaves to PyTorch</small></div>"
    )


def _messages(report: Report) -> str:
    said = [f'<li class="problem">{_safe(_at(it.path, it.line) + it.message)}</li>' for it in report.problems]
    said += [f"<li>{_safe(note)}</li>" for note in report.notes]
    return f'<ul class="messages">{"".join(said)}</ul>' if said else ""


def _at(path: str, line: int | None) -> str:
    return f"{path}:{line}: " if path and line else f"{path}: " if path else ""


MEMORY_TOLD = {
    "held": "What the card holds, allocation by allocation, as PyTorch's allocator counts it.",
    "marks": "The high-water mark at the end of each phase, as PyTorch's allocator has it: it never falls.",
    "resident": "The memory of the process on this machine. It says nothing of a GPU: --device phantom does.",
}


def _memory_section(report: Report, picture: Picture) -> str:
    told = MEMORY_TOLD.get(picture.memory)
    if told is None:
        return _section("Memory", "<p>No optimizer step was reached, so that nothing is known of the memory.</p>")
    buttons = (
        '<p class="buttons"><button type="button" data-range="own">the memory</button>'
        '<button type="button" data-range="whole">the whole card</button></p>'
        if picture.limit
        else ""
    )
    peak = picture.peak
    parts = (
        _table(("at the fullest moment", "size"), [(_kind(kind), _bytes(size)) for kind, size in _falling(peak.held)])
        if peak
        else ""
    )
    largest = _table(
        ("largest at that moment", "made by", "where", "size"),
        [(_kind(it.kind), f"{it.operation} x {it.count}", it.at, _bytes(it.size)) for it in picture.largest],
    )
    return _section(
        "Memory over the steps",
        f'<p>{told}</p>{buttons}{_figure("memory", "memory over the steps")}<div class="tables">{parts}{largest}</div>',
    )


def _kind(kind: str) -> str:
    return KINDS.get(kind, (kind, ""))[0]


def _falling(held: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(held.items(), key=lambda item: -item[1])


def _math_section(picture: Picture) -> str:
    if not any(step.flops for step in picture.steps):
        return _section("Matrix products by dtype", "<p>No product or convolution was seen in a step.</p>")
    asked = "would run in on a GPU" if picture.basis == "cpu" else "ran in"
    told = f"Share of the FLOPs of products and convolutions in the forward passes, by the dtype that they {asked}."
    rows = [
        (
            f"step {step.number}",
            *(", ".join(f"{dtype} {flops / 1e9:.3g} GFLOP" for dtype, flops in sorted(step.flops.items())),),
        )
        for step in picture.steps
    ]
    return _section(
        "Matrix products by dtype", f"<p>{told}</p>{_figure('math', told)}{_numbers(('step', 'FLOPs'), rows)}"
    )


def _attention_section(picture: Picture) -> str:
    if not picture.kernels:
        return ""
    drawn = _figure("attention", "calls of attention") if any(_by_kernel(step.counts) for step in picture.steps) else ""
    told = (
        "The kernels that scaled_dot_product_attention took."
        if picture.basis != "cpu"
        else ("Calls of attention. Which kernel a GPU would take is not known on a CPU.")
    )
    rows = [(it.name, it.why, it.dtype, _number(it.head_dim), _number(it.length), it.at) for it in picture.kernels]
    table = _table(("kernel", "why no better one", "dtype", "head size", "length", "where"), rows)
    return _section("Attention", f"<p>{told}</p>{drawn}{table}")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _traffic_section(picture: Picture) -> str:
    if not any(name in step.counts for step in picture.steps for name in COUNTS):
        why = "a CPU run has no GPU to copy to or to wait for" if picture.basis == "cpu" else "none were seen"
        return _section("Copies and waits in each step", f"<p>No numbers: {why}.</p>") if picture.steps else ""
    whose = (
        "by whatever code"
        if picture.basis == "phantom"
        else "by the program's own code; those of libraries are not seen"
    )
    told = (
        f"Copies between the CPU and the GPU, and how often the program waits for the GPU ({whose}): a value is asked for "
        "(item, a test, a copy back), and the GPU runs dry."
    )
    rows = [(f"step {step.number}", *(str(step.counts.get(name, 0)) for name in COUNTS)) for step in picture.steps]
    return _section(
        "Copies and waits in each step", f"<p>{told}</p>{_figure('traffic', told)}{_numbers(('step', *COUNTS), rows)}"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _figure(name: str, label: str) -> str:
    return f'<div class="figure" id="{name}" role="img" aria-label="{_safe(label)}"></div>'


def _numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"<details><summary>the numbers</summary>{_table(head, rows)}</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    top = "".join(f"<th>{_safe(it)}</th>" for it in head)
    body = "".join("<tr>" + "".join(f"<td>{_safe(it)}</td>" for it in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


# --- verdicts ----------------------------------------------------------------------------------------------------


def _verdict_section(report: Report) -> str:
    """Each file that has findings: its lines around them, and what the run said beside these."""
    if not report.findings:
        return _section("Verdicts", "<p>No findings.</p>")
    files: dict[str, list[Finding]] = {}
    for finding in sorted_findings(report.findings):
        files.setdefault(finding.location.path, []).append(finding)
    blocks = [
        f"<h3><code>{_safe(path)}</code></h3>" + "".join(_excerpts(findings, report.sources.get(path)))
        for path, findings in files.items()
    ]
    return _section("Verdicts beside the lines", "".join(blocks))


def _excerpts(findings: Sequence[Finding], source: str | None) -> Iterator[str]:
    lines = split_lines(source) if source is not None else []
    for group in _near(findings):
        first = max(1, group[0].location.line - AROUND)
        last = min(len(lines), max(_last(finding) for finding in group) + AROUND)
        code = _code(lines, first, last, group) if lines else ""
        yield f'<div class="pair">{code}<div class="said">{"".join(map(_said, group))}</div></div>'


def _near(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Findings whose lines and surroundings meet stand together."""
    group: list[Finding] = []
    for finding in findings:
        if group and finding.location.line - AROUND > max(map(_last, group)) + AROUND + 1:
            yield group
            group = []
        group.append(finding)
    if group:
        yield group


def _last(finding: Finding) -> int:
    return max(finding.location.line, finding.location.end_line)


def _code(lines: Sequence[str], first: int, last: int, findings: Sequence[Finding]) -> str:
    rows = []
    for number in range(first, last + 1):
        about = [it for it in findings if it.location.line <= number <= _last(it)]
        kind = f" class='{_class(_verdict_of(about[0]))}'" if about else ""
        marks = " ".join(MARKS[_verdict_of(it)][0] for it in about if it.location.line == number)
        text = _safe(lines[number - 1].expandtabs(4))
        rows.append(
            f"<tr{kind}><td class='number'>{number}</td><td class='mark'>{marks}</td><td><code>{text}</code></td></tr>"
        )
    return f'<div class="scroll code"><table>{"".join(rows)}</table></div>'


def _said(finding: Finding) -> str:
    name = _verdict_of(finding)
    verdict = finding.verdict
    mark = MARKS[name][0] if name in MARKS else ""
    said = [f"<p>{_prose(finding.message)}</p>"]
    if verdict is not None:
        label = name if name == "not exercised" else f"{name} on {verdict.basis}"
        unsure = (
            f" ({verdict.confidence})" if verdict.confidence != "certain" and name in ("confirmed", "refuted") else ""
        )
        shown = "; ".join(part for part in (verdict.evidence, verdict.reason) if part)
        said.append(f"<p class='verdict'><b>{_safe(label + unsure)}</b>{': ' if shown else ''}{_safe(shown)}</p>")
    said += [f"<p>from: {_safe(origin.note)}{_where(origin)}</p>" for origin in chain(finding)]
    said += [f"<p>help: {_prose(finding.help)}</p>"] if finding.help else []
    said += [f"<p>measured: {_safe(measured(finding.effect))}</p>"] if finding.effect is not None else []
    return (
        f'<article class="{_class(name)}"><h4><span class="mark">{mark}</span> {_safe(finding.severity)}: '
        f"{_safe(finding.rule)} <small>{_safe(place(finding.location))}</small></h4>{''.join(said)}</article>"
    )


def _where(origin: Any) -> str:
    return f" ({_safe(place(origin.location))})" if origin.location else ""


def _verdict_of(finding: Finding) -> Any:
    return finding.verdict.verdict if finding.verdict is not None else "not exercised"


# --- text --------------------------------------------------------------------------------------------------------


def _safe(text: str) -> str:
    """Text of anybody's as HTML, also inside of an attribute; what would reorder or hide text is spelled out."""
    return html.escape(visible(text))


def _prose(text: str) -> str:
    """A sentence of a rule: what stands between backquotes is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _safe(text))


def _class(verdict: str) -> str:
    return re.sub(r"\W", "-", verdict)


def _bytes(size: float) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB / 10 else f"{size / MIB:.1f} MiB"


def _data(value: Any) -> str:
    """JSON inside of a script element: nothing in it can end that."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
