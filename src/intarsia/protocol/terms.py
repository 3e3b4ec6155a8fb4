"""The terms of a study: which requests a participant of it can get. Each request says itself where it departs from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from intarsia.core.private.declared import DifferentialPrivacy
from intarsia.protocol.facts import Fact, facts_of

FEDERATED, ONE_SHOT = "federated", "one_shot"
NEAREST, LIKELIEST, GROUPED = "nearest centroid", "likeliest Gaussian", "group of the local cluster"
"""How rows are labelled; participants that join late label by the nearest centroid where the others label by groups."""

LocalNumber = int | Literal["silhouette"] | None
"""Number of local clusters: fixed, the one with the highest mean silhouette, or (None) as the participant chooses."""
SILHOUETTE: Literal["silhouette"] = "silhouette"


@dataclass(frozen=True)
class StudyTerms:
    """What a study asks of one participant. Consent forms and previews list these fields, and admission enforces them."""

    method: Annotated[str, Fact("federated: rounds; one_shot: one summary")]
    n_clusters: Annotated[int | None, Fact("number of clusters, K; auto: chosen from a first summary, then fixed")]
    max_clusters: Annotated[int, Fact("largest K")]
    seed: Annotated[int, Fact("seed of all random numbers")]
    scale: Annotated[str | None, Fact("common units; none: the units of the table")]
    density: Annotated[str | None, Fact("density of each local cluster in the first summary; none: no density")]
    n_local_clusters: Annotated[
        LocalNumber, Fact("number of local clusters; auto: the participant chooses; silhouette: the highest silhouette")
    ]
    max_local_clusters: Annotated[int, Fact("largest number of local clusters to try while K is unknown")]
    labels_by: Annotated[str, Fact("how rows are labelled, once")]
    factors: Annotated[
        Mapping[str, float] | None,
        Fact("columns with a weight, and what their differences in common units are multiplied by; none: no weights"),
    ] = None
    max_rounds: Annotated[int, Fact("largest number of rounds")] = 0
    n_rivals: Annotated[int, Fact("largest number of alternative sets of centroids in the first rounds")] = 0
    trial_rounds: Annotated[int, Fact("number of first rounds that may have alternative sets")] = 0
    crosswise: Annotated[bool, Fact("whether rounds may start from centroids without the participant's own part")] = (
        False
    )
    local_iterations: Annotated[int, Fact("local iterations in each round")] = 1
    min_points: Annotated[int, Fact("number of rows below which a centroid is ignored in a round; no release rule")] = 1
    shrink: Annotated[bool, Fact("whether variances and correlations of densities are shrunk")] = True
    n_proxies: Annotated[int, Fact("points that measure how well a density fits; 0: not measured")] = 0
    halves: Annotated[bool, Fact("whether local clusters may be told as two halves each, once K is known")] = False
    bounding_boxes: Annotated[bool, Fact("whether smallest and largest values of local clusters are asked for")] = False
    stability: Annotated[bool, Fact("whether the stability of each cluster is asked for, once, after the labels")] = (
        False
    )
    previous: Annotated[
        bool,
        Fact("whether runs may start from an earlier model, and count the rows that changed cluster"),
    ] = False
    feasibility: Annotated[
        bool, Fact("whether names and kinds of columns are told when asked for, before and between runs")
    ] = False
    tails: Annotated[
        bool, Fact("whether rows are counted by their distance to the nearest centroid, with the labels")
    ] = False
    privacy: Annotated[DifferentialPrivacy | None, Fact("differential privacy; none: replies have no noise")] = None
    noisy_rounds: Annotated[int, Fact("number of rounds with noise; in a private study there are no others")] = 0
    secure_sums: Annotated[
        bool, Fact("whether units, rounds and sizes are told as totals over all participants only")
    ] = False
    min_holders: Annotated[int, Fact("secure sums: number of holders below which a column is in no sum")] = 0
    needed: Annotated[int, Fact("secure sums: number of participants without which a total is not opened")] = 0
    share_model: Annotated[
        bool,
        Fact(
            "whether each participant gets a copy of the public model at the end: centroids and sizes of all clusters, "
            "over the columns of all participants"
        ),
    ] = False
    share_min_holders: Annotated[
        int,
        Fact("number of participants below which a copy of the public model shows no mean, spread or size of theirs"),
    ] = 1

    @property
    def in_rounds(self) -> bool:
        """Whether all requests of a run share K, units and levels."""
        return self.method == FEDERATED

    def listed(self) -> dict[str, Any]:
        """Return all terms by name, as forms and files show them."""
        return {field.name: _shown(field.name, getattr(self, field.name)) for field in fields(self)}

    def departing(self, **asked: Any) -> Iterator[str]:
        """Yield, for each setting that differs from the terms, what was asked and what the study says."""
        for name, value in asked.items():
            if value != (agreed := getattr(self, name)):
                yield departure(name, _shown(name, value), _shown(name, agreed))

    def departing_k(self, n_clusters: int) -> Iterator[str]:
        """Yield a sentence unless there are as many clusters as the study says."""
        least, most = self.n_clusters or 1, self.max_clusters
        if not least <= n_clusters <= most:
            yield departure("n_clusters", n_clusters, least if least == most else f"{least} to {most}")


def departure(name: str, asked: Any, agreed: Any) -> str:
    """Return in words that a setting of a request is not that of the study."""
    return f"{name} is {asked!r}, and the study says {agreed!r}"


def meaning_of_term(name: str) -> str:
    """Return the meaning of one of the terms in words."""
    return facts_of(StudyTerms)[name].meaning


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, DifferentialPrivacy):
        return str(value)
    return value if value is not None else "auto" if name.startswith("n_") else "none"
