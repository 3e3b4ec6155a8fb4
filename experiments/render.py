"""From results to a page that a person reads: evidence.md with its plots, from the CSV files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from experiments import private_page, store
from experiments.baselines import ALONE, BASELINES, CENTRALISED
from experiments.choosing_k import K_WAYS, NUMBERS, TARGETS, true_number
from experiments.figures import BOLD, Results, Rows, bold, column, mean_sd, paired, pick, table, verdict, worst
from experiments.linkages import EXPONENTS, LINKAGES, SOFTENINGS, merged_with
from experiments.measuring import (
    CEILING,
    FEDERATED,
    FROM_OUTSIDE,
    FROM_TRUTH,
    GROUPING,
    K_CHOSEN,
    MIXTURE,
    ONE_SHOT,
    PAPER_1,
    PAPER_2,
    REFERENCES,
)
from experiments.missing_values import SHARES
from experiments.questions import GRID, PAPERS, behind, first_screen, number_parts, off_by, seeds
from experiments.random_layouts import RANDOM
from experiments.random_tables import random_bars, random_tables
from experiments.rates import ALL_TRIPLETS, BY_IMPORTANCE_TOO, BY_NUMBER, RATES, TESTED, rates_of
from experiments.seeds_of_k import seeds_table
from experiments.splits import LAYOUTS
from experiments.studies import SEPARATIONS, STUDIES

TEMPLATE = Path(__file__).parent / "evidence.template.md"
QMNIST = "QMNIST 0/3/7"
NOBODY = "DIM-set 128, nobody has all"
BY_IMPORTANCE = tuple(name for name in STUDIES if name.endswith("by importance"))
MISSING_VALUE_STUDIES = ("Missing values in HAR", "Missing values in QMNIST 0/3/7")
AT_START = "federated, search, the paper's rounds"  # no rivals: its grouping is the search's own
# Tables 2 to 5 of the paper, by (data, layout): Algorithm 1's and 2's E2/E5, E3 cosine, E3 distance; centralised k-means
PAPER = {
    ("HAR", "chain"): (("99.87 ± 0.04", "1.000", "0.005 ± 0.001"), ("99.87 ± 0.04", "1.000", "0.005 ± 0.001"), "99.91"),
    ("HAR", "core"): (("99.94 ± 0.01", "1.000", "0.002 ± 0.001"), ("99.94 ± 0.00", "1.000", "0.002 ± 0.001"), "99.90"),
    (QMNIST, "chain"): (
        ("92.16 ± 1.28", "0.998", "0.058 ± 0.021"),
        ("91.37 ± 1.35", "0.998", "0.066 ± 0.024"),
        "93.99",
    ),
    (QMNIST, "core"): (("94.59 ± 0.46", "0.998", "0.059 ± 0.009"), ("94.36 ± 0.45", "0.998", "0.062 ± 0.011"), "96.66"),
    ("DIM-set 128", "chain"): (("100 ± 0.00", "1.000", "0.000"), ("100 ± 0.00", "1.000", "0.000"), "100"),
    ("DIM-set 128", "core"): (("100 ± 0.00", "1.000", "0.000"), ("100 ± 0.00", "1.000", "0.000"), "100"),
}
PAPER_ORDER = {"HAR": ("0.999", "0.999"), QMNIST: ("0.948", "0.976"), "DIM-set 128": ("1.000", "1.000")}


def write(folder: Path) -> Path:
    """Render everything that is measured into ``folder``/evidence.md and ``folder``/images."""
    from experiments import plots, question_plots  # matplotlib is in the group of optional packages

    rows = {name: store.read(name) for name in STUDIES}
    parts: dict[str, Callable[[Results], str]] = {
        "questions": first_screen, "behind": behind, "seeds": seeds,
        "random_bars": random_bars, "random_tables": random_tables,
        **{f"tables {name}": partial(paper_section, name) for name in PAPERS},
        **{f"importance {name}": partial(importance_tables, name) for name in PAPERS},
        **{f"baselines {name}": partial(baseline_section, name) for name in (*PAPERS, GRID[2])},
        **{f"missing_values {name}": partial(missing_values_table, name) for name in ("HAR", QMNIST)},
        "ahead": ahead, "never": never_tried, "bars": bars, "nobody": nobody_table, "times": times_table,
        "order": order_table, "rates": rates_table, "by_number": by_number_table,
        "perfect": perfect_table, "misses": misses, "truth": truth_table,
        "mixture": mixture_table, "number": number_table, "cloud": cloud_table, "seeds_of_k": seeds_table,
        "grid": grid_table, "planted": planted_table, "linkages": linkage_table, "exponents": exponent_table,
    }  # fmt: skip
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part(rows))
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    question_plots.draw_all(rows, images)
    plots.separation(rows, images / "separation.svg")
    plots.perfect(rows[QMNIST], images / "perfect.svg")
    plots.linkages(images / "linkages.svg")
    plots.exponents(rows["Exponents on QMNIST 0/3/7"], images / "exponent.svg")
    page = folder / "evidence.md"
    page.write_text(text, encoding="utf-8")
    private_page.write(rows, folder)
    return page


def source(name: str) -> str:
    return f"From {STUDIES[name].source}."


# -- the paper's tables -------------------------------------------------------------------------------------------

HEAD = ("layout", "way", "splits", "E1/E4", "worst", "E2/E5 %", "worst", "E3 cosine", "E3 distance", "worst")


def paper_section(name: str, rows: Results) -> str:
    return f"{source(name)}\n\n{paper_table(name, rows[name])}"


def paper_table(name: str, rows: Rows, paper: str | None = None) -> str:
    lines = []
    for layout in LAYOUTS:
        first, second, central = PAPER[paper or name, layout]
        for number, (accuracy, cosine, distance) in (("1", first), ("2", second)):
            lines.append(
                (layout, f"*the paper, Algorithm {number}*", "", "1.0", "", accuracy, "", cosine, distance, "")
            )
        for way in (*GROUPING, CEILING, CENTRALISED):
            if way != K_CHOSEN and (line := paper_line(rows, layout, way)):
                lines.append(line)
        lines.append((layout, "*the paper, centralised*", "", "", "", central, "", "", "", ""))
        lines.extend(k_chosen(rows, layout))
    return table(HEAD, lines)


def paper_line(rows: Rows, layout: str, way: str) -> tuple[object, ...] | None:
    get = lambda key: column(rows, key, layout=layout, way=way)  # noqa: E731
    accuracy, grouped, distance = get("accuracy"), get("aggregation"), get("centroid_distance")
    if not len(accuracy):
        return None
    return (
        layout, bold(way), len(accuracy), mean_sd(grouped, 3), worst(grouped, 3), mean_sd(accuracy, 2, 100),
        worst(accuracy, 2, 100), mean_sd(get("centroid_cosine"), 3), mean_sd(distance, 4), worst(distance, 4, largest=True),
    )  # fmt: skip


def k_chosen(rows: Rows, layout: str) -> list[tuple[object, ...]]:
    found = column(rows, "n_clusters", layout=layout, way=K_CHOSEN)
    if not len(found):
        return []
    counts = ", ".join(f"{int(k)} on {int((found == k).sum())}" for k in np.unique(found))
    accuracy = column(rows, "accuracy", layout=layout, way=K_CHOSEN)
    return [(
        layout, f"{K_CHOSEN}: {counts}", len(found), "", "", mean_sd(accuracy, 2, 100), worst(accuracy, 2, 100), "", "", ""
    )]  # fmt: skip


def importance_tables(data: str, rows: Results) -> str:
    """All studies of one data set with features dealt by importance."""
    parts = []
    for name in BY_IMPORTANCE:
        if name.startswith(data):
            head = "" if name == f"{data} by importance" else f"{name}. "
            parts.append(f"{head}{source(name)}\n\n{paper_table(name, rows[name], data)}")
    return "\n\n".join(parts)


def nobody_table(rows: Results) -> str:
    """The DIM-sets with a cluster missing at every participant, as the paper says."""
    return f"{source(NOBODY)}\n\n{paper_table(NOBODY, rows[NOBODY], 'DIM-set 128')}"


def times_table(rows: Results) -> str:
    """How much longer Algorithm 2 takes than Algorithm 1, on the same split in one process."""
    lines = []
    for name in PAPERS:
        for layout in LAYOUTS:
            cells = []
            for first, second in ((PAPER_1, PAPER_2), (FEDERATED, ONE_SHOT)):
                one, two = paired(rows[name], "seconds", layout, first, second)
                ratio = two / one
                cells.append(f"{np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})" if len(ratio) else "")
            lines.append((name, layout, *cells))
    return table(("data", "layout", "the paper's Algorithm 2 : 1", "our one-shot : federated"), lines)


def order_table(rows: Results) -> str:
    """Table 1 in both readings, and the reading that counts on features dealt by importance."""
    lines = []
    for name in PAPERS:
        for layout, printed in zip(LAYOUTS, PAPER_ORDER[name], strict=True):
            cells = [_rate(rows[rates_of(name)], layout, way) for way in (TESTED, ALL_TRIPLETS, BY_IMPORTANCE_TOO)]
            lines.append(
                (name, layout, len(column(rows[rates_of(name)], "clear", layout=layout, way=TESTED)), printed, *cells)
            )
    head = (
        "data",
        "layout",
        "splits",
        "the paper",
        "left side holds",
        "all triplets",
        "left side holds, by importance",
    )
    return table(head, lines)


def _rate(rows: Rows, layout: str, way: str) -> str:
    rates = column(rows, "order_preservation", layout=layout, way=way)
    rates = rates[~np.isnan(rates)]
    return f"{rates.mean():.3f} (worst {rates.min():.3f})" if len(rates) else ""


def rates_table(rows: Results) -> str:
    """How often each assumption behind the two algorithms holds."""
    lines = [
        (name, layout, *(_rate(rows[rates_of(name)], layout, way) for way in RATES))
        for name in PAPERS
        for layout in LAYOUTS
    ]
    return table(("data", "layout", *RATES), lines)


def by_number_table(rows: Results) -> str:
    """Table 1's rate in the chain against the number of participants."""
    lines = []
    for name in PAPERS:
        usual = _rate(rows[rates_of(name)], "chain", TESTED)
        lines.append((name, *(_rate(rows[rates_of(name)], "chain", way) for way in BY_NUMBER), usual))
    return table(("data", *(f"{n} participants" for n in BY_NUMBER.values()), "as in the tables (10; HAR: 30)"), lines)


# -- what was to hold ---------------------------------------------------------------------------------------------


def ahead(rows: Results) -> str:
    """Every baseline that is ahead of one of our defaults on the splits that both were tried on."""
    lines = []
    for mine in BOLD:
        for name in (*RANDOM, *PAPERS, *GRID):
            key, unit = ("accuracy", "accuracy") if name in PAPERS else ("adjusted_rand", "adjusted Rand index")
            for layout in STUDIES[name].layouts:
                for way in BASELINES:
                    ours, theirs = paired(rows[name], key, layout, mine, way)
                    if way != CENTRALISED and len(ours) and theirs.mean() > ours.mean():
                        better, worse = int((theirs > ours).sum()), int((theirs < ours).sum())
                        figures = (f"{theirs.mean():.4f}", f"{ours.mean():.4f}", f"{better} to {worse} of {len(ours)}")
                        lines.append((mine, name, layout, way, unit, *figures))
    head = ("ours", "data", "layout", "who is ahead", "by", "theirs", "ours", "splits won")
    return table(head, lines) if lines else "Nowhere."


def never_tried(rows: Results) -> str:
    """Baselines that were not tried on some data, or gave fewer clusters than asked for."""
    lines = []
    for name in (*PAPERS, *GRID):
        for layout in LAYOUTS:
            for way in BASELINES:
                found = column(rows[name], "n_clusters", layout=layout, way=way)
                few = int((found < STUDIES[name].n_clusters).sum())
                if not len(found):
                    lines.append((name, layout, way, "not tried: it takes too long, or is not installed"))
                elif few and way != ALONE:
                    lines.append((name, layout, way, f"fewer clusters than asked for on {few} of {len(found)} splits"))
    return table(("data", "layout", "way", ""), lines) if lines else "All were tried everywhere, and gave K clusters."


def bars(rows: Results) -> str:
    """Each promise with its figure and a verdict."""
    lines = [
        *_perfect_bars(rows),
        *_truth_bars(rows),
        _grid_bar(rows),
        *_paper_bars(rows),
        *_order_bars(rows),
        *_gap_bars(rows),
        *_mixture_bars(rows),
    ]
    return table(("what", "measured", "holds"), lines)


def _perfect_bars(rows: Results) -> Iterator[tuple[str, str, str]]:
    for layout, least in (("chain", 0.99), ("core", 0.97)):
        for way, metric in ((FEDERATED, "E1"), (AT_START, "E1"), (ONE_SHOT, "E4")):
            perfect, clear = perfect_of(rows[QMNIST], layout, way, clear=1.0)
            of = {
                FEDERATED: "the default",
                AT_START: "the default's search alone, before any round",
                ONE_SHOT: "one-shot",
            }
            what = f"QMNIST, {layout}: {metric} of {of[way]} perfect on {least:.0%} of the clear splits"
            yield what, f"{perfect} of {clear}", verdict(perfect >= least * clear, clear)


def _truth_bars(rows: Results) -> Iterator[tuple[str, str, str]]:
    for name in (*PAPERS, *GRID):
        for layout in LAYOUTS:
            for theirs in (FROM_TRUTH, FROM_OUTSIDE):
                ours, other = paired(rows[name], "accuracy", layout, FEDERATED, theirs)
                if not len(ours) and theirs == FROM_OUTSIDE:
                    continue
                clear, _ = paired(rows[name], "clear", layout, FEDERATED, theirs)
                parts = (
                    {"all splits": clear >= 0}
                    if name != QMNIST
                    else {"all splits": clear >= 0, "clear splits": clear == 1}
                )
                for which, mask in parts.items():
                    difference = 100 * (ours - other)[mask]
                    what = f"{name}, {layout}, {which}: within 0.3 points of {theirs} on average, 2 on every split"
                    figure = (
                        f"{difference.mean():+.2f} on average, worst {difference.min():+.2f}" if len(difference) else ""
                    )
                    yield (
                        what,
                        figure,
                        verdict(
                            len(difference) > 0 and difference.mean() >= -0.3 and difference.min() >= -2,
                            len(difference),
                        ),
                    )


def _grid_bar(rows: Results) -> tuple[str, str, str]:
    behind, compared = [], 0
    for name in GRID:
        for way in (way for way in BASELINES if way not in {CENTRALISED, ALONE}):
            ours, theirs = paired(rows[name], "adjusted_rand", "chain", FEDERATED, way)
            compared += len(ours)
            if len(ours) and theirs.mean() >= ours.mean():
                behind.append(f"{way} at {name.split()[-1]}")
    what = "Gaussian grid, chain: ahead of every pooled baseline at every separation"
    return what, "behind " + ", ".join(behind) if behind else "ahead everywhere", verdict(not behind, compared)


def _paper_bars(rows: Results) -> Iterator[tuple[str, str, str]]:
    for name in ("DIM-set 128", "HAR", *BY_IMPORTANCE[:3]):
        paper = next(known for known in PAPERS if name.startswith(known))
        for layout in LAYOUTS:
            for way, printed in zip(BOLD, PAPER[paper, layout][:2], strict=True):
                accuracy, grouped, distance = (
                    column(rows[name], key, layout=layout, way=way)
                    for key in ("accuracy", "aggregation", "centroid_distance")
                )
                target, error = float(printed[0].split()[0]), float(printed[2].split()[0])
                what = f"{name}, {layout}, {way}: at or above the paper's {printed[0]} %, E3 {printed[2]}, grouping 1.0"
                if not len(accuracy):
                    yield what, "", verdict(holds=False, measured=0)
                    continue
                central, ceiling = (
                    100 * column(rows[name], "accuracy", layout=layout, way=w).mean() for w in (CENTRALISED, CEILING)
                )
                figure = (
                    f"{100 * accuracy.mean():.2f} %, E3 {distance.mean():.3f}, grouping {grouped.mean():.3f} "
                    f"(here the true masked centroids reach {ceiling:.2f} %, centralised k-means {central:.2f} %)"
                )
                reached = round(100 * accuracy.mean(), 2) >= target and round(distance.mean(), 3) <= error
                yield what, figure, verdict(reached and grouped.min() == 1, len(accuracy))


def _order_bars(rows: Results) -> Iterator[tuple[str, str, str]]:
    for name in PAPERS:
        for layout, printed in zip(LAYOUTS, PAPER_ORDER[name], strict=True):
            rates = column(rows[rates_of(name)], "order_preservation", layout=layout, way=TESTED)
            what = f"{name}, {layout}: order of distances kept as often as in the paper's Table 1 ({printed})"
            yield (
                what,
                f"{rates.mean():.3f}" if len(rates) else "",
                verdict(len(rates) > 0 and round(rates.mean(), 3) >= float(printed), len(rates)),
            )


def _gap_bars(rows: Results) -> Iterator[tuple[str, str, str]]:
    for name in MISSING_VALUE_STUDIES:
        for layout in LAYOUTS:
            for way in BOLD:
                for share, most in ((0.1, 1.0), (0.3, 3.0)):
                    blank, whole = paired(
                        rows[name], "accuracy", layout, f"{way}, {share:.0%} blanked", f"{way}, 0% blanked"
                    )
                    loss = 100 * (blank - whole)
                    what = (
                        f"{name}, {layout}, {way}: {share:.0%} of cells blanked cost at most {most:g} points on average"
                    )
                    figure = f"{loss.mean():+.2f}, worst {loss.min():+.2f}" if len(loss) else ""
                    yield what, figure, verdict(len(loss) > 0 and loss.mean() >= -most, len(loss))


def _mixture_bars(rows: Results) -> Iterator[tuple[str, str, str]]:
    ours, other = paired(rows[QMNIST], "accuracy", "chain", MIXTURE, FEDERATED)
    gain = 100 * (ours - other)
    figure = f"{gain.mean():+.2f} on average, worst {gain.min():+.2f}, over {len(gain)} splits" if len(gain) else ""
    what = "QMNIST, chain: a mixture gains 1.5 points or more over centroids"
    yield what, figure, verdict(len(gain) >= 20 and gain.mean() >= 1.5, len(gain))


# -- a hundred splits ---------------------------------------------------------------------------------------------


def perfect_of(rows: Rows, layout: str, way: str, clear: float) -> tuple[int, int]:
    """How many splits of this clarity are perfect, and how many there are."""
    grouped = [row["aggregation"] for row in pick(rows, layout=layout, way=way) if row["clear"] == clear]
    return sum(value == 1 for value in grouped), len(grouped)


def perfect_table(rows: Results) -> str:
    lines = []
    for layout in LAYOUTS:
        for way in GROUPING:
            if way in {K_CHOSEN, MIXTURE} or not pick(rows[QMNIST], layout=layout, way=way):
                continue
            cells = ["{} of {}".format(*perfect_of(rows[QMNIST], layout, way, clear)) for clear in (1.0, 0.0)]
            grouped = column(rows[QMNIST], "aggregation", layout=layout, way=way)
            lines.append((layout, bold(way), *cells, mean_sd(grouped, 3), worst(grouped, 3)))
    head = ("layout", "way", "perfect, clear splits", "perfect, ambiguous splits", "right group, mean", "worst")
    return f"{source(QMNIST)}\n\n{table(head, lines)}"


def misses(rows: Results) -> str:
    lines = []
    for layout in LAYOUTS:
        for way in BOLD:
            for row in pick(rows[QMNIST], layout=layout, way=way):
                if row["aggregation"] < 1:
                    found, true = row["objective"], row["objective_of_truth"]
                    prefers = "the one found"
                    if true < found - 1e-12:
                        prefers = (
                            "the truth: stopped short" if row["clear"] == 1 else "the truth, which may not be allowed"
                        )
                    if row["overruled"] == 1:
                        prefers += "; the rows decided"
                    state = "clear" if row["clear"] == 1 else "ambiguous"
                    share = f"{row['aggregation']:.3f}"
                    lines.append((layout, way, row["split"], state, share, f"{found:.4g}", f"{true:.4g}", prefers))
    head = ("layout", "way", "split", "", "right group", "objective found", "objective of the truth", "it prefers")
    note = (
        'On an ambiguous split "the truth" puts every local cluster with its majority class, which may put two of one '
        "participant together; the search keeps them apart."
    )
    return f"{table(head, lines)}\n\n{note}" if lines else "None."


def truth_table(rows: Results) -> str:
    lines = []
    for name in (*PAPERS, *GRID):
        for layout in LAYOUTS:
            cells: list[object] = [
                name,
                layout,
                mean_sd(column(rows[name], "accuracy", layout=layout, way=FEDERATED), 2, 100),
            ]
            for theirs in (FROM_TRUTH, FROM_OUTSIDE, CENTRALISED):
                ours, other = paired(rows[name], "accuracy", layout, FEDERATED, theirs)
                difference = 100 * (ours - other)
                cells.append(f"{difference.mean():+.2f} (worst {difference.min():+.2f})" if len(difference) else "")
            if column(rows[name], "accuracy", layout=layout, way=FEDERATED).size:
                lines.append(cells)
    return table(("data", "layout", "ours %", FROM_TRUTH, FROM_OUTSIDE, CENTRALISED), lines)


# -- baselines ----------------------------------------------------------------------------------------------------


def baseline_section(name: str, rows: Results) -> str:
    return baseline_table(rows[name])


def baseline_table(rows: Rows) -> str:
    lines = []
    for layout in LAYOUTS:
        for way in (*BOLD, *REFERENCES, *BASELINES):
            accuracy, rand = (column(rows, key, layout=layout, way=way) for key in ("accuracy", "adjusted_rand"))
            if not len(accuracy):
                continue
            ours, theirs = paired(rows, "seconds", layout, FEDERATED, way)
            sent = column(rows, "bytes_out", layout=layout, way=way).mean() / 1e3
            kb = "" if way in {*REFERENCES, CENTRALISED} else f"{sent:.1f}"
            lines.append(
                (layout, bold(way), len(accuracy), mean_sd(accuracy, 2, 100), worst(accuracy, 2, 100), mean_sd(rand, 3),
                 worst(rand, 3), kb, f"{np.median(theirs / ours):.2g}" if len(ours) else "")
            )  # fmt: skip
    return table(("layout", "way", "splits", "accuracy %", "worst", "adjusted Rand", "worst", "kB", "time"), lines)


def mixture_table(rows: Results) -> str:
    """What one more step, labels by the likeliest Gaussian, gains over the nearest centroid."""
    lines = []
    for name in (*PAPERS, *GRID):
        for layout in LAYOUTS:
            ours, other = paired(rows[name], "accuracy", layout, MIXTURE, FEDERATED)
            if len(ours):
                gain = 100 * (ours - other)
                better = f"{int((gain > 0).sum())} / {int((gain < 0).sum())}"
                lines.append((name, layout, len(gain), f"{gain.mean():+.2f}", f"{gain.min():+.2f}", better))
    return table(("data", "layout", "splits", "points gained", "worst", "splits better / worse"), lines)


def missing_values_table(data: str, rows: Results) -> str:
    """Accuracy with a share of all cells blanked."""
    lines = []
    for name in (f"Missing values in {data}",):
        for layout in LAYOUTS:
            for way in BOLD:
                cells = [
                    column(rows[name], "accuracy", layout=layout, way=f"{way}, {share:.0%} blanked") for share in SHARES
                ]
                if len(cells[0]):
                    shown = (f"{100 * c.mean():.2f} ({100 * c.min():.2f})" if len(c) else "" for c in cells)
                    lines.append((layout, way, len(cells[0]), *shown))
    return table(("layout", "way", "splits", *(f"{share:.0%} blanked" for share in SHARES)), lines)


def number_table(rows: Results) -> str:
    """How often the chosen K is right, off by one, and the worst; all DIM-sets in one."""
    lines = []
    for title, names in number_parts().items():
        for layout in LAYOUTS:
            for way in K_WAYS:
                off = off_by(rows, names, way, layout)
                if len(off):
                    far = int(off[np.abs(off).argmax()])
                    right, near = f"{np.mean(off == 0):.0%}", f"{np.mean(np.abs(off) == 1):.0%}"
                    lines.append((title, layout, bold(way), len(off), right, near, f"{far:+d}" if far else "0"))
    return table(("data", "layout", "way", "cases", "right", "off by one", "worst"), lines)


def cloud_table(rows: Results) -> str:
    """By true K, how often it is right on the mixtures, over both layouts."""
    lines = []
    for k in NUMBERS:
        cells: list[object] = [k]
        for target in TARGETS:
            name = f"K of mixtures, {target:g}"
            found = [
                int(row["n_clusters"])
                for row in pick(rows[name], way=ONE_SHOT)
                if true_number(name, int(row["split"])) == k
            ]
            counts = {n: found.count(n) for n in sorted(set(found))}
            cells.append(", ".join(f"{n}" if times == 1 else f"{n} ({times} times)" for n, times in counts.items()))
        lines.append(cells)
    return table(("true K", *(f"chosen, adjusted Rand {target:g}" for target in TARGETS)), lines)


def grid_table(rows: Results) -> str:
    lines = []
    for layout in LAYOUTS:
        for way in (*GROUPING, *REFERENCES, *BASELINES):
            cells = [column(rows[name], "adjusted_rand", layout=layout, way=way) for name in GRID]
            if all(len(cell) for cell in cells):
                n = " to ".join(map(str, sorted({len(cell) for cell in cells})))
                lines.append((layout, bold(way), n, *(f"{c.mean():.3f} ({c.min():.2f})" for c in cells)))
    return table(("layout", "way", "splits", *(f"{s:g}" for s in SEPARATIONS)), lines)


# -- distances between sets of clusters ---------------------------------------------------------------------------


def planted_table(_: Results) -> str:
    exponents = {w: " and ".join(merged_with("force", w)) for w in (1.0, *EXPONENTS[1:])}
    lines = [(linkage, " and ".join(merged_with(linkage))) for linkage in LINKAGES]
    lines += [(f"force with w = {w:g}", name) for w, name in exponents.items() if w != 2.0]
    return table(("distance between sets of clusters", "the crosses end up with"), lines)


def linkage_table(rows: Results) -> str:
    lines, name = [], "Linkages on QMNIST 0/3/7"
    for layout in LAYOUTS:
        for linkage in LINKAGES:
            grouped = column(rows[name], "aggregation", layout=layout, way=linkage)
            if len(grouped):
                cells = ["{} of {}".format(*perfect_of(rows[name], layout, linkage, clear)) for clear in (1.0, 0.0)]
                lines.append((layout, linkage, *cells, mean_sd(grouped, 3), worst(grouped, 3)))
    head = ("layout", "distance", "perfect, clear splits", "perfect, ambiguous splits", "right group, mean", "worst")
    return f"{source(name)}\n\n{table(head, lines)}"


def exponent_table(rows: Results) -> str:
    lines, name = [], "Exponents on QMNIST 0/3/7"
    for layout in LAYOUTS:
        for how in ("greedy", "search"):
            for s in SOFTENINGS:
                found = [
                    column(rows[name], "aggregation", layout=layout, way=f"{how}, w={w:g}, s={s:g}") for w in EXPONENTS
                ]
                if all(len(cell) for cell in found):
                    lines.append((layout, how, f"{s:g}", len(found[0]), *(f"{c.mean():.3f}" for c in found)))
    head = ("layout", "merging", "softening", "splits", *(f"w = {w:g}" for w in EXPONENTS))
    return f"Mean share of local clusters in the right group, exact forces. {source(name)}\n\n{table(head, lines)}"
